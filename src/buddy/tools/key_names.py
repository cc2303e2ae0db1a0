"""Names of keys as tmux spells them; other programs' spellings are refused with the right one.

Invariants: a name that passes is pressed as a key, never typed as a word; nothing is guessed and then sent.
"""

import re

from buddy.errors import ToolError
from buddy.protocol.typed_text import is_key_name

_MODIFIERS = {
    **dict.fromkeys(("c", "ctrl", "control", "ctl"), "C-"),
    **dict.fromkeys(("m", "alt", "meta", "opt", "option"), "M-"),
    **dict.fromkeys(("s", "shift"), "S-"),
}
_NAMES = {
    **dict.fromkeys(("return", "ret", "cr", "newline", "linefeed", "lf"), "Enter"),
    "esc": "Escape",
    **dict.fromkeys(("backspace", "bs", "bksp"), "BSpace"),
    "del": "Delete",
    "ins": "Insert",
    **dict.fromkeys(("spacebar", "spc"), "Space"),
    **{f"arrow{name.lower()}": name for name in ("Up", "Down", "Left", "Right")},
    **{f"{name.lower()}arrow": name for name in ("Up", "Down", "Left", "Right")},
    "backtab": "BTab",
    "pagedn": "PageDown",
    **{name.lower(): name for name in ("Enter", "Escape", "Tab", "Space", "PageUp", "PageDown", "Home", "End")},
}
_BETWEEN = re.compile(r"[-+_ ]")
_PRESSED_WITH = re.compile(rf"({'|'.join(_MODIFIERS)})[-+_ ]+(.+)", re.IGNORECASE)
SHOWN = 40


def check_keys(keys: tuple[str, ...]) -> None:
    """Refuse names that tmux would type as text."""
    for key in keys:
        if not is_key_name(key):
            raise ToolError(f"{key[:SHOWN]!r} is not the name of a key; {_advice(key)}")


def _advice(key: str) -> str:
    if meant := _meant(key):
        return f"use {meant!r}"
    return (
        "use a name such as Enter, Escape, Tab, Space, BSpace, Up, PageDown, F1 or C-c (with C-, M-, S-), or a single "
        "character; put text into literal_text"
    )


def _meant(key: str) -> str:
    """The spelling of tmux for a key that is named in another way; empty if there is none."""
    rest, modifiers = key.strip().strip("<>[]{}"), ""
    while found := _PRESSED_WITH.fullmatch(rest):
        modifiers += _MODIFIERS[found[1].lower()]
        rest = found[2]
    name = _NAMES.get(_BETWEEN.sub("", rest).lower(), rest)
    if len(name) == 1 and modifiers == "C-":
        name = name.lower()
    meant = "BTab" if (modifiers, name) == ("S-", "Tab") else modifiers + name
    return meant if meant != key and is_key_name(meant) else ""

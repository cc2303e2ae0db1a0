"""File names as a model sees them: one name is one line, and no character in it acts on anything.

Invariants: a quoted name stands for exactly one name, and tools accept it as it was shown; an ordinary name is shown as
it is; a name that starts with a quotation mark is always quoted, so that none can pass for a quoted one.
"""

import re

from msgspec import Struct
from msgspec.structs import force_setattr

from buddy.characters import LINE, UNSAFE, spell
from buddy.errors import ToolError

_UNSAFE = re.compile(f"[{LINE}{UNSAFE}]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\(?:["\\nt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*)"')
_ESCAPE = re.compile(r"\\(?:([\"\\nt])|x(\w{2})|u(\w{4})|U(\w{8}))")
_SHORT = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}


def quote(name: str) -> str:
    """The name, in quotation marks and with escapes if it could not be shown as it is."""
    if not name.startswith('"') and _UNSAFE.search(name) is None:
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _UNSAFE.sub(lambda found: spell(found[0]), escaped) + '"'


def unquote(text: str) -> str:
    """The name that a model gave, as it was shown or as it is."""
    found = _QUOTED.fullmatch(text)
    if found is None:
        return text
    name = _ESCAPE.sub(_character, found[1])
    if re.search("[\ud800-\udfff]", name):
        raise ToolError(f"{text} is not a name in UTF-8, which only commands can open; use run_shell")
    return name


def _character(escape: "re.Match[str]") -> str:
    if escape[1]:
        return _SHORT[escape[1]]
    return chr(min(int(escape[2] or escape[3] or escape[4], 16), 0x10FFFF))


class NamesPath(Struct, frozen=True):
    """Arguments with a `path`, which may be given as a name was shown."""

    def __post_init__(self) -> None:
        path = getattr(self, "path", "")
        if path.startswith('"'):
            force_setattr(self, "path", unquote(path))

"""Rebases and the like that git would continue later: what they have left to do may name commands.

Invariants: only what is known to run nothing is harmless; what cannot be read or understood is not.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator

from buddy.regular_files import read_regular

MAX_STATE = 1024 * 1024
STATES = ("rebase-merge", "rebase-apply", "sequencer")
_STEPS = frozenset(
    """
    p pick r reword e edit s squash f fixup d drop l label t reset m merge u update-ref b break noop revert
    """.split()  # noqa: SIM905 - easier to read
)
_WORD = re.compile(rb"[A-Za-z-]+")
_QUOTED = rb"'(?:[^'\0]|'\\[!']')*'"
# Once read by a shell.
_AUTHOR = re.compile(rb"(?:GIT_AUTHOR_(?:NAME|EMAIL|DATE)=" + _QUOTED + rb"\n?)*")
# A name with a slash would be that of a program in the work tree.
_STRATEGY = re.compile(rb"[a-z-]*\n?")
_OPTION = re.compile(rb"^\s*strategy = [a-z-]+$", re.MULTILINE)
_ANY_OPTION = re.compile(rb"strategy(?!-option)", re.IGNORECASE)


def risky_operations(places: Iterable[str]) -> Iterator[str]:
    """The state of each operation in these repositories that may run something when it is continued."""
    for place in places:
        for name in STATES:
            state = f"{place}/{name}"
            if os.path.lexists(state) and not _is_harmless(state):
                yield state


def _is_harmless(state: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(state).st_mode) and all(
            judge(read_regular(f"{state}/{name}", MAX_STATE))
            for name, judge in _JUDGES.items()
            if os.path.lexists(f"{state}/{name}")
        )
    except OSError:
        return False


def _are_steps_harmless(text: bytes) -> bool:
    if len(text) >= MAX_STATE or b"\0" in text:
        return False
    words = (_WORD.match(line.strip()) for line in text.split(b"\n"))
    # Without a word it is a comment, or an error.
    return all(word[0].decode() in _STEPS for word in words if word)


def _are_options_harmless(text: bytes) -> bool:
    return len(text) < MAX_STATE and len(_ANY_OPTION.findall(text)) == len(_OPTION.findall(text))


def _is_strategy_harmless(text: bytes) -> bool:
    return _STRATEGY.fullmatch(text) is not None


def _is_author_harmless(text: bytes) -> bool:
    return len(text) < MAX_STATE and _AUTHOR.fullmatch(text) is not None


_JUDGES = {
    "git-rebase-todo": _are_steps_harmless,
    "todo": _are_steps_harmless,
    "opts": _are_options_harmless,
    "strategy": _is_strategy_harmless,
    "author-script": _is_author_harmless,
}

"""The one place that escapes: whatever comes from outside reaches a terminal only as text."""

import re
from collections.abc import Callable

from buddy.characters import DECEPTIVE, UNSAFE, spell

_UNSAFE = f"[{UNSAFE}]"
_DECEPTIVE = f"[{DECEPTIVE}]"


def escape(text: str) -> str:
    """Spell control characters out, such as `\\x1b`."""
    return _replace(_UNSAFE, _spell, text)


def escape_all(text: str) -> str:
    """For what is about to be approved: whatever could make different words look the same is spelled out too."""
    return _replace(_DECEPTIVE, _spell, text)


def escape_json(text: str) -> str:
    """The same JSON value without characters a terminal would act on: JSON strings can spell all of them."""
    return _replace(_UNSAFE, _spell_json, text)


def one_line(text: str, width: int = 120) -> str:
    """Escaped, on one line, cut to a width."""
    flat = " ".join(escape(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _replace(unsafe: str, spelling: Callable[[re.Match[str]], str], text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return re.sub(unsafe, spelling, text)


def _spell(found: re.Match[str]) -> str:
    return spell(found[0])


def _spell_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

"""The one place that escapes: whatever comes from outside reaches a terminal only as text."""

import re
from collections.abc import Callable

# C0 except newline and tab, DEL, C1, lone surrogates, and characters that reorder or hide text. Joiners are kept: emoji
# and some scripts need them.
_MARKS = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_UNSAFE = f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{_MARKS}]"
_JOINERS = "[\u200c\u200d]"


def escape(text: str) -> str:
    """Spell control characters out, such as `\\x1b`."""
    return _replace(_UNSAFE, _spell, text)


def escape_all(text: str) -> str:
    """For what is about to be approved: also joiners, so that different words never look the same."""
    return _replace(_JOINERS, _spell, escape(text))


def escape_json(text: str) -> str:
    """The same JSON value without characters a terminal would act on: JSON strings can spell all of them."""
    return _replace(_UNSAFE, _spell_json, text)


def one_line(text: str, width: int = 120) -> str:
    """Escaped, on one line, cut to a width."""
    flat = " ".join(escape(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _replace(unsafe: str, spell: Callable[[re.Match[str]], str], text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return re.sub(unsafe, spell, text)


def _spell(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _spell_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

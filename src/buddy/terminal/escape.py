"""The one escaper: nothing from outside reaches a terminal as anything but text."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

# C0 except newline and tab, DEL, C1, halves of characters, and what reorders or hides what follows it. The joiners are
# left: emoji and some scripts are written with them.
_MARKS = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_UNSAFE = f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{_MARKS}]"
_JOINERS = "[\u200c\u200d]"


def escape(text: str) -> str:
    """Show control characters as what they are, such as `\\x1b`."""
    return _replaced(_UNSAFE, _spell, text)


def escape_all(text: str) -> str:
    """For what is about to be approved: joiners too, as two words must not look the same."""
    return _replaced(_JOINERS, _spell, escape(text))


def escape_json(text: str) -> str:
    """The same JSON value without a character that a terminal would act on: inside strings, JSON can spell them all."""
    return _replaced(_UNSAFE, _spell_json, text)


def one_line(text: str, width: int = 120) -> str:
    """Escaped, on one line, cut to a width."""
    flat = " ".join(escape(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _replaced(unsafe: str, spell: "Callable[[re.Match[str]], str]", text: str) -> str:
    if text.isascii() and text.isprintable():
        return text  # most is, and nothing is loaded for it
    import re

    return re.sub(unsafe, spell, text)


def _spell(found: "re.Match[str]") -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _spell_json(found: "re.Match[str]") -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

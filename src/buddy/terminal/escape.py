"""The one escaper: nothing from outside reaches a terminal as anything but text."""

import re

# C0 except newline and tab, DEL, C1, and the marks that reorder or hide what follows them.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff]")


def escape(text: str) -> str:
    """Show control characters as what they are, such as `\\x1b`."""
    return _UNSAFE.sub(_spell, text)


def escape_json(text: str) -> str:
    """The same JSON value without a character that a terminal would act on: inside strings, JSON can spell them all."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str, width: int = 120) -> str:
    """Escaped, on one line, cut to a width."""
    flat = " ".join(escape(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _spell(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

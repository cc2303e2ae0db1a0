"""The characters that can deceive a reader: one table for rules, screens and paths.

Invariants: the groups are bodies of regular-expression classes, they do not overlap, and together they hold every
control, format, separator, surrogate and private-use character, and every character that is drawn as nothing.
"""

import re
import unicodedata

# C0 without newline and tab, DEL and C1: a terminal acts on them.
CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
LINE = "\t\n"
SURROGATES = "\ud800-\udfff"
# Drawn as nothing, or changing the direction of what follows. Visible format characters (Arabic number signs and the
# like) are not here.
HIDDEN = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001345f\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
# Drawn as nothing too, but emoji and some scripts need them.
JOINERS = "\u200c\u200d\ufe00-\ufe0f"
# Drawn like a space, but no shell, parser or rule takes them for one.
BLANKS = "\xa0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000"
PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010ffff"

UNSAFE = CONTROLS + SURROGATES + HIDDEN
"""What no text may bring to a screen as it is."""
DECEPTIVE = UNSAFE + JOINERS + BLANKS + PRIVATE
"""What is spelled out where somebody decides, so that different words never look the same."""

_UNAPPROVED = f"[{LINE}{DECEPTIVE}]"  # compiled by the first that needs it


def find_deceptive(text: str) -> str:
    """Why no rule may approve this word, path or name: an invisible, control or unassigned character, or a spelling
    that is not Unicode's normal form. Empty for an ordinary one."""
    if text.isascii() and text.isprintable():
        return ""
    if found := re.search(_UNAPPROVED, text):
        return f"it contains {describe(found[0])}"
    if unknown := next((character for character in text if unicodedata.category(character) == "Cn"), ""):
        return f"it contains {describe(unknown)}"
    if not unicodedata.is_normalized("NFC", text):
        return "it is not written in Unicode's normal form (NFC)"
    return ""


def describe(character: str) -> str:
    """Such as "U+202E RIGHT-TO-LEFT OVERRIDE"."""
    name = unicodedata.name(character, "")
    if not name:
        name = "control character" if ord(character) < 0xA0 else "unknown character"
    return f"U+{ord(character):04X} {name}"


def spell(character: str) -> str:
    """Such as `\\x1b` or `\\u202e`."""
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

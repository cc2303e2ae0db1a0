"""What can stand inside a value without changing how it reads: colours and other sequences for a terminal, control and
invisible characters, both as tools spell them out (`^[[31m`, `\\u001b[31m`), and what a backspace takes back.

Invariants: a line break is noise, too; a sequence has at most 2,000 characters: no terminal needs more; removing noise
takes time linear in the text.
"""

from buddy.characters import HIDDEN, JOINERS
from buddy.scrub.lazy import LazyPattern

_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_INVISIBLE = f"{_CONTROLS}{HIDDEN}{JOINERS}"
_ARGUMENTS = r"[0-?]{0,2000}+[ -/]{0,4}+"
# Few other openings inside: otherwise each would be followed to the limit, again and again.
_BODY = r"(?:[^\x07\x1b\x9c\n\x90\x98\x9d-\x9f]{0,500}+[\x90\x98\x9d-\x9f]?+){0,4}+"
_SPELLED = r"(?:x1[bB]|u001[bB]|033|e)"
_COLOUR = r"\[[0-9;]{0,2000}+"
# One class first, here and below: a scan for it is fast.
_NOISE = (
    rf"[\r\n^\\{_INVISIBLE}](?:(?<=\x1b)(?:\[{_ARGUMENTS}[@-~]|[\]PX^_]{_BODY}(?:\x07|\x1b\\|\x9c)|[ -/]{{0,4}}+[0-~])"
    rf"|(?<=\x9b){_ARGUMENTS}[@-~]|(?<=[\x90\x98\x9d-\x9f]){_BODY}(?:\x07|\x1b\\|\x9c)"
    rf"|(?<=\^)(?:\[{_COLOUR}[A-Za-z]|@)|(?<=\\)(?:{_SPELLED}{_COLOUR}[A-Za-z]|x00|u0000)|(?<=[\r\n{_INVISIBLE}]))"
)
NOISE = LazyPattern(_NOISE)
_BACK = r"(?:\x08|\^H|\\(?:b|u0008|x08))"
_STRUCK = rf"(?!{_BACK})[^\s\u0e01-\U0010ffff]"  # nothing wide: a stream does not hold it back
DEEPEST = 3  # characters that are taken back at once


def _overstruck(depth: int) -> str:
    inner = f"(?:{_overstruck(depth - 1)}){{0,8}}+" if depth > 1 else ""
    return f"{_STRUCK}{inner}{_BACK}"


OVERSTRUCK = LazyPattern(f"{_overstruck(DEEPEST)}|{_NOISE}")
_TAKEN_BACK = LazyPattern(rf"{_BACK}[^\s\x08]|{_NOISE}")
_BACKSPACE = LazyPattern(_BACK)
KINDS = frozenset({NOISE, OVERSTRUCK, _TAKEN_BACK})
_OPEN = LazyPattern(
    rf"(?:(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_BODY}\x1b?|(?:\x1b\[|\x9b){_ARGUMENTS}|\x1b[ -/]{{0,4}}+"
    rf"|(?:\^\[|\\{_SPELLED})(?:{_COLOUR})?|\^|\\(?:x[01]?|u0{{0,3}}1?|03?)?)\Z"
)
_OPENINGS = LazyPattern(r"[\x1b\x90\x98\x9b\x9d-\x9f^\\]")
_ANY = LazyPattern(
    rf"[\r^\\{_INVISIBLE}](?:(?<=[{_INVISIBLE}])|(?<=\r)(?!\n)|(?<=\^)[\[@]|(?<=\\)(?:x1[bB]|u001[bB]|033|e\[|x00|u0000))"
)
_LONGEST = 2100


def kinds_of_noise(text: str) -> tuple[LazyPattern, ...]:
    """What to remove from a text with noise, each on its own, so that the values inside it show."""
    return (NOISE, OVERSTRUCK, _TAKEN_BACK) if has_backspace(text) else (NOISE,)


def only_noise(text: str, kinds: frozenset[LazyPattern]) -> frozenset[LazyPattern]:
    """Those of the kinds that remove the text entirely."""
    if not text or not kinds:
        return kinds
    return frozenset(noise for noise in kinds if noise.match(text) and not noise.sub("", text))


def has_backspace(text: str) -> bool:
    return _BACKSPACE.search(text) is not None


def has_noise(text: str) -> bool:
    """Whether it contains noise other than line breaks."""
    return _ANY.search(text) is not None or has_backspace(text)


def open_noise(text: str) -> int:
    """Where noise starts that is not complete at the end of the text; its length if there is none."""
    for opening in _OPENINGS.finditer(text, max(0, len(text) - _LONGEST)):
        if _OPEN.match(text, opening.start()):
            return opening.start()
    return len(text)

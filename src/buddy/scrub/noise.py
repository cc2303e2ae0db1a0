"""What can stand inside a value without changing how it reads: colours and other sequences for a terminal, control and
invisible characters, and both as tools spell them out (`^[[31m`, `\\u001b[31m`).

Invariants: a line break is noise, too; removing noise takes time linear in the text.
"""

from buddy.characters import HIDDEN, JOINERS
from buddy.scrub.lazy import LazyPattern

_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_INVISIBLE = f"{_CONTROLS}{HIDDEN}{JOINERS}"
_ARGUMENTS = r"[0-?]{0,64}+[ -/]{0,4}+"
_BODY = r"[^\x07\x1b\x9c\n]{0,2000}+"
_SPELLED = r"(?:x1[bB]|u001[bB]|033|e)"
_COLOUR = r"\[[0-9;]{0,64}+"
# One class first, here and below: a scan for it is fast.
NOISE = LazyPattern(
    rf"[\r\n^\\{_INVISIBLE}](?:(?<=\x1b)(?:\[{_ARGUMENTS}[@-~]|[\]PX^_]{_BODY}(?:\x07|\x1b\\|\x9c)|[ -/]{{0,4}}+[0-~])"
    rf"|(?<=\x9b){_ARGUMENTS}[@-~]|(?<=[\x90\x98\x9d-\x9f]){_BODY}(?:\x07|\x1b\\|\x9c)"
    rf"|(?<=\^)(?:\[{_COLOUR}[A-Za-z]|@)|(?<=\\)(?:{_SPELLED}{_COLOUR}[A-Za-z]|x00|u0000)|(?<=[\r\n{_INVISIBLE}]))"
)
_OPEN = LazyPattern(
    rf"(?:(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_BODY}\x1b?|(?:\x1b\[|\x9b){_ARGUMENTS}|\x1b[ -/]{{0,4}}+"
    rf"|(?:\^\[|\\{_SPELLED})(?:{_COLOUR})?|\^|\\(?:x[01]?|u0{{0,3}}1?|03?)?)\Z"
)
_OPENINGS = LazyPattern(r"[\x1b\x90\x98\x9b\x9d-\x9f^\\]")
_ANY = LazyPattern(
    rf"[\r^\\{_INVISIBLE}](?:(?<=[{_INVISIBLE}])|(?<=\r)(?!\n)|(?<=\^)[\[@]|(?<=\\)(?:x1[bB]|u001[bB]|033|e\[|x00|u0000))"
)
_LONGEST = 2100


def has_noise(text: str) -> bool:
    """Whether it contains noise other than line breaks."""
    return _ANY.search(text) is not None


def open_noise(text: str) -> int:
    """Where noise starts that is not complete at the end of the text; its length if there is none."""
    for opening in _OPENINGS.finditer(text, max(0, len(text) - _LONGEST)):
        if _OPEN.match(text, opening.start()):
            return opening.start()
    return len(text)

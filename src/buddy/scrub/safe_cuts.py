"""Finds where a growing text may be cut so that its parts, masked separately, give the same as the complete text.

Invariants: what follows a safe cut can't change the masking of what precedes it. A name waits for its value, which may
be a name that waits for its value, and so on: every link of such a chain is examined once, however often it is asked.
"""

from buddy.scrub import key_value
from buddy.scrub.token_formats import OpenArmour
from buddy.steps import Steps

_AT_ONCE = 16


class SafeCuts:
    """The cuts of one text, which may grow; `clear` it when the text is cut."""

    def __init__(self) -> None:
        self._armour = OpenArmour()
        self._known: dict[int, int] = {}

    def clear(self) -> None:
        self._armour.clear()
        self._known.clear()

    def find(self, text: str, cut: int, start: int = 0) -> Steps[int]:
        """The last safe position at or before `cut` (itself after a blank); nothing before `start` counts."""
        walked: list[int] = []
        steps = 0
        while cut > start and cut not in self._known:
            held = min(key_value.open_at(text, cut, start), self._armour.find(text, cut, start))
            if held == cut:
                break
            if cut < len(text):  # otherwise the next character may change the answer
                walked.append(cut)
            steps += 1
            if steps % _AT_ONCE == 0:
                yield
            # The preceding word may itself be the value of a name before it: look again.
            cut = _word_start(text, held, start)
        cut = self._known.get(cut, cut)
        for position in walked:
            self._known[position] = cut
        return cut


def _word_start(text: str, at: int, start: int) -> int:
    while at > start and not text[at - 1].isspace():
        at -= 1
    return at

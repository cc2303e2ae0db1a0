"""Splits long texts into chunks that can be found separately.

Invariants: a chunk has at most `LONGEST` characters of whitespace-normalised text; neighbours share about `OVERLAP`
characters, so that a sentence that was cut is complete in one of them; the same text gives the same chunks.
"""

LONGEST = 640
OVERLAP = 96


def split_chunks(text: str) -> list[str]:
    """The chunks of a text, in order; none if it is only whitespace."""
    flat = " ".join(text.split())
    found: list[str] = []
    start = 0
    while start < len(flat):
        end = min(start + LONGEST, len(flat))
        if end < len(flat):
            end = _word_end(flat, start, end)
        found.append(flat[start:end].strip())
        if end == len(flat):
            break
        start = _word_start(flat, end - OVERLAP)
    return found


def _word_end(flat: str, start: int, end: int) -> int:
    """The end of the last complete word, unless that would leave less than half a chunk."""
    space = flat.rfind(" ", start + LONGEST // 2, end + 1)
    return space if space > 0 else end


def _word_start(flat: str, at: int) -> int:
    space = flat.find(" ", at, at + OVERLAP // 2)
    return space + 1 if space >= 0 else at

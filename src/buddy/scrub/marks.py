"""What stands where a secret was.

What always holds: a mark is never a secret itself, no layer looks into one, and every mark begins with `[REDACTED`.
"""

from collections.abc import Iterable

MARK = "[REDACTED]"
ENTROPY_MARK = "[REDACTED:high-entropy]"

# A mark counts as a part of the word it stands in: what follows it directly begins nothing new, so that masking a text
# again finds what the first time found.
NOT_AFTER_MARK = r"(?<!CTED\])(?<!ropy\])"
OPENING = MARK[:-1]

Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same ground as disjoint spans in order; those that only touch stay apart."""
    whole: list[Span] = []
    for start, end in sorted(spans):
        if whole and start < whole[-1][1]:
            whole[-1] = whole[-1][0], max(end, whole[-1][1])
        else:
            whole.append((start, end))
    return whole

"""The marks that replace secrets.

Invariants: a mark is never a secret itself, no layer looks into one, and every mark starts with `[REDACTED`.
"""

from collections.abc import Iterable

MARK = "[REDACTED]"
ENTROPY_MARK = "[REDACTED:high-entropy]"

# A mark counts as part of the word it is in: what follows it directly does not start a new word, so that masking a text
# twice gives the same result.
NOT_AFTER_MARK = r"(?<!CTED\])(?<!ropy\])"
OPENING = MARK[:-1]

Span = tuple[int, int]


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The union of these spans as disjoint spans in order; adjacent ones stay separate."""
    disjoint: list[Span] = []
    for start, end in sorted(spans):
        if disjoint and start < disjoint[-1][1]:
            disjoint[-1] = disjoint[-1][0], max(end, disjoint[-1][1])
        else:
            disjoint.append((start, end))
    return disjoint


def has_mark(text: str) -> bool:
    """Whether something was redacted from this text."""
    return "[REDACTED" in text

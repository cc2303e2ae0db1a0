"""The part of a text that is most similar to one that was not found.

Invariant: the work and the result are bounded, whatever the text is.
"""

import difflib
import heapq
import re

MAX_LINES = 20_000
MAX_SHOWN = 12
WIDTH = 200
COMPARED = 40
ENOUGH = 0.5


def nearest(text: str, wanted: str) -> str:
    """The most similar lines with their numbers; empty if nothing is similar."""
    lines = [line[:WIDTH] for line in text.split("\n", MAX_LINES)[:MAX_LINES]]
    sought = [line[:WIDTH] for line in wanted.split("\n", MAX_SHOWN)[:MAX_SHOWN]]
    key = next((index for index, line in enumerate(sought) if line.strip()), None)
    if key is None:
        return ""
    at = _most_like(lines, sought[key].strip())
    if at is None:
        return ""
    first = max(0, at - key)
    shown = lines[first : first + min(len(sought) + 2, MAX_SHOWN)]
    return "\n".join(f"{first + index + 1}: {line}" for index, line in enumerate(shown))


def _most_like(lines: list[str], sought: str) -> int | None:
    """The most similar line: common words select the few that are compared closely."""
    words = set(re.findall(r"\w+", sought))
    shared = ((len(words.intersection(re.findall(r"\w+", line))), -index) for index, line in enumerate(lines))
    matcher = difflib.SequenceMatcher(b=sought, autojunk=False)
    best, found = ENOUGH, None
    for _, negative in heapq.nlargest(COMPARED, shared):
        matcher.set_seq1(lines[-negative].strip())
        ratio = matcher.ratio()
        if ratio > best:
            best, found = ratio, -negative
    return found

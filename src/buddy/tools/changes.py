"""What a write would change, as a unified diff of bounded size.

Invariants: the text has at most `LIMIT` characters and says where it was cut; the work is bounded, too, since it blocks
the event loop.
"""

import difflib

LIMIT = 64 * 1024
# Beyond this many pairs of lines a detailed comparison can take seconds; the whole block is then shown as replaced.
MAX_PAIRS = 250_000


def diff(path: str, before: bytes | None, after: bytes) -> str:
    """A unified diff, empty if nothing changes."""
    if before == after:
        return ""
    if b"\0" in (before or b"")[:8192]:
        return f"the binary file {path} ({len(before or b'')} bytes) is replaced by {len(after)} bytes\n"
    old, new = _lines(before or b""), _lines(after)
    name = "/dev/null" if before is None else path
    text = f"--- {name}\n+++ {path}\n" + "".join(_hunks(old, new))
    if len(text) <= LIMIT:
        return text
    marker = f"\n[... the diff is cut here; it has {len(text)} characters ...]\n"
    return text[: LIMIT - len(marker)] + marker


def _hunks(old: list[str], new: list[str]) -> list[str]:
    start, stop = _common(old, new)
    if (len(old) - start - stop) * (len(new) - start - stop) <= MAX_PAIRS:
        context = max(0, start - 3)
        tail = max(0, stop - 3)
        hunks = list(difflib.unified_diff(old[context : len(old) - tail], new[context : len(new) - tail]))[2:]
        return [_shift(line, context) for line in hunks]
    removed, added = old[start : len(old) - stop], new[start : len(new) - stop]
    head = f"@@ -{start + 1},{len(removed)} +{start + 1},{len(added)} @@\n"
    return [head, *("-" + line for line in removed), *("+" + line for line in added)]


def _common(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many lines both begin with, and how many both end with."""
    most = min(len(old), len(new))
    start = next((index for index in range(most) if old[index] != new[index]), most)
    most -= start
    stop = next((index for index in range(most) if old[-1 - index] != new[-1 - index]), most)
    return start, stop


def _shift(line: str, by: int) -> str:
    """Move a hunk's line numbers: the comparison began `by` lines into the file."""
    if not line.startswith("@@"):
        return line
    _, old, new, _ = line.split(" ", 3)
    return f"@@ -{_shift_span(old, by)} +{_shift_span(new, by)} @@\n"


def _shift_span(span: str, by: int) -> str:
    first, comma, count = span[1:].partition(",")
    return f"{int(first) + by}{comma}{count}"


def _lines(content: bytes) -> list[str]:
    lines = content.decode("utf-8", "replace").split("\n")
    last = lines.pop()
    complete = [line + "\n" for line in lines]
    return [*complete, last + "\n\\ No newline at end of file\n"] if last else complete

"""What a write would change, as a unified diff of bounded size.

Invariants: the text has at most `limit` characters and says where it was cut. Time and memory are bounded, too: only
what changes is split into lines, and no more of it than can be compared or shown.
"""

LIMIT = 64 * 1024
# Beyond this many pairs of lines a detailed comparison can take seconds; the whole block is then shown as replaced.
MAX_PAIRS = 250_000
MAX_COMPARED = 512 * 1024
CONTEXT = 3
_BLOCK = 64 * 1024


def diff(path: str, before: bytes | None, after: bytes, limit: int = LIMIT) -> str:
    """A unified diff, empty if nothing changes."""
    if before == after:
        return ""
    if b"\0" in (before or b"")[:8192]:
        return f"the binary file {path} ({len(before or b'')} bytes) is replaced by {len(after)} bytes\n"
    line, old, new = _changed_part(before or b"", after)
    head = f"--- {'/dev/null' if before is None else path}\n+++ {path}\n"
    if len(old) + len(new) > MAX_COMPARED:
        return head + _replacement(line, old, new, limit)
    text = head + "".join(_shift(hunk, line) for hunk in _hunks(_lines(old), _lines(new)))
    if len(text) <= limit:
        return text
    marker = f"\n[... the diff is cut here; it has {len(text)} characters ...]\n"
    return text[: limit - len(marker)] + marker


def _changed_part(before: bytes, after: bytes) -> tuple[int, bytes, bytes]:
    """Both contents without the lines they begin and end with, except a few for context, and how many come before.

    Short ones stay complete: lines that repeat may be matched in another way than their ends, and need context there.
    """
    if len(before) + len(after) <= _BLOCK:
        return 0, before, after
    start = before.rfind(b"\n", 0, _count_same(before, after)) + 1
    same = _count_same_at_end(before, after, min(len(before), len(after)) - start)
    # A newline of the common end: what follows it is complete lines.
    newline = before.find(b"\n", len(before) - same)
    first, last = start, len(before) if newline < 0 or not same else newline + 1
    for _ in range(CONTEXT):
        first = before.rfind(b"\n", 0, max(first - 1, 0)) + 1
        last = before.find(b"\n", last) + 1 or len(before)
    stop = len(before) - last
    return before.count(b"\n", 0, first), before[first:last], after[first : len(after) - stop]


def _count_same(before: bytes, after: bytes) -> int:
    """How many bytes both begin with."""
    most, at = min(len(before), len(after)), 0
    while at < most and before[at : at + _BLOCK] == after[at : at + _BLOCK]:
        at += _BLOCK
    while at < most and before[at] == after[at]:
        at += 1
    return min(at, most)


def _count_same_at_end(before: bytes, after: bytes, most: int) -> int:
    """How many bytes both end with, up to `most`."""
    count = 0
    while count + _BLOCK <= most and _tail(before, count) == _tail(after, count):
        count += _BLOCK
    while count < most and before[-1 - count] == after[-1 - count]:
        count += 1
    return count


def _tail(content: bytes, count: int) -> bytes:
    return content[len(content) - count - _BLOCK : len(content) - count]


def _replacement(line: int, old: bytes, new: bytes, limit: int) -> str:
    """The beginnings of what is removed and added; more could not be shown."""
    parts = [f"@@ -{line + 1},{_count_lines(old)} +{line + 1},{_count_lines(new)} @@\n"]
    for sign, content, verb in (("-", old, "removed"), ("+", new, "added")):
        text = "".join(sign + shown for shown in _lines(content[: limit // 2]))
        parts.append(text)
        if len(content) > limit // 4:
            marker = f"\n[... the diff is cut here; {len(content)} bytes are {verb} ...]\n"
            parts[-1] = text[: limit // 2 - len(marker) - 200] + marker
    return "".join(parts)


def _count_lines(content: bytes) -> int:
    return content.count(b"\n") + bool(content and not content.endswith(b"\n"))


def _hunks(old: list[str], new: list[str]) -> list[str]:
    start, stop = _common(old, new) if len(old) * len(new) > MAX_PAIRS else (0, 0)
    if (len(old) - start - stop) * (len(new) - start - stop) <= MAX_PAIRS:
        context = max(0, start - 3)
        tail = max(0, stop - 3)
        import difflib

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

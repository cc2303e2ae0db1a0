"""Changes as people read them: which files, how many lines, and what is left out."""

from collections.abc import Iterable, Mapping, Sequence

from buddy.checkpoints.contract import Coverage
from buddy.checkpoints.entries import Change, Entry, shown_path

MAX_COUNTED = 4 * 1024 * 1024
MAX_PAIRS = 1_000_000
_NAMED = 3


def listed(changes: Iterable[Change]) -> list[Change]:
    """Without the directories that only appear because something in them does."""
    ordered = list(changes)
    parents = {path[:at] for path, _, _ in ordered for at, sign in enumerate(path) if sign == "/"}
    return [change for change in ordered if not (_is_directory(change) and change.path in parents)]


def name_of(change: Change) -> str:
    """A path as it is shown; that of a directory ends with a slash."""
    return shown_path(change.path) + ("/" if _is_directory(change) else "")


def contents_of(changes: Iterable[Change]) -> set[bytes]:
    """The ids of the contents that are needed to compare."""
    halves = (half for change in changes for half in (change.before, change.after))
    return {half.content for half in halves if half is not None and half.content and half.kind != "directory"}


def is_counted(change: Change) -> bool:
    """Whether the change is small enough to count its lines."""
    return sum(half.size for half in (change.before, change.after) if half is not None) <= MAX_COUNTED


def count_lines(change: Change, contents: Mapping[bytes, bytes]) -> tuple[int, int]:
    """How many lines were added and removed; none in what is not text."""
    before, after = _data(change.before, contents), _data(change.after, contents)
    if before is None or after is None:
        return 0, 0
    if b"\0" in before[:8192] or b"\0" in after[:8192]:
        return 0, 0
    return _compare(before.splitlines(keepends=True), after.splitlines(keepends=True))


def _compare(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    most -= start
    stop = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    old, new = old[start : len(old) - stop], new[start : len(new) - stop]
    if not old or not new or len(old) * len(new) > MAX_PAIRS:
        return len(new), len(old)
    import difflib

    same = sum(block.size for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    return len(new) - same, len(old) - same


def _data(entry: Entry | None, contents: Mapping[bytes, bytes]) -> bytes | None:
    """The content; empty where there is none, None where it is not known."""
    if entry is None or entry.kind == "directory":
        return b""
    return contents.get(entry.content)


def _is_directory(change: Change) -> bool:
    return all(half is None or half.kind == "directory" for half in (change.before, change.after))


def describe(coverage: Coverage) -> str:
    """What checkpoints of a workspace leave out; empty if nothing worth mentioning."""
    if coverage.is_off:
        return f"Only files that a tool writes by name are covered: {coverage.is_off}."
    parts: list[str] = []
    if coverage.skipped:
        names = sorted(coverage.skipped)
        shown = ", ".join(f"{shown_path(name)}/ ({coverage.skipped[name]})" for name in names[:_NAMED])
        parts.append(shown + (f" and {len(names) - _NAMED} more directories" if len(names) > _NAMED else ""))
    if coverage.unknown:
        parts.append(_count(coverage.unknown, "too large, unreadable or closed by a rule"))
    if coverage.pending:
        parts.append(_count(coverage.pending, "not stored yet"))
    if coverage.is_partial:
        parts.append("files beyond the limit on their number")
    return f"Not covered: {'; '.join(parts)}." if parts else ""


def _count(files: int, what: str) -> str:
    return f"1 file that is {what}" if files == 1 else f"{files} files that are {what}"

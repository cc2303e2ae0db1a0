"""The files that a session's own tools changed, from its log: all there is without checkpoints.

Invariants: nothing but the log is read; a call counts if its result says that it succeeded; where the content of a file
is known from earlier calls the diff is that of the file, else that of the part that was replaced.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from buddy.protocol.events import ModelRequest, ToolCall, ToolResult
from buddy.protocol.file_events import Change
from buddy.protocol.file_requests import FileChange, ListChanges
from buddy.sessions.past import Entry
from buddy.tools.changes import diff

TYPES = ("model_request", "tool_call", "tool_result")
UNCOVERED = "Changes by shell commands, and by other agents' own tools, are not included."
MAX_DIFF = 32 * 1024
MAX_DIFFS = 512 * 1024


class _Edit(Struct, frozen=True):
    path: str
    change: Change
    run_id: str | None
    turn: int
    call_id: str
    diff: str
    seq: int


def list_changes(entries: Iterable[Entry], wanted: ListChanges) -> Sequence[FileChange]:
    """The changes of a selection, by file."""
    edits = list(_edits(entries))
    is_chosen = wanted.all or wanted.run_id or wanted.call_id or wanted.to_seq is not None
    if edits and not is_chosen:
        edits = [edit for edit in edits if edit.run_id == edits[-1].run_id]
    chosen = [edit for edit in edits if _is_wanted(edit, wanted)]
    by_path: dict[str, list[_Edit]] = {}
    for edit in chosen:
        by_path.setdefault(edit.path, []).append(edit)
    left, files = MAX_DIFFS, list[FileChange]()
    for path, of_file in by_path.items():
        text = _joined(of_file)
        shown = cut(text) if wanted.diff and left > 0 else None
        left -= len(shown or "")
        files.append(FileChange(path, of_file[0].change, _count(text, "+"), _count(text, "-"), shown))
    return files


def _is_wanted(edit: _Edit, wanted: ListChanges) -> bool:
    return (
        wanted.run_id in (None, edit.run_id)
        and wanted.turn in (None, edit.turn)
        and wanted.call_id in (None, edit.call_id)
        and edit.seq > (wanted.to_seq or 0)
    )


def _edits(entries: Iterable[Entry]) -> Iterator[_Edit]:
    calls, contents, turn = dict[str, tuple[ToolCall, int]](), dict[str, bytes](), 0
    seen: set[str] = set()
    for event, body in entries:
        match body:
            case ModelRequest():
                turn = body.turn
            case ToolCall(call_id=str(call_id)):
                calls[call_id] = body, turn
            case ToolResult(call_id=str(call_id), is_error=False) if call_id in calls:
                call, of_turn = calls.pop(call_id)
                path = call.args.get("path")
                if not isinstance(path, str):
                    continue
                found = _change_of(call, path, contents)
                change: Change = "modified" if path in seen or call.tool_name == "edit_file" else "added"
                seen.add(path)
                if found is not None:
                    yield _Edit(path, change, event.run_id, of_turn, call_id, found, event.seq)
            case _:
                pass


def _change_of(call: ToolCall, path: str, contents: dict[str, bytes]) -> str | None:
    """The diff of a call that changed a file; None for other calls. `contents` is brought up to date."""
    before = contents.get(path)
    match call.tool_name, call.args:
        case "write_file", {"content": str(content)}:
            contents[path] = content.encode()
            return diff(path, before, contents[path])
        case "edit_file", {"old": str(old), "new": str(new)}:
            if before is None or old.encode() not in before:
                contents.pop(path, None)
                return diff(path, old.encode(), new.encode())
            times = -1 if call.args.get("replace_all") else 1
            contents[path] = before.replace(old.encode(), new.encode(), times)
            return diff(path, before, contents[path])
        case _:
            return None


def _joined(edits: list[_Edit]) -> str:
    """One diff: the first with its head, and the hunks of the others."""
    first, *others = [edit.diff for edit in edits if edit.diff] or [""]
    return first + "".join(text.split("\n", 2)[-1] for text in others)


def _count(text: str, sign: str) -> int:
    return sum(line.startswith(sign) and not line.startswith((f"{sign * 3} ",)) for line in text.splitlines())


def cut(text: str) -> str:
    if len(text) <= MAX_DIFF:
        return text
    end = text.rfind("\n", 0, MAX_DIFF) + 1 or MAX_DIFF
    return text[:end] + f"[... the diff is cut here; it has {len(text)} characters ...]\n"

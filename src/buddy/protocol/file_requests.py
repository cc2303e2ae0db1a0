"""Requests about the files that a session changed."""

from buddy.protocol.file_events import Change
from buddy.protocol.ids import RunId
from buddy.protocol.shapes import Count, Positive, Shape


class ListChanges(Shape, frozen=True):
    """A run, a turn of a run, a call, what changed after `to_seq`, or `all`; else the last run that changed files and
    was not undone.

    `at_seq`: only what had changed by then. `diff` asks for the diffs, too, `content` for the texts after the changes;
    with `path`, only of that file.
    """

    run_id: RunId | None = None
    turn: Positive | None = None
    call_id: str | None = None
    to_seq: Count | None = None
    all: bool = False
    at_seq: Positive | None = None
    diff: bool = False
    content: bool = False
    path: str | None = None


class FileChange(Shape, frozen=True):
    """`diff` is a unified diff. Above 32 KiB it is cut, and `blob` names a blob with all of it, which `read_blob` can
    return for a while. `conflict`: why it cannot simply be undone.

    `content` is the text after the change, redacted; absent if the file was deleted, is not text, or was not kept.
    """

    path: str
    change: Change
    added: Count
    removed: Count
    diff: str | None = None
    conflict: str | None = None
    content: str | None = None
    blob: str | None = None


class ListChangesReply(Shape, frozen=True):
    """`uncovered` says what is not in the list, or cannot be undone."""

    files: tuple[FileChange, ...]
    uncovered: str


class RestoreFiles(Shape, frozen=True):
    """The selection is that of `list_changes`; `redo` takes the last undo back instead.

    `force` names paths whose content is no longer what the session left: they are restored, too.
    """

    run_id: RunId | None = None
    turn: Positive | None = None
    call_id: str | None = None
    to_seq: Count | None = None
    all: bool = False
    redo: bool = False
    dry_run: bool = True
    force: tuple[str, ...] = ()


class FileConflict(Shape, frozen=True):
    path: str
    why: str


class RestoreFilesReply(Shape, frozen=True):
    """What was restored, or would be; `conflicts` were left alone. `checkpoint_id` names what can be redone."""

    restored: tuple[FileChange, ...]
    conflicts: tuple[FileConflict, ...]
    checkpoint_id: str | None = None
    uncovered: str = ""

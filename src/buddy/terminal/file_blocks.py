"""Changed and restored files as lines."""

from collections.abc import Sequence

from buddy.protocol.file_events import ChangedFile, FilesChanged, FilesRestored
from buddy.protocol.file_requests import FileChange, FileConflict
from buddy.terminal.escape import escape
from buddy.terminal.phrases import plural
from buddy.terminal.style import Style

MAX_LINES = 20
_SIGNS = {"added": "+", "modified": "~", "deleted": "-"}


def files_block(body: FilesChanged | FilesRestored, style: Style) -> str | None:
    """What an undo did; what a call changed is shown only if it cannot be relied on."""
    match body:
        case FilesChanged():
            if not body.overlaps:
                return None
            return style.yellow(
                "  ! Another session worked here at the same time; some changes may not be from this call"
            )
        case FilesRestored():
            count = plural(body.total or len(body.files), "file")
            done = f"  ↩ Restored {count}" if not body.redo else f"  ↪ Changed {count} again"
            finished = " (finished after a restart)" if body.recovered else ""
            hint = "" if body.redo else style.dim(" · /redo takes it back")
            lines = [style.green(f"{done}{finished}") + hint, *file_lines(body.files, style)]
            if body.conflicts:
                lines.append(style.yellow(f"  ! Left alone: {escape(', '.join(body.conflicts[:MAX_LINES]))}"))
            return "\n".join(lines)


def file_lines(files: Sequence[ChangedFile | FileChange], style: Style) -> list[str]:
    """One line per file, up to a limit."""
    width = max((len(escape(file.path)) for file in files[:MAX_LINES]), default=0)
    lines = [
        f"    {_SIGNS[file.change]} {escape(file.path):<{width}}  "
        f"{style.green(f'+{file.added}')} {style.red(f'-{file.removed}')}"
        for file in files[:MAX_LINES]
    ]
    return [*lines, *([style.dim(f"    … {len(files) - MAX_LINES} more")] if len(files) > MAX_LINES else [])]


def conflict_lines(conflicts: Sequence[FileConflict], style: Style) -> list[str]:
    return [style.yellow(f"  ! {escape(one.path)}: {escape(one.why)}") for one in conflicts[:MAX_LINES]]

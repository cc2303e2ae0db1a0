"""Brings files back to an earlier state, step by step, as planned.

Invariants: what is replaced is in the store first; what somebody saved meanwhile is left alone; the list of steps is
recorded before the first of them, and doing it again after a crash has the same result.
"""

import errno
import hashlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress

from buddy import faults
from buddy.checkpoints.contents import Contents
from buddy.checkpoints.contract import Conflict
from buddy.checkpoints.entries import Change, Entry, is_same
from buddy.checkpoints.planning import CHANGED, NOT_EMPTY, NOT_KEPT, current_entry, similar_paths
from buddy.checkpoints.reading import Folder
from buddy.checkpoints.workspace import Workspace

PRIVATE = 0o700
"""The mode of a directory until everything in it is restored; one that exists gets at least this."""


def carry_out(workspace: Workspace, contents: Contents, steps: Sequence[Change], most: int) -> list[Conflict]:
    """Do what is not done yet; returns what could not be done. A path that somebody changed meanwhile is left alone."""
    problems: list[Conflict] = []
    due: list[Change] = []
    checked: dict[str, Entry | None] = {}
    similar = similar_paths(steps)
    for step in steps:
        checked[step.path] = now = current_entry(workspace, step.path, similar)
        if is_same(now, step.after):
            continue
        if is_same(now, step.before):
            due.append(step)
        elif _is_half_done(now, step):
            due.append(Change(step.path, now, step.after))
        else:
            problems.append(Conflict(step.path, CHANGED))
    folder = Folder(workspace.root, most)
    try:
        for step in steps:
            _remove_temporary(folder, step.path)
        for action, step in _in_order(due):
            try:
                action(folder, contents, step, checked.get(step.path))
            except (OSError, sqlite3.Error) as error:
                problems.append(Conflict(step.path, _reason(error)))
            faults.reached("restore.step")
    finally:
        folder.close()
    return problems


def _is_half_done(now: Entry | None, step: Change) -> bool:
    """Whether a restore that ended in the middle can have left it so: what takes several steps has states between."""
    if step.after is None:
        return False
    if now is None:
        return step.before is not None and _changes_kind(step)
    modes = {PRIVATE, step.after.mode | PRIVATE}
    return _is_directory(now) and _is_directory(step.after) and now.mode in modes


Action = Callable[[Folder, Contents, Change, Entry | None], None]
"""The last is what was at the path when it was checked."""


def _in_order(due: list[Change]) -> list[tuple[Action, Change]]:
    """Make directories writable, remove from the inside out, create from the outside in, set modes last."""
    removed = [step for step in due if step.before is not None and _changes_kind(step)]
    created = [step for step in due if step.after is not None]
    directories = [step for step in due if _is_directory(step.before) and _is_directory(step.after)]
    new = [step for step in created if _is_directory(step.after) and not _is_directory(step.before)]
    others = [step for step in created if not _is_directory(step.after)]
    return [
        *((_open_up, step) for step in directories),
        *((_remove, step) for step in sorted(removed, key=_depth, reverse=True)),
        *((_make_directory, step) for step in sorted(new, key=_depth)),
        *((_write, step) for step in others),
        *((_set_mode, step) for step in sorted([*new, *directories], key=_depth, reverse=True)),
    ]


def _changes_kind(step: Change) -> bool:
    """Whether what is there has to go first; a file or link is otherwise replaced in one step."""
    return step.after is None or _is_directory(step.before) != _is_directory(step.after)


def _is_directory(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == "directory"


def _depth(step: Change) -> int:
    return step.path.count("/")


def _open_up(folder: Folder, _contents: Contents, step: Change, _checked: Entry | None) -> None:
    if step.after is not None:
        _chmod(folder, step.path, step.after.mode | PRIVATE)


def _set_mode(folder: Folder, _contents: Contents, step: Change, _checked: Entry | None) -> None:
    if step.after is not None:
        _chmod(folder, step.path, step.after.mode)


def _chmod(folder: Folder, path: str, mode: int) -> None:
    with folder.parent_of(path) as (directory, name):
        opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fchmod(opened, mode)
        finally:
            os.close(opened)


def _remove(folder: Folder, _contents: Contents, step: Change, checked: Entry | None) -> None:
    with suppress(FileNotFoundError), folder.parent_of(step.path) as (directory, name):
        _check_unchanged(folder, step, checked)
        if _is_directory(step.before):
            os.rmdir(name, dir_fd=directory)
        else:
            os.unlink(name, dir_fd=directory)


def _make_directory(folder: Folder, _contents: Contents, step: Change, _checked: Entry | None) -> None:
    with suppress(FileExistsError), folder.parent_of(step.path) as (directory, name):
        os.mkdir(name, PRIVATE, dir_fd=directory)


def _write(folder: Folder, contents: Contents, step: Change, checked: Entry | None) -> None:
    entry = step.after
    if _is_mode_alone(step) and _set_file_mode(folder, step, checked):
        return
    data = contents.get(entry.content) if entry else None
    if entry is None or data is None:
        raise OSError(errno.ENODATA, NOT_KEPT)
    with folder.parent_of(step.path) as (directory, name):
        temporary = _temporary_name(name)
        try:
            if entry.kind == "link":
                os.symlink(os.fsdecode(data), temporary, dir_fd=directory)
            else:
                _write_file(directory, temporary, data, entry.mode)
            faults.reached("restore.written")
            # A directory that was here is removed by now.
            _check_unchanged(folder, step, None if _changes_kind(step) else checked)
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise


def _is_mode_alone(step: Change) -> bool:
    before, after = step.before, step.after
    if before is None or after is None or before.kind != "file" or after.kind != "file":
        return False
    return before.content == after.content


def _set_file_mode(folder: Folder, step: Change, checked: Entry | None) -> bool:
    """Leave the file itself as it is, with its times and links; False if it cannot be opened."""
    with folder.parent_of(step.path) as (directory, name):
        _check_unchanged(folder, step, checked)
        try:
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        except PermissionError:
            return False
        try:
            os.fchmod(opened, step.after.mode if step.after else 0)
        finally:
            os.close(opened)
    return True


def _check_unchanged(folder: Folder, step: Change, checked: Entry | None) -> None:
    """OSError if a path is no longer as it was checked: somebody saved a file during the restore."""
    info = folder.stat(step.path)
    is_unchanged = info is None if checked is None else info is not None and checked.has_times(info)
    if not is_unchanged and not _has_content(folder, step, checked):
        raise OSError(errno.EBUSY, CHANGED)


def _has_content(folder: Folder, step: Change, checked: Entry | None) -> bool:
    """Whether only its times differ, and perhaps its mode: it has a second name, and that was restored just now."""
    found = folder.read(step.path)
    if found is None or checked is None or found.data is None or found.entry.kind != checked.kind:
        return False
    modes = {half.mode for half in (checked, step.after) if half is not None}
    return found.entry.mode in modes and hashlib.sha256(found.data).digest() == checked.content


def _temporary_name(name: str) -> str:
    """The same each time, so that what a killed process left is found."""
    return f".buddy-{hashlib.sha256(os.fsencode(name)).hexdigest()[:24]}.tmp"


def _remove_temporary(folder: Folder, path: str) -> None:
    with suppress(OSError), folder.parent_of(path) as (directory, name):
        os.unlink(_temporary_name(name), dir_fd=directory)


def _write_file(directory: int, name: str, data: bytes, mode: int) -> None:
    opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    with open(opened, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(data)
        os.fchmod(opened, mode)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOTEMPTY:
        return NOT_EMPTY
    return (error.strerror if isinstance(error, OSError) else None) or str(error)

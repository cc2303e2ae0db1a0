"""Read, replace, list and stat files below a workspace on this machine.

Invariants: only regular files are opened, so nothing can hang or run; a file is replaced atomically or
not at all; every name is used relative to a directory opened by the guard in `paths`.
"""

import os
import stat as modes
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice

from buddy.errors import ToolError
from buddy.regular_files import open_inspected, path_of, read_up_to
from buddy.targets.contract import Entry, FileStat
from buddy.targets.paths import Reach, enter

MAX_ENTRIES = 10_000
SMALL = 64 * 1024
# Package managers and git link files from their own stores. Elsewhere, another name of a file may be outside.
LINKED_BY_TOOLS = frozenset({"node_modules", ".pnpm-store", ".venv", "venv", "site-packages", ".git", "target"})

_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read(path: str, root: str, limit: int) -> bytes:
    """At most `limit` bytes from the start of a regular file."""
    return _read(path, root, limit, None) or b""


def read_exact(path: str, limit: int) -> bytes:
    """The same for a real path anywhere on this machine, which was approved: no link is followed."""
    return _read(path, "/", limit, None, follows=False) or b""


def read_small(path: str, root: str, limit: int) -> bytes | None:
    """The same, or None if the file is so large that reading it would block the event loop."""
    return _read(path, root, limit, SMALL)


def _read(path: str, root: str, limit: int, most: int | None, *, follows: bool = True) -> bytes | None:
    with Reach(path, root, follows=follows) as location:
        if len(location.rest) != 1:
            raise _not_a_file(path) if not location.rest else _missing(path)
        if location.info is None:
            raise _missing(path)
        _check_regular(location.info, path)
        if most is not None and location.info.st_size > most:
            return None
        try:
            opened = open_inspected(location.rest[0], directory=location.directory)
            try:
                info = os.fstat(opened)
                _check_regular(info, path)
                if follows:  # otherwise it is outside anyway
                    _check_links(info, location.path, path)
                return read_up_to(opened, limit, info.st_size)
            finally:
                os.close(opened)
        except FileNotFoundError as error:
            raise _missing(path) from error
        except OSError as error:
            raise ToolError(f"{path!r} cannot be read: {error.strerror}", retryable=True) from error


def stat(path: str, root: str) -> FileStat | None:
    """Facts about a file or directory; None if it does not exist."""
    with Reach(path, root) as location:
        info = location.info if location.rest else os.fstat(location.directory)
        if info is None or len(location.rest) > 1:
            return None
        is_dir = modes.S_ISDIR(info.st_mode)
        if not is_dir:
            _check_regular(info, path)
        return FileStat(info.st_size, is_dir, info.st_mtime_ns, is_foreign(info))


def is_foreign(info: os.stat_result) -> bool:
    """Whether somebody else than this user or root owns it, or anybody may write it."""
    # A sticky directory keeps what others put into it apart, so its entries are judged by their own owners.
    is_open = bool(info.st_mode & modes.S_IWOTH) and not info.st_mode & modes.S_ISVTX
    return info.st_uid not in (0, os.geteuid()) or is_open


def list_dir(path: str, root: str, *, follows: bool = True) -> list[Entry]:
    """The entries of a directory by name, at most `MAX_ENTRIES`."""
    with Reach(path, root, follows=follows) as location:
        if len(location.rest) > 1:
            raise _missing(path)
        try:
            opened = os.open(location.rest[0] if location.rest else ".", _LIST, dir_fd=location.directory)
            try:
                return sorted(islice(_entries(opened), MAX_ENTRIES), key=lambda entry: entry.name)
            finally:
                os.close(opened)
        except FileNotFoundError as error:
            raise _missing(path) from error
        except NotADirectoryError as error:
            raise ToolError(f"{path!r} is not a directory; read it as a file") from error
        except OSError as error:
            raise ToolError(f"{path!r} cannot be listed: {error.strerror}") from error


def _entries(opened: int) -> Iterator[Entry]:
    with os.scandir(opened) as found:
        for entry in found:
            # An entry may disappear before it is inspected.
            with suppress(FileNotFoundError):
                info = entry.stat(follow_symlinks=False)
                yield Entry(name=entry.name, is_dir=modes.S_ISDIR(info.st_mode), size=info.st_size)


def write(path: str, content: bytes, root: str, check: Callable[[str], None] | None = None) -> None:
    """Replace or create a regular file and its missing parent directories.

    `check` raises for a real path that must not be written. It judges the directory that is open, not a path that is
    walked again.
    """
    with Reach(path, root) as location:
        if not location.rest:
            raise _not_a_file(path, "WRITE_FAILED")
        if check is not None:
            check(location.path)
        directory = os.dup(location.directory)
        try:
            for name in location.rest[:-1]:
                directory = _make_and_enter(name, directory)
            if check is not None and (place := path_of(directory)):
                check(f"{place.rstrip('/')}/{location.rest[-1]}")  # it may have been moved
            _replace(path, location.rest[-1], directory, content)
        except OSError as error:
            raise ToolError(f"{path!r} was not written: {error.strerror}", code="WRITE_FAILED") from error
        finally:
            os.close(directory)


def _make_and_enter(name: str, directory: int) -> int:
    # It may have appeared since the walk; entering it fails unless it is a directory.
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=directory)
    inner = enter(name, directory)
    os.close(directory)
    return inner


def _replace(path: str, name: str, directory: int, content: bytes) -> None:
    present = _existing(path, name, directory)
    temporary = f".buddy-{os.urandom(8).hex()}.tmp"
    opened = os.open(temporary, _CREATE, 0o666 if present is None else 0o600, dir_fd=directory)
    try:
        with open(opened, "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor
            _write_all(opened, content)
            if present is not None:
                _copy_metadata(opened, present)
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(temporary, dir_fd=directory)
        raise


def _existing(path: str, name: str, directory: int) -> os.stat_result | None:
    try:
        info = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _check_regular(info, path, "WRITE_FAILED")
    # Renaming over a file needs no permission on it, but it was made read-only for a reason.
    if not os.access(name, os.W_OK, dir_fd=directory):
        raise ToolError(
            f"{path!r} is read-only; leave it unchanged or ask the user to make it writable", code="WRITE_FAILED"
        )
    return info


def _copy_metadata(opened: int, present: os.stat_result) -> None:
    mine = os.fstat(opened)
    if (mine.st_uid, mine.st_gid) != (present.st_uid, present.st_gid):
        # Only root can change the owner; the content matters more.
        with suppress(PermissionError):
            os.fchown(opened, present.st_uid, present.st_gid)
    os.fchmod(opened, present.st_mode & 0o777)


def _write_all(opened: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(opened, left) :]


def _check_regular(info: os.stat_result, path: str, code: str = "UNKNOWN") -> None:
    if not modes.S_ISREG(info.st_mode):
        raise _not_a_file(path, code)
    # Kernel files claim to be regular; they expose memory and environments of other processes.
    if info.st_dev in _kernel_devices():
        raise _not_a_file(path, code)


def _check_links(info: os.stat_result, place: str, path: str) -> None:
    if has_unknown_links(info, place):
        raise ToolError(
            f"{path!r} has {info.st_nlink} hard links, and another of them may be a file outside the workspace; "
            "to read it anyway, use run_shell"
        )


def has_unknown_links(info: os.stat_result, place: str) -> bool:
    """Whether a regular file has other names, which cannot be found and may be outside the workspace."""
    is_linked = modes.S_ISREG(info.st_mode) and info.st_nlink > 1
    return is_linked and LINKED_BY_TOOLS.isdisjoint(place.split("/"))


@cache
def _kernel_devices() -> frozenset[int]:
    return frozenset({os.stat(place).st_dev for place in ("/proc", "/sys") if os.path.ismount(place)})  # noqa: PTH116 - plain strings


def _not_a_file(path: str, code: str = "UNKNOWN") -> ToolError:
    return ToolError(f"{path!r} is not a regular file; only regular files are supported", code=code)


def _missing(path: str) -> ToolError:
    return ToolError(f"{path!r} does not exist; list its directory to see what is there", code="FILE_NOT_FOUND")

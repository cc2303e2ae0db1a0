"""Directories that only their owner may write to.

Invariants: a directory that another user could have prepared is refused, never repaired, because its content may be
theirs; the mode is set only on a directory that was just created here.
"""

import errno
import os
import stat
from pathlib import Path

from buddy.errors import UserError


def make_private_dir(path: Path) -> None:
    """Make sure that this is a real directory we own; create it and missing parents with mode 0700."""
    if not path.parent.exists():
        make_private_dir(path.parent)
    try:
        path.mkdir(mode=0o700)
        path.chmod(0o700)
    except FileExistsError:
        check_private(path)
    except OSError as error:
        raise cannot_create(path, error) from error


def cannot_create(path: Path, error: OSError) -> UserError:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return UserError(
        f"cannot create {path}: {error.strerror}",
        hint="free some disk and try again" if is_full else "choose another directory with --state-dir or --socket",
        exit_code=75 if is_full else 64,
    )


def check_private(path: Path) -> None:
    """Refuse a path that is a link, not a directory, another user's, or writable by others."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise UserError(f"{path} is a symbolic link", hint="use the directory it points to instead")
    if not stat.S_ISDIR(found.st_mode):
        raise UserError(f"{path} is not a directory", hint="move it away, or choose another --state-dir")
    if found.st_uid != os.geteuid():
        raise UserError(f"{path} belongs to user {found.st_uid}, not to you", hint="choose another --state-dir")
    if found.st_mode & 0o022:
        mode = stat.S_IMODE(found.st_mode)
        raise UserError(f"{path} can be written to by others (mode {mode:04o})", hint=f"chmod 700 {path}")

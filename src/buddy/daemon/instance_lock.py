"""One daemon per state directory, behind a socket that only its owner can reach.

Invariants: the lock is held before the socket is created or a stale one removed; the socket's directory is 0700 and
the socket 0600; symbolic links and places that others own or could write to are refused.
"""

import contextlib
import fcntl
import os
import socket
import stat
import struct
from pathlib import Path

from buddy.errors import UserError
from buddy.log.statedir import cannot_create

SOCKET_PATH_LIMIT = 107
BACKLOG = 1024


def lock_state(state_dir: Path) -> int:
    """Take the daemon's lock on the state directory; it is held until the process ends."""
    safe_directory(state_dir)
    path = state_dir / "daemon.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise UserError(f"cannot lock {path}: {error.strerror}", hint="remove it if it is a link") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise UserError(
            f"a daemon (pid {pid or 'unknown'}) is already running on {state_dir}",
            hint="buddy daemon status, or buddy daemon stop",
            exit_code=75,
        ) from None
    pid = f"{os.getpid()}\n".encode()
    os.pwrite(descriptor, pid, 0)  # before it is cut: an empty file says that a daemon stopped for good
    os.ftruncate(descriptor, len(pid))
    return descriptor


def leave(lock: int) -> None:
    """The daemon stops for good: who waits for the next one need not start it."""
    os.ftruncate(lock, 0)


def was_left(path: Path) -> bool:
    """Whether the last daemon stopped for good, rather than crashed or handed over."""
    return path.exists() and path.stat().st_size == 0


def bind_socket(path: Path) -> socket.socket:
    """A listening socket at the path; a stale one is replaced, one in use is not."""
    if len(os.fsencode(path)) > SOCKET_PATH_LIMIT:
        raise UserError(
            f"the socket path {path} is too long", hint="choose a shorter one with --socket or BUDDY_SOCKET"
        )
    safe_directory(path.parent)
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    finally:
        os.umask(before)
    path.chmod(0o600)
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening


def safe_directory(path: Path) -> None:
    """Create the directory with mode 0700; refuse one that is a link, another user's, or writable by others."""
    for place in (*reversed(path.parents), path):
        # Not `parents=True`: that would create the parents with the umask's mode.
        try:
            with contextlib.suppress(FileExistsError):
                place.mkdir(mode=0o700)
        except OSError as error:
            if not place.exists():
                raise cannot_create(place, error) from error
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode) or not stat.S_ISDIR(status.st_mode):
        raise UserError(f"{path} is not a directory of its own", hint="remove the link or choose another place")
    if status.st_uid != os.geteuid():
        raise UserError(f"{path} belongs to another user", hint="choose another place with --state-dir or --socket")
    if status.st_mode & 0o022:
        raise UserError(f"{path} is writable by others", hint=f"chmod 700 {path}")


def peer_uid(connection: socket.socket) -> int:
    """The user of the process on the other end."""
    _, uid, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid


def is_answering(path: Path) -> bool:
    """Whether a process listens at the path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _remove_stale(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
        raise UserError(f"{path} exists and is not a socket of ours", hint="remove it, or choose another with --socket")
    if is_answering(path):
        raise UserError(
            f"another daemon listens on {path}", hint="buddy daemon stop, or choose another --socket", exit_code=75
        )
    path.unlink()

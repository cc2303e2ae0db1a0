"""The owner of a lease: the identity of a process, and whether that process is still alive.

Invariants: an identity is never reused, not even by a process with the same pid, nor by the program that replaces one
in its process; a process in this machine's /proc is checked there, and any other by its heartbeat.
"""

import functools
import os
from pathlib import Path

from msgspec import Struct

HEARTBEAT_MS = 15_000
_PROC = Path("/proc")
_ENDED = ("Z", "X")  # a zombie has ended; its parent just has not waited for it yet


def this_owner() -> str:
    """The identity of this process: host, boot, pid namespace, pid, start time and a random token."""
    return _owner_of(os.getpid())


def is_running(owner: str) -> bool | None:
    """Whether the process still runs; None if that cannot be seen from here."""
    identity = _parse(owner)
    if identity is None or not identity.boot or (identity.boot, identity.namespace) != (boot_id(), _namespace()):
        return None
    if identity.pid == os.getpid() and owner != this_owner():
        return False  # this process was that one, before it became another program
    try:
        return _start_of(identity.pid) == identity.start
    except PermissionError:
        return None


def is_alive(owner: str, last_seen_ms: int | None, now_ms: int) -> bool:
    """Whether the owner may still write. `last_seen_ms` is its last heartbeat."""
    found = is_running(owner)
    if found is not None:
        return found
    # abs(): after the clock is set back, a dead owner must not look alive for hours.
    return last_seen_ms is not None and abs(now_ms - last_seen_ms) < HEARTBEAT_MS


class _Identity(Struct, frozen=True):
    boot: str
    namespace: str
    pid: int
    start: str


# By pid, so that a forked child does not pass for its parent.
@functools.cache
def _owner_of(pid: int) -> str:
    host = os.uname().nodename.replace(":", "-")
    return ":".join((host, boot_id(), _namespace(), str(pid), _start_of(pid) or "", os.urandom(8).hex()))


def _parse(owner: str) -> _Identity | None:
    parts = owner.split(":")
    if len(parts) != 6 or not parts[3].isdecimal():
        return None
    return _Identity(boot=parts[1], namespace=parts[2], pid=int(parts[3]), start=parts[4])


@functools.cache
def boot_id() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str((_PROC / "self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def _start_of(pid: int) -> str | None:
    """When the process started, in clock ticks since boot; None if there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        return None
    # The program's name is in parentheses and may contain anything, so count the fields after it.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in _ENDED else fields[19]

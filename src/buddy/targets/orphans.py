"""Find and kill processes by the nonce in their environment, whatever they have become since.

Invariants: only this user's processes are examined, and this process itself is never killed. Without /proc nothing
is found.
"""

import os
import signal
import sys
from contextlib import suppress

NONCE_VARIABLE = "BUDDY_CALL"
MAX_ROUNDS = 20


def kill(nonce: str) -> int:
    """Kill every process that carries the nonce, and those they start meanwhile; return how many."""
    ended: set[int] = set()
    for _ in range(MAX_ROUNDS):
        found = find(nonce)
        if not found:
            break
        ended.update(pid for pid in found if _kill(pid, nonce))
    return len(ended)


def find(nonce: str) -> list[int]:
    """This user's running processes that carry the nonce, except this one."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - a thousand Path objects per scan are slow
    except OSError:
        return []
    own = os.getpid()
    return [int(name) for name in names if name.isdigit() and int(name) != own and _carries(name, nonce)]


def _carries(pid: str, nonce: str) -> bool:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():  # noqa: PTH116 - as above
            return False
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as above
            # A zombie's is empty, so killed processes are not found again.
            return f"{NONCE_VARIABLE}={nonce}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def _kill(pid: int, nonce: str) -> bool:
    if sys.platform != "linux":
        return False
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            # Checked again through a handle: the pid may belong to another process by now.
            if _carries(str(pid), nonce):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False

"""Named boundaries at which a test can make the process die, fail or wait.

`BUDDY_FAULT=POINT:NTH:ACTION` arms one boundary (ACTION: kill, stop, raise, sleep, enospc); `BUDDY_FAULT_LOG=FILE`
records every boundary that is reached, which is how the fault harness discovers them. Without either, `reached` does
nothing.
"""

import os


def _arm() -> "tuple[str, int, str] | None":
    text = os.environ.get("BUDDY_FAULT", "")
    if not text:
        return None
    point, nth, action = text.rsplit(":", 2)
    return point, int(nth), action


_armed = _arm()
_listing = os.environ.get("BUDDY_FAULT_LOG", "")
_counts: dict[str, int] = {}


def reached(point: str) -> None:
    """Mark a boundary. The order of boundaries in the source is the order of durability."""
    if _armed is None and not _listing:
        return
    count = _counts[point] = _counts.get(point, 0) + 1
    if _listing:
        with open(_listing, "a", encoding="utf-8") as listing:  # noqa: PTH123 - avoids importing pathlib at start-up
            listing.write(f"{point}:{count}\n")
    if _armed is not None and _armed[:2] == (point, count):
        _act(_armed[2])


def _act(action: str) -> None:
    if action in ("kill", "stop"):
        import signal

        os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)
    if action == "sleep":
        import time

        time.sleep(1)
    if action == "raise":
        raise RuntimeError("injected fault")
    if action == "enospc":
        import errno

        raise OSError(errno.ENOSPC, "No space left on device (injected)")

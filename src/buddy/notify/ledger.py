"""Which notices were delivered, or were not due because somebody looked: a file of lines that a restart reads.

Invariants: a notice is in it only after it is dealt with, so that one that was cut off is sent again under the same id;
nothing that is older than an hour, or than the file, counts as cut off.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

KEPT_MS = 3600 * 1000
_SINCE = "since"


class Ledger:
    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, ts: int) -> None:
        """Notices from this time on are looked after."""
        if not self._path.exists():
            self._append(ts, _SINCE, "-")

    def settle(self, sender: str, notice_id: str) -> None:
        """Nothing has to be done about this notice any more; `*` is every sender."""
        self._append(time.time_ns() // 1_000_000, sender, notice_id)

    def read(self) -> "tuple[int, set[tuple[str, str]]] | None":
        """Since when notices count, and those that are settled; None if there were none yet. Forgets what is old."""
        try:
            lines = [line.split(" ") for line in self._path.read_text(errors="replace").splitlines()]
        except OSError:
            return None
        oldest = time.time_ns() // 1_000_000 - KEPT_MS
        known = [(int(line[0]), line[1], line[2]) for line in lines if len(line) == 3 and line[0].isdecimal()]
        since = max([oldest, *(ts for ts, sender, _ in known if sender == _SINCE)])
        kept = [entry for entry in known if entry[0] >= oldest and entry[1] != _SINCE]
        self.forget()
        self._append(since, _SINCE, "-")
        for entry in kept:
            self._append(*entry)
        return since, {(sender, notice_id) for _, sender, notice_id in kept}

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    def _append(self, ts: int, sender: str, notice_id: str) -> None:
        with suppress(OSError):  # then it is sent twice, at worst
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, f"{ts} {sender} {notice_id}\n".encode())
            finally:
                os.close(handle)

"""The daemon's own log: what happened to the daemon, not in its sessions; scrubbed, rotated, for its owner only.

Invariant: as JSON, every line names the node, and the session that it is about if there is one.
"""

import json
import logging
import logging.handlers
import os
from contextvars import ContextVar
from pathlib import Path
from typing import Self

from buddy.scrub import Scrubber

MAX_BYTES = 4 * 1024 * 1024
BACKUPS = 3

session_in_log: ContextVar[str] = ContextVar("session_in_log", default="")
"""The session that the current task works for; tasks that it starts inherit it."""


def open_logfile(path: Path, scrubber: Scrubber, node: str | None = None) -> logging.Handler:
    """Send all logging to the file: as JSON lines if this is a `node` of several."""
    handler = PrivateFileHandler.open(path)
    handler.setFormatter(_ScrubbingFormatter(scrubber) if node is None else _JsonFormatter(scrubber, node))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    return handler


class PrivateFileHandler(logging.handlers.RotatingFileHandler):
    """Every file it opens is 0600, whatever the umask."""

    @classmethod
    def open(cls, path: Path) -> Self:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8")

    def _open(self):
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")


class _ScrubbingFormatter(logging.Formatter):
    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._scrubber = scrubber

    def format(self, record: logging.LogRecord) -> str:
        return self._scrubber.text(super().format(record))


class _JsonFormatter(logging.Formatter):
    def __init__(self, scrubber: Scrubber, node: str) -> None:
        super().__init__("%(message)s")
        self._scrubber = scrubber
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{record.msecs:03.0f}",
            "level": record.levelname,
            "logger": record.name,
            "node": self._node,
            "session": session_in_log.get() or None,
            "message": self._scrubber.text(super().format(record)),
        }
        return json.dumps(line, ensure_ascii=False)

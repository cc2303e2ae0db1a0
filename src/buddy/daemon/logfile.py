"""The daemon's own log: what happened to the daemon, not in its sessions; scrubbed, rotated, for its owner only."""

import logging
import logging.handlers
import os
from pathlib import Path

from buddy.scrub import Scrubber

MAX_BYTES = 4 * 1024 * 1024
BACKUPS = 3


def open_logfile(path: Path, scrubber: Scrubber) -> logging.Handler:
    """Send all logging to the file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = _PrivateFileHandler(path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8")
    handler.setFormatter(_ScrubbingFormatter(scrubber))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    return handler


class _PrivateFileHandler(logging.handlers.RotatingFileHandler):
    """Every file it opens is 0600, whatever the umask."""

    def _open(self):
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")


class _ScrubbingFormatter(logging.Formatter):
    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._scrubber = scrubber

    def format(self, record: logging.LogRecord) -> str:
        return self._scrubber.text(super().format(record))

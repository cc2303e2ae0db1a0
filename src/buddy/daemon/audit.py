"""Who asked for what, on which node: one JSON line for every request that changes something.

Invariants: a line is written once the request is answered, whether it was granted or refused; it holds no texts of
messages, no tokens and no keys; the file is for the daemon's owner alone.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path

from buddy.daemon.logfile import PrivateFileHandler
from buddy.daemon.roles import Roles
from buddy.protocol.envelopes import Response
from buddy.protocol.request_table import REQUESTS

_READS = ("list_", "get_", "read_", "watch_", "hello", "ping", "daemon_status", "project_options")


class Audit:
    """Opened only where a daemon has several users or nodes."""

    def __init__(self, path: Path, node: str, clock: Callable[[], int]) -> None:
        self._handler = PrivateFileHandler.open(path)
        self._node = node
        self._clock = clock

    def record(self, roles: Roles, client: str, session_id: str, response: Response) -> None:
        kind = response.type
        if kind not in REQUESTS or kind.startswith(_READS):
            return
        line = {
            "ts": self._clock(),
            "node": self._node,
            "user": roles.actor(session_id),
            "client": client,
            "request": kind,
            "requestId": response.request_id,
            "sessionId": session_id or None,
            "ok": response.ok,
            "error": response.error.code if response.error else None,
        }
        self._handler.emit(logging.makeLogRecord({"msg": json.dumps(line, ensure_ascii=False)}))

    def close(self) -> None:
        self._handler.close()

"""A minimal protocol client: a socket, lines, and only the fields that a measurement needs.

Invariants: an event is looked into only as far as its type; only responses and approvals are decoded. It shares
no code with the product's client, so that what is measured is the daemon.
"""

import asyncio
import itertools
import json
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Self

from bench.setup import BenchmarkError

Message = dict[str, Any]
PATIENCE = 120.0
_ids = itertools.count(1)


class Refused(BenchmarkError):
    """An error response."""


class Wire(asyncio.Protocol):
    """One connection; `over` holds when each session's run ended, `rows` the changes of the list it watches."""

    def __init__(self) -> None:
        self.over: dict[str, int] = {}
        self.approvals: asyncio.Queue[Message] = asyncio.Queue()
        self.rows: asyncio.Queue[bytes] = asyncio.Queue()
        self.size = 0
        self._rest = b""
        self._asked: dict[str, asyncio.Future[Message]] = {}
        self._changed = asyncio.Event()

    @classmethod
    async def connect(cls, path: Path) -> Self:
        _, wire = await asyncio.get_running_loop().create_unix_connection(cls, str(path))
        await wire.ask("hello", {"clientName": "bench", "clientVersion": "1", "capabilities": ["stream_tokens"]})
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        for asked in self._asked.values():
            asked.set_exception(exc or ConnectionResetError("the daemon closed the connection"))

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        if line.startswith(b'{"sessionId"'):  # a row of the list; its type comes last
            self.rows.put_nowait(line)
        elif b'"kind":"event"' not in line[:60]:
            message = json.loads(line)
            self._asked.pop(message["requestId"]).set_result(message)
        elif b'"type":"run_complete"' in line[:300]:
            self.over[json.loads(line)["sessionId"]] = perf_counter_ns()
            self._changed.set()
        elif b'"type":"approval_required"' in line[:300]:
            self.approvals.put_nowait(json.loads(line))

    def put(self, kind: str, payload: Message, session_id: str | None = None) -> "asyncio.Future[Message]":
        """Send a request; the future resolves to its response."""
        request_id = f"req_bench.{next(_ids)}"
        message: Message = {"v": "push.runtime.v1", "kind": "request", "requestId": request_id, "type": kind}
        if session_id:
            message["sessionId"] = session_id
        self._asked[request_id] = future = asyncio.get_running_loop().create_future()
        self._transport.write(json.dumps({**message, "payload": payload}).encode() + b"\n")
        return future

    async def ask(self, kind: str, payload: Message, session_id: str | None = None) -> Message:
        async with asyncio.timeout(PATIENCE):
            response = await self.put(kind, payload, session_id)
        if not response["ok"]:
            raise Refused(f"{kind}: {response['error']}")
        return response["payload"]

    async def start(self, folder: Path, policy: str = "all") -> str:
        """Start a session in this folder."""
        request: Message = {"mode": "interactive", "provider": "default", "sandboxProvider": "local"}
        request |= {"repo": {"rootPath": str(folder)}}
        request |= {"options": {"approvalPolicy": policy, "budget": {"maxTurns": 100_000}}}
        return (await self.ask("start_session", request))["sessionId"]

    async def send(self, session_id: str, text: str) -> str:
        """Send a message; returns the id of its run."""
        self.over.pop(session_id, None)
        payload = {"sessionId": session_id, "clientMessageId": f"msg_bench.{next(_ids)}", "text": text}
        return (await self.ask("send_user_message", payload, session_id))["runId"]

    async def attach(self, session_id: str, last_seen: int = 0) -> None:
        await self.ask("attach_session", {"sessionId": session_id, "lastSeenSeq": last_seen}, session_id)

    async def wait_over(self, *session_ids: str) -> None:
        """Wait until the runs of these sessions have ended."""
        async with asyncio.timeout(PATIENCE):
            while not all(session_id in self.over for session_id in session_ids):
                self._changed.clear()
                await self._changed.wait()

    def close(self) -> None:
        self._transport.close()

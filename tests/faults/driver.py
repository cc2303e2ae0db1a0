"""A program with a runtime and its client, made to be killed: `FOLDER MESSAGE…`.

It starts the session or opens it again, sends each message under a fixed id, approves what is asked, cancels the run
whose command never ends, and writes every event it receives to `received.ndjson` with one write, so that what a client
saw is known also after SIGKILL. Its cursor is the last seq in that file.
"""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from buddy.client.client import Client
from buddy.config.load import load_config
from buddy.config.places import find_places
from buddy.daemon.opening import open_runtime
from buddy.errors import ProtocolError
from buddy.protocol.envelopes import Event, parse_incoming
from buddy.protocol.events import ApprovalRequired, RunComplete, ToolOutput
from buddy.protocol.requests import (
    GetSnapshot,
    GetSnapshotReply,
    SendUserMessage,
    StartSession,
    SubmitApproval,
)
from buddy.protocol.shapes import Repo

RECEIVED, SESSION, FOLD = "received.ndjson", "session", "fold.json"
# The command says this once it runs; then it sleeps until the driver cancels.
ENDLESS = "endless"


def received_events(folder: Path) -> list[Event]:
    path = folder / RECEIVED
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [event for line in lines if isinstance(event := parse_incoming(line), Event)]


class Driver:
    def __init__(self, folder: Path, client: Client) -> None:
        self._folder = folder
        self._client = client
        self._events = client.events()
        self._file = os.open(folder / RECEIVED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._done = {event.run_id for event in received_events(folder) if event.type == "run_complete"}
        self._cancelled: set[str] = set()
        self.session_id = ""

    async def open(self) -> None:
        """Attach to the session of an earlier process at its cursor, or start a new one."""
        known = self._folder / SESSION
        if known.exists():
            self.session_id = known.read_text()
            seen = received_events(self._folder)
            await self._client.attach(self.session_id, seen[-1].seq if seen else 0)
            return
        request = StartSession("interactive", "default", "local", Repo(str(self._folder / "workspace")))
        self.session_id = (await self._client.start_session(request)).session_id
        _write_atomically(known, self.session_id.encode())

    async def work(self, message: str) -> None:
        """One message to the outcome of its run, however often it is sent."""
        request = SendUserMessage(self.session_id, f"msg_{message}", message)
        run_id = await self._client.send(request)
        if await self._client.send(request) != run_id:
            raise AssertionError("one message, two runs")
        if run_id in self._done:
            return
        await self._approve_pending(run_id)
        async for event in self._events:
            if event.session_id == self.session_id:
                os.write(self._file, event.line())
            await self._react(event)
            if run_id in self._done:
                return

    async def _react(self, event: Event) -> None:
        match event.body():
            case ApprovalRequired() as question:
                await self._approve(event.run_id or "", question.approval_id, event.session_id)
            case ToolOutput() as output if ENDLESS in output.text and event.run_id not in self._cancelled:
                self._cancelled.add(event.run_id or "")
                await self._cancel(event.run_id or "")
            case RunComplete():
                self._done.add(event.run_id)
            case _:
                pass

    async def _approve_pending(self, run_id: str) -> None:
        """What an earlier process was asked is not sent again; the snapshot has it."""
        snapshot = await self._client.request(GetSnapshot(), GetSnapshotReply, self.session_id)
        for approval in snapshot.approvals:
            await self._approve(run_id, approval.approval_id)

    async def _approve(self, run_id: str, approval_id: str, session_id: str | None = None) -> None:
        """A sub-agent's question comes with the session and the run that it is asked in."""
        try:
            await self._client.approve(SubmitApproval(session_id or self.session_id, run_id, approval_id, "approve"))
        except ProtocolError as error:
            if error.code != "APPROVAL_EXPIRED":
                raise

    async def _cancel(self, run_id: str) -> None:
        try:
            await self._client.cancel(self.session_id, run_id)
        except ProtocolError as error:
            if error.code != "NO_ACTIVE_RUN":
                raise


def _write_atomically(path: Path, content: bytes) -> None:
    whole = path.with_suffix(".new")
    whole.write_bytes(content)
    whole.rename(path)


async def drive(folder: Path, messages: list[str]) -> None:
    places = find_places(os.environ, folder / "state")
    runtime = await open_runtime(load_config(os.environ, folder / "buddy.toml", places), places, os.environ)
    try:
        async with Client(runtime.connect(), "driver") as client:
            driver = Driver(folder, client)
            await driver.open()
            for message in messages:
                await driver.work(message)
            live = runtime.sessions.live(driver.session_id)
            if live is not None:
                _write_atomically(folder / FOLD, msgspec.json.encode(live.fold))
    finally:
        await runtime.close()


if __name__ == "__main__":
    asyncio.run(drive(Path(sys.argv[1]), sys.argv[2:]))

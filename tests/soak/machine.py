"""One daemon that many people use: its sessions, what clients received of them, and what is left in the end."""

import json
import os
import sys
from pathlib import Path

from msgspec.structs import replace

from buddy.approvals.digest import nonce_of
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import Event
from buddy.targets import orphans
from tests.daemon.test_recovery import as_events
from tests.faults.scenario import call_ids
from tests.harness.checker import Received, Recorded, check
from tests.harness.daemon import Daemon
from tests.harness.logs import read_all
from tests.harness.processes import CANARY, ROOT, SOURCES
from tests.harness.scripts import Reply
from tests.harness.wire_client import Message, WireClient
from tests.soak.past import AddedPast, Past, digest_of, lengthen, runs

MCP = """
[mcp.servers.soak]
command = {command}
args = ["-m", "tests.harness.mcp_server"]
env = {{ PYTHONPATH = {path} }}
"""
WORK = ("model_request", "assistant_message", "tool_call", "tool_result")
"""What a run has only after it was started."""


class Machine:
    """Has what people of a fleet expect of one: gateways by name, sessions, what was received."""

    def __init__(self, folder: Path, script: list[Reply]) -> None:
        self.daemon = Daemon(folder, script=json.loads(json.dumps(script).replace("LEDGER", str(folder / "ledger"))))
        path = os.pathsep.join((str(SOURCES), str(ROOT)))
        mcp = MCP.format(command=json.dumps(sys.executable), path=json.dumps(path))
        self.daemon.config.write_text(self.daemon.config.read_text() + mcp)
        self.nodes = {"daemon": self.daemon}
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.received: list[tuple[WireClient, str, int]] = []
        self.pruned: dict[str, list[Event]] = {}
        """What sessions had before their logs were pruned."""
        self.forks: set[str] = set()
        self.past: AddedPast | None = None
        self._workspaces = 0

    async def start(self, client: WireClient, **options: object) -> str:
        self._workspaces += 1
        workspace = self.daemon.workspace / f"person-{self._workspaces}"
        workspace.mkdir(exist_ok=True)
        request: Message = {
            "mode": "interactive",
            "provider": "default",
            "sandboxProvider": "local",
            "repo": {"rootPath": str(workspace)},
            "options": options,
        }
        session_id = (await client.ask("start_session", request))["sessionId"]
        self.received.append((client, session_id, 0))
        return session_id

    def sql(self, statement: str) -> str:
        """For people who are stuck: they show what the log says."""
        return statement

    def archived(self, session_id: str) -> int:
        """The last seq that is kept of what was pruned."""
        known = self.pruned.get(session_id)
        return known[-1].seq if known else 0

    def archive(self, session_id: str, messages: list[Message]) -> None:
        """Keep what is about to be pruned."""
        last = self.archived(session_id)
        self.pruned.setdefault(session_id, []).extend(event for event in as_events(messages) if event.seq > last)

    def lengthen(self, session_id: str, events: int, past: Past = runs) -> None:
        """Give a session of a stopped daemon a long past."""
        self.past = lengthen(self.daemon.state_dir / "buddy.db", session_id, events, past)

    async def read_log(self) -> dict[str, list[Event]]:
        """Every session's events, with what was pruned, and without the long past."""
        log = SqliteLog.open(self.daemon.state_dir, lambda: 0)
        found: dict[str, list[Event]] = {}
        try:
            for record in await log.newest(1000):
                session_id, past = record.session_id, self.past
                is_long = past is not None and past.session_id == session_id
                events = await past.read_rest(log) if past and is_long else await read_all(log, session_id)
                found[session_id] = self.whole(session_id, events)
        finally:
            await log.close()
        return found

    async def last_seqs(self) -> dict[str, int]:
        log = SqliteLog.open(self.daemon.state_dir, lambda: 0)
        try:
            return {record.session_id: record.last_seq for record in await log.newest(1000)}
        finally:
            await log.close()

    def violations(self, log: dict[str, list[Event]], to_end: list[WireClient]) -> list[str]:
        """What the checker finds in the log, the ledger, and what clients received."""
        received = [self._received(*of, is_complete=of[0] in to_end) for of in self.received]
        originals = {session_id: events for session_id, events in log.items() if session_id not in self.forks}
        sinks = [path.read_bytes() for path in self.daemon.state_dir.rglob("*.log") if path.is_file()]
        recorded = Recorded(originals, received, self.ledger.read_text().split(), secrets=(CANARY,), sinks=sinks)
        forks = Recorded({one: without_begun(log[one]) for one in self.forks if one in log})
        # What a fork has of its original's commands was executed there.
        of_forks = [problem for problem in check(forks) if not problem.endswith("was never executed")]
        return [*check(recorded), *of_forks, *self._changed_past(), *_left_behind(originals)]

    def _received(self, client: WireClient, session_id: str, cursor: int, *, is_complete: bool) -> Received:
        events = as_events([one for one in client.events if _is_of(one, session_id, cursor)])
        past = self.past
        if past is not None and past.session_id == session_id:
            cursor, events = past.seq(cursor), [past.without(event) for event in events]
        return Received(session_id, cursor, events, is_complete)

    def _changed_past(self) -> list[str]:
        past = self.past
        if past is None:
            return []
        now = digest_of(self.daemon.state_dir / "buddy.db", past.session_id, past.after, past.count)
        return [] if now == past.digest else [f"{past.session_id}: its past was {past.digest} and is {now}"]

    def whole(self, session_id: str, events: list[Event]) -> list[Event]:
        """A log with what was pruned from it."""
        before = self.pruned.get(session_id, [])
        first = events[0].seq if events else 0
        return [*(event for event in before if event.seq < first), *events]


def _is_of(message: Message, session_id: str, cursor: int) -> bool:
    return message.get("sessionId") == session_id and message.get("seq", 0) > cursor


def without_begun(events: list[Event]) -> list[Event]:
    """A fork of a pruned log without the rest of a run whose beginning was pruned."""
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        return events
    begun = {event.run_id for event in events if event.type == "run_started"}
    # The message of the next run may come before the end of the one whose beginning was pruned.
    cut = {event.run_id for event in events if event.type in WORK} - begun
    # The message comes before its run is started.
    first = next((event.seq for event in events if event.run_id in begun), len(events) + 1)
    kept = [event for event in events if event.run_id is None or (event.seq >= first and event.run_id not in cut)]
    return [replace(event, seq=seq) for seq, event in enumerate(kept, 1)]


def _left_behind(log: dict[str, list[Event]]) -> list[str]:
    """The processes that still carry the nonce of a call of these sessions; they are killed."""
    found = {value for path in Path("/proc").glob("[0-9]*/environ") for value in _nonces(path)}
    nonces = {nonce_of(session_id, call) for session_id, events in log.items() for call in call_ids(events)}
    return [f"{orphans.kill(nonce)} processes of {nonce} were left behind" for nonce in found & nonces]


def _nonces(environment: Path) -> list[str]:
    prefix = f"{orphans.NONCE_VARIABLE}=".encode()
    try:
        words = environment.read_bytes().split(b"\0")
    except OSError:
        return []  # it has ended, or is somebody else's
    return [word.removeprefix(prefix).decode() for word in words if word.startswith(prefix)]

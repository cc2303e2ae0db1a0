"""Several real daemons on one real PostgreSQL, and what they leave behind.

Targets named `ssh:` run their commands on this machine, through a program of that name: they are independent of the
node that started them, as on another machine, and need no server.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from buddy.log.postgres.postgres import PostgresLog
from buddy.protocol.envelopes import Event
from tests.harness.checker import Received, Recorded, check
from tests.harness.clients import attach, decide, send, wire_client
from tests.harness.daemon import Daemon
from tests.harness.logs import read_all
from tests.harness.postgres import Postgres, url_of_both
from tests.harness.processes import PATIENCE
from tests.harness.scripts import Reply, section, shell
from tests.harness.wire_client import ErrorResponse, Message, WireClient

SSH = """#!/bin/sh
for command; do :; done
HOME=%s exec sh -c "$command"
"""
SHOWN = 20_000
"""How much of a node's log is shown, from its end."""
SCRIPT: list[Reply] = [
    section("^count", {"text": "one two three"}),
    section("^make", shell('echo "$BUDDY_CALL" >> LEDGER'), {"text": "made"}),
    section("^slow", shell('echo "$BUDDY_CALL" >> LEDGER; sleep 600'), {"text": "after"}),
    section("^drip", {"text": "drop " * 160, "delay": 0.05}),
    section("^trickle", {"text": "drop " * 400, "delay": 0.05}),
    section("^twice", *[shell('echo "$BUDDY_CALL" >> LEDGER')] * 2, {"text": "made two"}),
]


class FleetOf:
    """Use it as `async with FleetOf(folder, server, "a", "b") as fleet`.

    `cluster` is added to `[cluster]`; by default what the fixture `placement` chose for all fleets of a test.
    """

    cluster = ""

    def __init__(
        self,
        folder: Path,
        server: Postgres,
        *names: str,
        more: str = "",
        web: str = "",
        script: Sequence[Reply] = SCRIPT,
        cluster: str | None = None,
    ) -> None:
        self.folder = folder
        self.server = server
        self.url = server.database()
        self.database = self.url.rpartition("/")[2]
        self.ledger = folder / "ledger"
        self.workspace = folder / "workspace"
        self.received: list[tuple[WireClient, str, int]] = []
        self._script = script
        table, _, rest = more.partition("[cluster]\n") if "[cluster]" in more else (more, "", "")
        self._more = f"{table}\n[cluster]\n{rest}\n{self.cluster if cluster is None else cluster}"
        self._clients = AsyncExitStack()
        self.nodes: dict[str, Daemon] = {}
        self.workspace.mkdir()
        self.ledger.touch()
        programs = folder / "bin"
        programs.mkdir()
        (programs / "ssh").write_text(SSH % folder)
        (programs / "ssh").chmod(0o755)
        self.faults: dict[str, str] = {}
        self.sources: dict[str, Path] = {}  # of nodes that run another version
        self.env = {"BUDDY_LOG": self.url, "PATH": f"{programs}:{os.environ['PATH']}"}
        for name in names:
            self.add(name)
        if web:
            self.add(web).flags = ["--listen", "127.0.0.1:0"]

    def add(self, folder: str, **settings: object) -> Daemon:
        """One more node, named as its folder unless the settings say otherwise."""
        text = json.dumps(self._script).replace("LEDGER", str(self.ledger))
        daemon = Daemon(self.folder / folder, script=json.loads(text))
        lines = [f"{key} = {json.dumps(value)}" for key, value in {"name": folder, **settings}.items()]
        config = daemon.config.read_text() + "[node]\n" + "\n".join(lines) + f"\n{self._more}\n"
        daemon.config.write_text(config)
        self.nodes[folder] = daemon
        return daemon

    async def __aenter__(self) -> Self:
        for name, daemon in self.nodes.items():
            armed = {"BUDDY_FAULT": self.faults[name]} if name in self.faults else {}
            daemon.launch(**self._environment_of(name), **armed)
        for daemon in self.nodes.values():
            await asyncio.to_thread(self._wait_ready, daemon)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._clients.aclose()
        for name, daemon in self.nodes.items():
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.signal(signal.SIGCONT)
                daemon.process.terminate()
            if kind is not None:
                print(f"--- {name}\n{daemon.output()[-SHOWN:]}{daemon.log()[-SHOWN:]}")  # noqa: T201 - shown where a test fails
        for daemon in self.nodes.values():
            daemon.stop()

    def use_standby(self, standby: Postgres) -> None:
        """Have nodes and the test use a standby once it is promoted."""
        self.url = self.env["BUDDY_LOG"] = url_of_both(self.server, standby, self.database)

    def restart(self, name: str) -> None:
        self.nodes[name].start(**self._environment_of(name))

    def _environment_of(self, name: str) -> dict[str, str]:
        return self.env | ({"PYTHONPATH": str(self.sources[name])} if name in self.sources else {})

    async def client(self, name: str) -> WireClient:
        return await self._clients.enter_async_context(wire_client(self.nodes[name], name="console"))

    async def start(self, client: WireClient, target: str = "ssh:elsewhere", **options: object) -> str:
        request: Message = {
            "mode": "interactive",
            "provider": "default",
            "sandboxProvider": target,
            "repo": {"rootPath": str(self.workspace)},
        }
        if options:
            request["options"] = options
        session_id = (await client.ask("start_session", request))["sessionId"]
        self.received.append((client, session_id, 0))
        return session_id

    async def stream(self, sender: str = "a") -> tuple[WireClient, WireClient, str]:
        """A run that node `a` streams to clients of `a` and `b`; the message came through `sender`."""
        here, there = await self.client("a"), await self.client("b")
        session_id = await self.start(here, approvalPolicy="all")
        await self.attach(there, session_id)
        await send({"a": here, "b": there}[sender], session_id, "drip")
        await there.wait_for("assistant_token")
        return here, there, session_id

    async def attach(self, client: WireClient, session_id: str, last_seen: int = 0) -> None:
        self.received.append((client, session_id, last_seen))
        await attach(client, session_id, last_seen)

    async def wait_state(self, client: WireClient, name: str, state: str) -> float:
        """Wait until a node is in a state; the seconds that took."""
        began = time.monotonic()
        async with asyncio.timeout(PATIENCE):
            while True:
                nodes = (await client.ask("list_nodes"))["nodes"]
                if state in [node["state"] for node in nodes if node["node"] == name]:
                    return time.monotonic() - began
                await asyncio.sleep(0.05)

    async def wait_ledger(self, lines: int) -> list[str]:
        async with asyncio.timeout(PATIENCE):
            while len(found := self.ledger.read_text().split()) < lines:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.02)
        return found

    async def wait_logged(self, name: str, text: str) -> None:
        """Wait until a node's log says so."""
        async with asyncio.timeout(PATIENCE):
            while text not in self.nodes[name].log():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.1)

    def sql(self, statement: str) -> str:
        return self.server.sql(statement, self.database)

    def owner(self, session_id: str) -> str:
        """The node that has a session."""
        held = "SELECT n.name FROM sessions s JOIN nodes n ON n.owner = s.owner"
        return self.sql(f"{held} WHERE s.id = '{session_id}'")

    async def violations(self, *session_ids: str, to_end: Sequence[WireClient] = ()) -> list[str]:
        """What the checker finds in the log, the ledger and what all clients received."""
        log = await PostgresLog.open(self.url, lambda: 0)
        try:
            events = {session_id: await read_all(log, session_id) for session_id in session_ids}
        finally:
            await log.close()
        received = [
            Received(session_id, cursor, _events_of(client, session_id, cursor), to_end=client in to_end)
            for client, session_id, cursor in self.received
            if session_id in events
        ]
        return check(Recorded(events, received, self.ledger.read_text().split()))

    def _wait_ready(self, daemon: Daemon) -> None:
        deadline = time.monotonic() + PATIENCE
        while not daemon.is_ready():
            assert time.monotonic() < deadline, daemon.output()
            time.sleep(0.02)


def _events_of(client: WireClient, session_id: str, cursor: int) -> list[Event]:
    import msgspec

    found: list[Event] = []
    for message in client.events:
        if message.get("sessionId") == session_id and "seq" in message and message["seq"] > cursor:
            known: dict[str, Any] = {key: message.get(key) for key in ("sessionId", "seq", "ts", "type", "runId")}
            payload = msgspec.Raw(json.dumps(message["payload"], ensure_ascii=False, separators=(",", ":")).encode())
            found.append(Event(known["sessionId"], known["seq"], known["ts"], known["type"], payload, known["runId"]))
    return found


async def refusal(client: WireClient, kind: str, payload: Message, session_id: str | None = None) -> ErrorResponse:
    try:
        answer = await client.ask(kind, payload, session_id)
    except ErrorResponse as error:
        return error
    raise AssertionError(f"{kind} was answered: {answer}")


async def approve(client: WireClient, asked: Message) -> None:
    """Decide as soon as a node can write it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await decide(client, asked)
            except ErrorResponse as error:
                assert error.retryable, error
                await asyncio.sleep(0.1)
            else:
                return

"""A daemon that dies under its clients: nothing is lost, nothing is done twice, and every client reconnects."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from buddy.client.client import Client
from buddy.client.socket import connect_unix
from buddy.protocol.envelopes import Event, parse_incoming
from tests.faults.scenario import left_behind
from tests.harness.checker import Received, Recorded, check
from tests.harness.clients import attach, connect, decide, read_log, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.files import read_ledger
from tests.harness.logs import read_state_dir as read_state
from tests.harness.processes import CANARY, PATIENCE
from tests.harness.scripts import MARK, section, shell_call
from tests.harness.wire_client import ErrorResponse, Message, SocketTransport, WireClient

SCRIPT = [
    section(
        "^work",
        {"text": "First one thing.", "calls": [shell_call(MARK), {"name": "read_file", "args": {"path": "a.txt"}}]},
        {"text": "Then another.", "calls": [shell_call(f"{MARK}; exit 3")]},
        {"text": "All is done now."},
    ),
    section("^count", {"text": "one two three"}),
    section("^make", {"calls": [shell_call(f"{MARK}; echo made >> made.txt")]}, {"text": "made"}),
]
AT_ONCE = 4
POINTS = (
    "commit.before:4",
    "commit.after:9",
    "emit.before:3",
    "emit.after:6",
    "approval.required.before:1",
    "approval.required.after:1",
    "approval.submit.before:1",
    "approval.submit.after:1",
    "claim.before:1",
    "claim.after:1",
    "claim.after:2",
    "tool.start.before:1",
    "tool.start.after:1",
    "tool.end:1",
    "result.emitted:2",
)


class Following:
    """A plain client that comes back by itself, approves what is asked, and keeps all that it was sent."""

    def __init__(self, daemon: Daemon, session_id: str, *, approves: bool = False) -> None:
        self.received: list[Message] = []
        self.answered: list[str] = []
        self._daemon = daemon
        self._session_id = session_id
        self._approves = approves

    async def until_complete(self, runs: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self._completed() < runs:
                try:
                    await self._life(runs)
                except (OSError, ConnectionError):
                    await asyncio.sleep(0.02)  # the daemon is on its way back

    def _completed(self) -> int:
        return len({event["seq"] for event in self.received if event["type"] == "run_complete"})

    async def _life(self, runs: int) -> None:
        client = await connect(self._daemon)
        try:
            await client.hello("follower")
            reply = await attach(client, self._session_id, self.received[-1]["seq"] if self.received else 0)
            while True:
                self.received += client.events
                client.forget()
                await self._answer(client)
                # That it is back is an event, too, after those of a run that ended without it.
                if self._completed() >= runs and self.received[-1]["seq"] >= reply["replay"]["toSeq"]:
                    return
                await client.receive()
        finally:
            self.received += client.events
            await client.close()

    async def _answer(self, client: WireClient) -> None:
        if not self._approves:
            return
        decided = {
            event["payload"]["approvalId"] for event in self.received if event["type"].startswith("approval_")
            and event["type"] != "approval_required"
        }  # fmt: skip
        for event in list(self.received):
            if event["type"] == "approval_required" and event["payload"]["approvalId"] not in decided:
                # Whether a decision arrived before the daemon died is not known: it is said again, and may be refused.
                with contextlib.suppress(ErrorResponse):
                    await decide(client, event)
                    self.answered.append(event["payload"]["approvalId"])


def as_events(messages: Sequence[Message]) -> list[Event]:
    lines = [json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() for message in messages]
    return [event for line in lines if isinstance(event := parse_incoming(line), Event)]


async def violations(daemon: Daemon, *clients: Received) -> list[str]:
    """What the checker says of all that is left, once the daemon has stopped."""
    log = await read_state(daemon.state_dir)
    sinks = [path.read_bytes() for path in daemon.state_dir.rglob("*") if path.is_file()]
    recorded = Recorded(log, clients, read_ledger(daemon.workspace), secrets=(CANARY,), sinks=sinks)
    return [*check(recorded), *left_behind(recorded)]


async def test_three_clients_survive_a_killed_daemon(tmp_path: Path) -> None:
    assert await kill_under_three_clients(POINTS[::4], tmp_path) == []


@pytest.mark.slow
async def test_three_clients_survive_a_daemon_killed_at_any_kind_of_boundary(tmp_path: Path) -> None:
    assert await kill_under_three_clients(POINTS, tmp_path) == []


async def kill_under_three_clients(points: Sequence[str], folder: Path) -> list[str]:
    room = asyncio.Semaphore(AT_ONCE)

    async def kill_and_continue(number: int, point: str) -> list[str]:
        async with room:
            daemon = Daemon(folder / str(number), script=SCRIPT)
            await asyncio.to_thread(daemon.start, BUDDY_FAULT=f"{point}:kill")
            try:
                return [f"{point}: {problem}" for problem in await three_clients(daemon)]
            finally:
                await asyncio.to_thread(daemon.stop)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(kill_and_continue(*numbered)) for numbered in enumerate(points)]
    return [problem for task in tasks for problem in task.result()]


async def three_clients(daemon: Daemon) -> list[str]:
    """One that stalls, one of ours that reconnects, one plain that attaches again; the daemon is started once more."""
    link = await connect_unix(daemon.socket)
    async with Client(link, "cli", reconnect=lambda: connect_unix(daemon.socket)) as client:
        owner = await connect(daemon)
        await owner.hello()
        restarting = asyncio.create_task(restart_when_dead(daemon))
        session_id = await start_anyhow(owner, daemon)
        stalled = await SocketTransport.connect(daemon.socket)
        follower = Following(daemon, session_id, approves=True)
        ours: list[Event] = []

        async def follow() -> None:
            await attach_anyhow(client, session_id)
            async for event in client.events():
                ours.append(event)
                if event.type == "run_complete":
                    return

        async with asyncio.timeout(60):
            sending = asyncio.create_task(send_anyhow(daemon, session_id, "work", "msg_work"))
            await asyncio.gather(follower.until_complete(1), follow(), sending)
            assert await send_anyhow(daemon, session_id, "work", "msg_work") == sending.result()
            more = asyncio.create_task(send_anyhow(daemon, session_id, "count", "msg_more"))
            await asyncio.gather(follower.until_complete(2), more)
        await restarting
        await stalled.close()
        await owner.close()
    await asyncio.to_thread(daemon.stop)
    return await violations(
        daemon,
        Received(session_id, 0, as_events(follower.received), to_end=True),
        Received(session_id, 0, ours),
    )


async def restart_when_dead(daemon: Daemon) -> None:
    assert daemon.process is not None
    while daemon.process.poll() is None:  # noqa: ASYNC110 - nothing announces the end of a process
        await asyncio.sleep(0.01)
    assert daemon.process.returncode == -signal.SIGKILL
    await asyncio.to_thread(daemon.start)


async def start_anyhow(owner: WireClient, daemon: Daemon) -> str:
    try:
        return await start(owner, daemon)
    except ConnectionError:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    async with wire_client(daemon) as again:
                        return await start(again, daemon)
                except OSError:
                    await asyncio.sleep(0.02)


async def attach_anyhow(client: Client, session_id: str) -> None:
    while True:
        try:
            await client.attach(session_id)
        except ConnectionError:
            continue
        return


async def send_anyhow(daemon: Daemon, session_id: str, text: str, message_id: str) -> str:
    """Send it until it is answered: the same message id is the same run."""
    while True:
        try:
            async with wire_client(daemon) as client:
                return await send(client, session_id, text, message_id)
        except (OSError, ConnectionError):
            await asyncio.sleep(0.02)


async def test_a_pending_approval_outlives_the_daemon_with_its_id(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon)
            await send(client, session_id, "make")
            asked = await client.wait_for("approval_required")
        daemon.kill()
        daemon.start()
        async with wire_client(daemon) as client:
            waiting = (await client.ask("list_approvals"))["approvals"]
            assert [approval["approvalId"] for approval in waiting] == [asked["payload"]["approvalId"]]
            reply = await attach(client, session_id, asked["seq"])
            assert reply["state"] == "awaiting_approval"
            await decide(client, asked)
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
            kinds = [event["type"] for event in await read_log(client, session_id)]
            assert (kinds.count("approval_required"), kinds.count("approval_received")) == (1, 1)
        assert len(read_ledger(daemon.workspace)) == 1
        daemon.stop()
        assert await violations(daemon) == []


async def test_a_message_is_one_run_also_after_a_restart(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon)
            run_id = await send(client, session_id, "count", "msg_1")
            await client.wait_for("run_complete")
        daemon.kill()
        daemon.start()
        async with wire_client(daemon) as client:
            assert await send(client, session_id, "count", "msg_1") == run_id
            assert [event["type"] for event in await read_log(client, session_id)].count("run_started") == 1


async def approve_together(daemon: Daemon, rounds: int) -> None:
    """Twenty clients answer the same question at once, again and again."""
    async with contextlib.AsyncExitStack() as stack:
        crowd = [await stack.enter_async_context(wire_client(daemon, name=f"c{number}")) for number in range(20)]
        session_id = await start(crowd[0], daemon)
        for client in crowd[1:]:
            await attach(client, session_id)

        async def answer(client: WireClient, asked: Message) -> str | None:
            try:
                await decide(client, asked)
            except ErrorResponse as refused:
                return refused.code
            return None

        for number in range(rounds):
            await send(crowd[number % 20], session_id, "make")
            asked = await crowd[0].wait_for("approval_required")
            codes = await asyncio.gather(*(answer(client, asked) for client in crowd))
            assert codes.count(None) == 1
            assert set(codes) <= {None, "APPROVAL_EXPIRED", "APPROVAL_NOT_FOUND"}
            await crowd[0].wait_for("run_complete")
        kinds = [event["type"] for event in crowd[0].events]
        assert kinds.count("approval_received") == kinds.count("approval_required") == rounds
    assert len(read_ledger(daemon.workspace)) == len(set(read_ledger(daemon.workspace))) == rounds


FAST = {"requests_per_second": 1e6, "burst": 1_000_000}


@pytest.mark.slow
async def test_twenty_clients_approve_at_once_and_one_wins(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT, limits=FAST) as daemon:
        await approve_together(daemon, 40)


@pytest.mark.slow
async def test_twenty_clients_approve_at_once_two_thousand_times(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT, limits=FAST) as daemon:
        await approve_together(daemon, 2000)


@pytest.mark.slow
async def test_a_client_that_leaves_within_a_frame_has_asked_for_nothing(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT, limits=FAST) as daemon:
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon, approvalPolicy="all")
            message = {"sessionId": session_id, "clientMessageId": "msg_cut", "text": "make"}
            head = {"v": "push.runtime.v1", "kind": "request", "requestId": "req_c", "type": "send_user_message"}
            frame = json.dumps({**head, "sessionId": session_id, "payload": message}).encode() + b"\n"
            hello: Message = {"clientName": "x", "clientVersion": "1", "capabilities": []}
            said = json.dumps({**head, "type": "hello", "requestId": "req_h", "payload": hello}).encode() + b"\n"
            for cut in range(len(frame)):
                half = await SocketTransport.connect(daemon.socket)
                half.writer.write(said + frame[:cut])
                await half.close()
            assert (await client.ask("ping"))["pong"]
            kinds = [event["type"] for event in await read_log(client, session_id)]
            assert kinds == ["session_started"]
            whole = await SocketTransport.connect(daemon.socket)
            whole.writer.write(said + frame)
            await client.wait_for("run_complete")
            await whole.close()
        assert len(read_ledger(daemon.workspace)) == 1
        sys.stdout.write(f"left at {len(frame)} places of a frame\n")


@pytest.mark.slow
async def test_a_client_that_leaves_within_an_event_reads_it_again(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await start(client, shared)
        await send(client, session_id, "count")
        await client.wait_for("run_complete")
        for size in range(1, 4000, 61):
            half = await connect(shared)
            await half.hello()
            await attach(half, session_id)
            assert isinstance(half.transport, SocketTransport)
            await half.transport.reader.read(size)
            await half.close()
        async with wire_client(shared) as again:
            await attach(again, session_id)
            await again.wait_for("run_complete")
            assert again.events == client.events

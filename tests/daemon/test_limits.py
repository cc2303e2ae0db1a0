"""Every limit that keeps one client from harming another, set small enough to be met."""

import json
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.daemon.history import write_history
from tests.harness.clients import (
    attach,
    connect,
    decide,
    new_message_id,
    send,
    seqs,
    start,
    wait_for_connections,
    wire_client,
)
from tests.harness.daemon import LONG_WORD, Daemon
from tests.harness.wire_client import ErrorResponse, SocketTransport, WireClient

PIECE = 64 * 1024


async def test_a_frame_over_the_limit_is_refused_and_ends_the_connection(tmp_path: Path) -> None:
    with Daemon(tmp_path, limits={"frame": 2000}) as daemon:
        async with wire_client(daemon) as client, wire_client(daemon) as bystander:
            assert (await client.ask("ping", {"padding": "x" * 1500}))["pong"]
            await client.put("ping", {"padding": "x" * 2000})
            answer = await client.receive()
            assert (answer["error"]["code"], answer["error"]["retryable"]) == ("FRAME_TOO_LARGE", False)
            await client.ended()
            assert (await bystander.ask("ping"))["pong"]


async def test_a_text_may_have_256_kib_and_no_more(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await start(client, shared)
        with pytest.raises(ErrorResponse, match="INVALID_REQUEST"):
            await send(client, session_id, "count " + "x" * (256 * 1024))
        await send(client, session_id, "count " + "x" * (256 * 1024 - 6))
        await client.wait_for("run_complete")


async def test_no_event_is_longer_than_64_kib_and_nothing_is_lost_by_it(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await start(client, shared)
        await send(client, session_id, "long " + "ä" * 100_000)
        await client.wait_for("run_complete")
        lengths = [len(json.dumps(event, ensure_ascii=False).encode()) for event in client.events]
        assert max(lengths) <= PIECE
        tokens = "".join(event["payload"]["text"] for event in client.events if event["type"] == "assistant_token")
        assert tokens == LONG_WORD
        message = next(event for event in client.events if event["type"] == "assistant_message")["payload"]
        assert await complete_text(client, session_id, message["blobs"]["/text"]) == tokens


async def complete_text(client: WireClient, session_id: str, name: str) -> str:
    text, offset, total = "", 0, 1
    while offset < total:
        part = await client.ask("read_blob", {"blob": name, "offset": offset, "limit": 50_000}, session_id)
        text, total = text + part["text"], part["total"]
        offset += len(part["text"].encode())
    return text


@pytest.mark.slow
async def test_one_connection_too_many_is_closed(tmp_path: Path) -> None:
    with Daemon(tmp_path, limits={"connections": 3}) as daemon:
        clients = [await connect(daemon) for _ in range(3)]
        for client in clients:
            await client.hello()
        surplus = await connect(daemon)
        await surplus.ended()
        await surplus.close()
        assert (await clients[0].ask("daemon_status"))["connections"] == 3
        # A command that finds the daemon full says so, in one line.
        command = daemon.run("ps")
        assert (command.code, command.out) == (75, "")
        assert "Traceback" not in command.err
        assert "hint:" in command.err
        await clients.pop().close()
        await wait_for_connections(clients[0], 2)
        async with wire_client(daemon) as late:
            assert (await late.ask("ping"))["pong"]
        for client in clients:
            await client.close()


async def test_requests_that_pile_up_are_refused(tmp_path: Path) -> None:
    with Daemon(tmp_path, limits={"in_flight": 8, "requests_per_second": 1e6, "burst": 1_000_000}) as daemon:
        async with wire_client(daemon) as client:
            assert isinstance(client.transport, SocketTransport)
            ids = [f"req_{number}" for number in range(100)]
            lines = [
                json.dumps(
                    {"v": "push.runtime.v1", "kind": "request", "requestId": name, "type": "ping", "payload": {}}
                )
                for name in ids
            ]
            client.transport.writer.write(("\n".join(lines) + "\n").encode())
            answers = [await client.response(name) for name in ids]
            served = [answer["ok"] for answer in answers]
            assert served[:8] == [True] * 8
            refused = [answer["error"] for answer in answers if not answer["ok"]]
            assert {(error["code"], error["retryable"]) for error in refused} == {("OVERLOADED", True)}
            assert (await client.ask("ping"))["pong"]


@pytest.mark.slow
async def test_requests_that_come_too_fast_are_refused(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True, limits={"requests_per_second": 0.001, "burst": 10}) as daemon:
        for transport in ("unix", "websocket"):
            async with wire_client(daemon, transport) as client:
                for _ in range(9):
                    assert (await client.ask("ping"))["pong"]
                with pytest.raises(ErrorResponse, match="OVERLOADED") as refused:
                    await client.ask("ping")
                assert refused.value.retryable
        async with wire_client(daemon) as other:
            assert (await other.ask("ping"))["pong"]


async def test_one_observer_too_many_is_refused(tmp_path: Path) -> None:
    with Daemon(tmp_path, limits={"observers": 3}) as daemon:
        async with wire_client(daemon) as client, wire_client(daemon) as first, wire_client(daemon) as third:
            session_id = await start(client, daemon)
            await client.wait_for("session_started")
            async with wire_client(daemon) as second:
                await attach(first, session_id)
                await attach(second, session_id)
                await second.wait_for("session_started")
                await attach(first, session_id)
                with pytest.raises(ErrorResponse, match="OVERLOADED") as refused:
                    await attach(third, session_id)
                assert refused.value.retryable
                other = await start(third, daemon)
                assert other != session_id
                # A driver is no observer: it follows what it sends.
                await send(third, session_id, "count")
                await third.wait_for("run_complete")
            await wait_for_connections(client, 3)
            await attach(third, session_id)
            await third.wait_for("session_started", lambda payload: payload["sessionId"] == session_id)


@pytest.mark.slow
async def test_one_active_run_too_many_is_refused(tmp_path: Path) -> None:
    with Daemon(tmp_path, limits={"active_runs": 2}) as daemon:
        async with wire_client(daemon) as client:
            sessions = [await start(client, daemon) for _ in range(3)]
            for session_id in sessions[:2]:
                await send(client, session_id, "make")
            asked = await client.wait_for("approval_required")
            with pytest.raises(ErrorResponse, match="OVERLOADED") as refused:
                await send(client, sessions[2], "count")
            assert refused.value.retryable
            queued = {"clientMessageId": new_message_id(), "text": "count"}
            with pytest.raises(ErrorResponse, match="OVERLOADED"):
                await client.ask("queue_message", queued, sessions[2])
            assert (await client.ask("queue_message", queued, sessions[1]))["position"] == 1  # behind its run
            await client.ask("unqueue_message", {"clientMessageId": queued["clientMessageId"]}, sessions[1])
            await decide(client, asked, "deny")
            await client.wait_for("run_complete")
            await send(client, sessions[2], "count")
            done = await client.wait_for("run_complete")
            assert done["sessionId"] == sessions[2]


@pytest.mark.slow
async def test_a_hundred_messages_wait_and_no_more(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await start(client, shared)
        await send(client, session_id, "make")
        asked = await client.wait_for("approval_required")
        for number in range(1, 101):
            request = {"clientMessageId": new_message_id(), "text": f"count {number}"}
            assert (await client.ask("queue_message", request, session_id))["position"] == number
        with pytest.raises(ErrorResponse, match="OVERLOADED") as refused:
            await client.ask("queue_message", {"clientMessageId": new_message_id(), "text": "count"}, session_id)
        assert refused.value.retryable
        await decide(client, asked, "deny")
        for _ in range(101):
            await client.wait_for("run_complete")
        said = [event["payload"]["text"] for event in client.events if event["type"] == "user_message"]
        assert said == ["make", *(f"count {number}" for number in range(1, 101))]


async def test_a_stalled_client_is_cut_off_and_the_run_does_not_wait_for_it(tmp_path: Path) -> None:
    limits = {"stalled_seconds": 1.0, "requests_per_second": 1e6, "burst": 1_000_000}
    daemon = Daemon(tmp_path, limits=limits)
    # What compares by meaning is loaded two seconds after a first run, and takes more memory than is allowed here.
    daemon.config.write_text(daemon.config.read_text() + '[memory]\nembeddings = "none"\n')
    session_id = await write_history(daemon.state_dir, daemon.workspace, 10_000, 2000)
    with daemon:
        async with wire_client(daemon) as client:
            await attach(client, session_id, 10_000)

            async def flow() -> float:
                began = time.perf_counter()
                for _ in range(20):
                    await send(client, session_id, "count")
                    await client.wait_for("run_complete")
                return time.perf_counter() - began

            alone = await flow()
            before = daemon.rss_kib()
            with stalled(daemon, session_id):
                beside = await flow()
                sys.stdout.write(f"twenty runs alone {alone:.3f} s, beside a stalled client {beside:.3f} s\n")
                await wait_for_connections(client, 1)
            assert daemon.rss_kib() - before < 20 * 1024
            assert seqs(client.events) == list(range(10_001, 10_001 + len(client.events)))


def stalled(daemon: Daemon, session_id: str) -> socket.socket:
    """A client that asks for everything and reads nothing."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.connect(str(daemon.socket))
    requests: list[tuple[str, dict[str, object]]] = [
        ("hello", {"clientName": "stalled", "clientVersion": "1", "capabilities": []}),
        ("attach_session", {"sessionId": session_id, "lastSeenSeq": 0}),
    ]
    for number, (kind, payload) in enumerate(requests):
        envelope = {"v": "push.runtime.v1", "kind": "request", "requestId": f"req_{number}", "type": kind}
        peer.sendall(json.dumps({**envelope, "sessionId": session_id, "payload": payload}).encode() + b"\n")
    return peer


@pytest.mark.slow
async def test_a_stalled_websocket_is_cut_off(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, limits={"stalled_seconds": 1.0}, web=True)
    # More than what the kernel keeps for a loopback connection, so that the daemon has to wait.
    session_id = await write_history(daemon.state_dir, daemon.workspace, 10_000, 2000)
    with daemon:
        async with wire_client(daemon) as client:
            slow = await connect(daemon, "websocket")
            await slow.hello()
            await attach(slow, session_id)
            await send(client, session_id, "count")
            await client.wait_for("run_complete")
            await wait_for_connections(client, 1)
            await slow.close()


@pytest.mark.slow
async def test_a_slow_client_catches_up_from_its_cursor(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    session_id = await write_history(daemon.state_dir, daemon.workspace, 5_000, 1000)
    with daemon:
        async with wire_client(daemon) as client, wire_client(daemon) as slow:
            await attach(slow, session_id)
            # Nothing is read here: the stream's own limit makes it wait, and the daemon after it.
            await send(client, session_id, "count")
            await client.wait_for("run_complete")
            await slow.wait_for("run_complete")
            assert seqs(slow.events) == list(range(1, client.events[-1]["seq"] + 1))


def test_an_unknown_limit_lists_the_valid_ones(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, limits={"conections": 3})
    assert daemon.launch().wait(20) == 64
    assert "hint: available: frame, connections" in daemon.output()

"""Hostile peers: garbage, floods and silence harm no other client, and a token grants exactly what it says."""

import asyncio
import json
import sys
import time

import pytest

from tests.harness.clients import TransportName, attach, connect, connected_client, decide, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.wire_client import ErrorResponse, SocketTransport, WireClient

ENOUGH_KIB = 20 * 1024


def line(**changes: object) -> bytes:
    envelope: dict[str, object] = {
        "v": "push.runtime.v1",
        "kind": "request",
        "requestId": "req_g",
        "type": "ping",
        "payload": {},
    }
    return json.dumps({**envelope, **changes}).encode()


def with_payload(text: bytes) -> bytes:
    return line(payload="@").replace(b'"@"', text)


GARBAGE: dict[str, tuple[bytes, str]] = {
    "invalid UTF-8": (with_payload(b'{"a":"\xff\xfe\x80"}'), "INVALID_REQUEST"),
    "a bare surrogate in UTF-8": (with_payload(b'{"a":"\xed\xa0\x80"}'), "INVALID_REQUEST"),
    "NUL": (b"\x00" * 100, "INVALID_REQUEST"),
    "NaN": (with_payload(b'{"a":NaN}'), "INVALID_REQUEST"),
    "Infinity": (with_payload(b'{"a":-Infinity}'), "INVALID_REQUEST"),
    "1e400": (with_payload(b'{"a":1e400}'), "INVALID_REQUEST"),
    "a key twice": (with_payload(b'{"a":1,"a":2}'), "INVALID_REQUEST"),
    "the type twice": (line()[:-1] + b',"type":"shutdown"}', "INVALID_REQUEST"),
    "100,000 deep": (with_payload(b"[" * 100_000 + b"]" * 100_000), "INVALID_REQUEST"),
    "100,000 open": (b'{"a":' * 100_000, "INVALID_REQUEST"),
    "65 deep": (with_payload(b'{"a":' + b"[" * 64 + b"]" * 64 + b"}"), "INVALID_REQUEST"),
    "not an object": (b"[1,2,3]", "INVALID_REQUEST"),
    "a wrong kind": (line(kind="event"), "INVALID_REQUEST"),
    "no kind": (b'{"v":"push.runtime.v1","requestId":"req_g","type":"ping","payload":{}}', "INVALID_REQUEST"),
    "a wrong version": (line(v="push.runtime.v9"), "UNSUPPORTED_PROTOCOL_VERSION"),
    "a version that is a number": (line(v=1), "UNSUPPORTED_PROTOCOL_VERSION"),
    "an unknown type": (line(type="rm -rf"), "UNSUPPORTED_REQUEST_TYPE"),
    "a long type": (line(type="x" * 100_000), "UNSUPPORTED_REQUEST_TYPE"),
    "a strange request id": (line(requestId="../../etc"), "INVALID_REQUEST"),
    "a request id that is a list": (line(requestId=["req_1"]), "INVALID_REQUEST"),
    "a payload that is a string": (line(payload="x"), "INVALID_REQUEST"),
    "an HTTP request": (b"GET / HTTP/1.1", "INVALID_REQUEST"),
}


@pytest.mark.parametrize("what", GARBAGE)
async def test_garbage_is_answered_and_the_connection_stays_open(shared: Daemon, what: str) -> None:
    content, code = GARBAGE[what]
    async with wire_client(shared) as client:
        await client.transport.send(content)
        answer = await client.receive()
        assert (answer["kind"], answer["ok"], answer["error"]["code"]) == ("response", False, code)
        assert answer["requestId"].startswith("req_")
        assert (await client.ask("ping"))["pong"]


PLACES: dict[str, dict[str, object]] = {
    "start_session": {
        "mode": "interactive",
        "provider": "default",
        "sandboxProvider": "local",
        "repo": {"rootPath": "."},
    },
    "create_project": {"name": "app", "rootPath": "."},
    "trust_folder": {"rootPath": ".", "trusted": True},
    "list_commands": {"rootPath": "."},
}


@pytest.mark.parametrize("request_type", PLACES)
async def test_a_relative_path_is_refused(shared: Daemon, request_type: str) -> None:
    async with wire_client(shared) as client:
        with pytest.raises(ErrorResponse, match="rootPath must be absolute") as refused:
            await client.ask(request_type, PLACES[request_type])
        assert refused.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize("what", [name for name, (content, _) in GARBAGE.items() if content.isascii()])
async def test_garbage_on_the_websocket_is_answered_too(shared: Daemon, what: str) -> None:
    content, code = GARBAGE[what]
    async with wire_client(shared, "websocket") as client:
        await client.transport.send(content)
        assert (await client.receive())["error"]["code"] == code
        assert (await client.ask("ping"))["pong"]


async def test_half_a_surrogate_pair_is_refused_and_breaks_nothing(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await start(client, shared)
        request = {"sessionId": session_id, "clientMessageId": "msg_s", "text": "count \ud800"}
        with pytest.raises(ErrorResponse, match="INVALID_REQUEST"):
            await client.ask("send_user_message", request, session_id)
        await send(client, session_id, "count")
        await client.wait_for("run_complete")


async def test_a_check_that_no_shell_can_run_is_refused(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await start(client, shared)
        checks = [{"id": "a", "check": "tr\0ue"}]
        request = {"sessionId": session_id, "clientMessageId": "msg_n", "text": "count", "acceptanceCriteria": checks}
        with pytest.raises(ErrorResponse, match="contains a NUL character"):
            await client.ask("send_user_message", request, session_id)
        with pytest.raises(ErrorResponse, match="INVALID_REQUEST"):
            await client.ask("list_decisions", {"since": 10**30})


async def test_endless_lines_end_their_connection_and_cost_no_memory(shared: Daemon) -> None:
    async with wire_client(shared) as bystander:
        before = shared.rss_kib()
        for content in (b"x" * (10 << 20) + b"\n", b" " * (10 << 20), b'{"a":"' + b"y" * (10 << 20)):
            transport = await SocketTransport.connect(shared.socket)
            transport.writer.write(content)
            await transport.writer.drain()
            answer = json.loads(await transport.reader.readline())
            assert (answer["ok"], answer["error"]["code"]) == (False, "FRAME_TOO_LARGE")
            assert await transport.reader.read() == b""
            await transport.close()
            assert (await bystander.ask("ping"))["pong"]
        assert shared.rss_kib() - before < ENOUGH_KIB


@pytest.mark.slow
async def test_garbage_from_many_clients_costs_no_memory(shared: Daemon) -> None:
    async with wire_client(shared) as bystander:

        async def throw() -> None:
            transport = await SocketTransport.connect(shared.socket)
            for content, _ in GARBAGE.values():
                await transport.send(content)
            transport.writer.write(b"\n" * 500_000 + b"x\n" * 20_000)
            reading = asyncio.ensure_future(transport.reader.read(1 << 20))
            await transport.writer.drain()
            await reading
            await transport.close()

        grown: list[int] = []
        for _ in range(4):  # memory that is allocated once or freed later is not a leak
            before = shared.rss_kib()
            await asyncio.gather(*(throw() for _ in range(10)))
            assert (await bystander.ask("ping"))["pong"]
            grown.append(shared.rss_kib() - before)
        assert min(grown) < ENOUGH_KIB


@pytest.mark.parametrize("session_id", ["../../x", "sess_../../x", "sess_" + "x" * 10_000, "", "sess_\x00", "SESS_1"])
@pytest.mark.parametrize("kind", ["attach_session", "send_user_message", "read_events", "delete_session"])
async def test_a_malformed_id_is_not_found(shared: Daemon, session_id: str, kind: str) -> None:
    payloads: dict[str, dict[str, object]] = {
        "attach_session": {"sessionId": session_id, "lastSeenSeq": 0},
        "send_user_message": {"sessionId": session_id, "clientMessageId": "msg_1", "text": "x"},
        "read_events": {"after": 0},
        "delete_session": {},
    }
    async with wire_client(shared) as client:
        with pytest.raises(ErrorResponse) as refused:
            await client.ask(kind, payloads[kind], session_id)
        assert refused.value.code == ("SESSION_NOT_FOUND" if session_id else "INVALID_REQUEST")
        assert len(str(refused.value)) < 300


async def test_a_token_opens_its_own_session_and_no_other(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        first = await start(owner, shared)
        token = owner.token
        second = await start(owner, shared)
    async with wire_client(shared, "websocket", token=token) as client:
        assert (await attach(client, first))["sessionId"] == first
        for request in (attach(client, second), attach(client, second, 0, token), send(client, second, "count")):
            with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
                await request
        for kind in ("shutdown", "list_approvals"):
            with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
                await client.ask(kind)
        with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
            await start(client, shared)
        listed = (await client.ask("list_sessions", {"limit": 200}))["sessions"]
        assert [session["sessionId"] for session in listed] == [first]


@pytest.mark.parametrize("transport", ["unix", "websocket"])
async def test_a_role_comes_from_the_token_and_not_from_a_claim(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        roles = {
            role: (await owner.ask("mint_token", {"role": role}, session_id))["attachToken"]
            for role in ("observer", "approver", "driver")
        }
        await send(owner, session_id, "make")
        asked = await owner.wait_for("approval_required")
        client = await connect(shared, transport, token=roles["observer"])
        await client.ask(
            "hello",
            {"clientName": "admin", "clientVersion": "1", "capabilities": ["driver"], "role": "driver", "admin": True},
        )
        await attach(client, session_id, 0, roles["observer"])
        await client.wait_for("approval_required")
        for request in (
            decide(client, asked),
            send(client, session_id, "count"),
            client.ask("cancel_run", {"sessionId": session_id, "runId": asked["runId"]}, session_id),
            client.ask("mint_token", {"role": "driver"}, session_id),
            client.ask("set_approval_policy", {"policy": "all"}, session_id),
            client.ask("delete_session", {}, session_id),
            client.ask("prune_session", {"beforeSeq": 2}, session_id),
            client.ask("list_tokens", {}, session_id),
        ):
            with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
                await request
        await client.close()
        async with wire_client(shared, "websocket", token=roles["approver"], name="policy") as approver:
            with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
                await send(approver, session_id, "count")
            await decide(approver, asked, "deny")
        received = await owner.wait_for("approval_received")
        assert received["payload"]["by"] == "policy-client"
        await owner.wait_for("run_complete")


async def test_a_flood_is_refused_and_other_clients_hardly_notice(daemon: Daemon) -> None:
    async with wire_client(daemon, name="flood") as flood, wire_client(daemon) as bystander:
        assert isinstance(flood.transport, SocketTransport)
        transport, codes = flood.transport, dict[str, int]()
        over = asyncio.Event()

        async def pour() -> None:
            while not over.is_set():
                transport.writer.write(b"".join(line(requestId=f"req_{number}") + b"\n" for number in range(500)))
                await transport.writer.drain()

        async def drain() -> None:
            while not over.is_set():
                answer = json.loads(await transport.reader.readline())
                code = "ok" if answer["ok"] else answer["error"]["code"]
                assert answer["ok"] or answer["error"]["retryable"]
                codes[code] = codes.get(code, 0) + 1

        tasks = [asyncio.ensure_future(pour()), asyncio.ensure_future(drain())]
        waits: list[float] = []
        for _ in range(100):
            began = time.perf_counter()
            assert (await bystander.ask("ping"))["pong"]
            waits.append(time.perf_counter() - began)
            await asyncio.sleep(0.01)
        over.set()
        await asyncio.wait(tasks)
        p99 = sorted(waits)[98] * 1000
        sys.stdout.write(f"bystander p99 {p99:.1f} ms, {sum(codes.values())} answers to the flood: {codes}\n")
        assert set(codes) <= {"ok", "OVERLOADED"}
        assert codes["OVERLOADED"] > codes["ok"]


async def test_clients_that_never_say_hello_are_disconnected(tmp_path_factory: pytest.TempPathFactory) -> None:
    limits = {"hello_seconds": 0.5}
    with Daemon(tmp_path_factory.mktemp("d"), limits=limits) as daemon:
        async with wire_client(daemon) as bystander:
            silent = [await SocketTransport.connect(daemon.socket) for _ in range(100)]

            async def dribble(transport: SocketTransport) -> None:
                """One byte now and then is as good as silence."""
                try:
                    for byte in line(type="hello"):
                        transport.writer.write(bytes([byte]))
                        await transport.writer.drain()
                        await asyncio.sleep(0.05)
                except ConnectionError:
                    return

            dribbling = [asyncio.ensure_future(dribble(transport)) for transport in silent[:20]]
            waits: list[float] = []
            closing = asyncio.gather(*(WireClient(transport).ended() for transport in silent))
            while not closing.done():
                began = time.perf_counter()
                assert (await bystander.ask("ping"))["pong"]
                waits.append(time.perf_counter() - began)
                await asyncio.wait([closing], timeout=0.02)
            await closing
            await asyncio.gather(*dribbling)
            await asyncio.gather(*(transport.close() for transport in silent))
            sys.stdout.write(f"bystander's longest wait {max(waits) * 1000:.1f} ms\n")
            assert (await bystander.ask("daemon_status"))["connections"] == 1


async def test_a_request_before_hello_is_refused(shared: Daemon) -> None:
    client = await connect(shared)
    with pytest.raises(ErrorResponse, match="INVALID_REQUEST"):
        await client.ask("list_sessions")
    assert (await client.ask("ping"))["pong"]
    await client.close()


async def test_a_session_named_twice_must_be_named_alike(shared: Daemon) -> None:
    async with connected_client(shared) as client:
        first, second = await start(client, shared), await start(client, shared)
        with pytest.raises(ErrorResponse, match="INVALID_REQUEST"):
            await client.ask("attach_session", {"sessionId": first, "lastSeenSeq": 0}, second)
        with pytest.raises(ErrorResponse, match="INVALID_REQUEST"):
            await client.ask("offer_files", {"sessionId": first}, second)


@pytest.mark.parametrize(("request_type", "more"), [("offer_files", {}), ("offer_mcp_servers", {"servers": []})])
async def test_an_offer_for_a_session_that_does_not_exist_is_refused(
    shared: Daemon, request_type: str, more: dict[str, object]
) -> None:
    async with connected_client(shared) as client:
        known = await start(client, shared)
        assert (await client.ask(request_type, {"sessionId": known, **more}))["accepted"]
        unknown = known[:-1] + ("0" if known[-1] != "0" else "1")
        with pytest.raises(ErrorResponse, match="SESSION_NOT_FOUND"):
            await client.ask(request_type, {"sessionId": unknown, **more})

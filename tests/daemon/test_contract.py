"""The contract tests and the concurrency, replay and security rules of the protocol, against the real daemon.

Every case runs over the Unix socket and over WebSocket, with a client that shares no code with ours and with ours.
"""

import asyncio
import json

import pytest

from tests.harness.clients import (
    ClientKind,
    TransportName,
    attach,
    connected_client,
    decide,
    new_message_id,
    read_log,
    send,
    seqs,
    start,
    wire_client,
)
from tests.harness.daemon import Daemon
from tests.harness.files import read_ledger
from tests.harness.processes import CANARY
from tests.harness.wire_client import ErrorResponse

pytestmark = [
    pytest.mark.parametrize("transport", ["unix", "websocket"]),
    pytest.mark.parametrize("kind", ["plain", "ours"]),
]


async def test_hello_returns_version_and_capabilities(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    async with connected_client(shared, kind, transport) as client:
        reply = await client.ask("hello", {"clientName": "c", "clientVersion": "1", "capabilities": []})
        assert reply["protocolVersion"] == "push.runtime.v1"
        assert {"stream_tokens", "approvals", "replay_attach", "headless"} <= set(reply["capabilities"])
        assert (await client.ask("ping"))["pong"] is True


async def test_a_started_session_is_announced(shared: Daemon, kind: ClientKind, transport: TransportName) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared)
        started = await client.wait_for("session_started")
        assert (started["seq"], started["sessionId"], started["payload"]["state"]) == (1, session_id, "idle")
        assert client.token.startswith("att_")
        listed = (await client.ask("list_sessions", {"limit": 5}))["sessions"]
        assert listed[0]["sessionId"] == session_id
        assert listed[0]["repo"]["rootPath"] == str(shared.workspace)


async def test_a_message_streams_tokens_and_completes(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared)
        run_id = await send(client, session_id, "count")
        done = await client.wait_for("run_complete")
        assert (done["runId"], done["payload"]["outcome"]) == (run_id, "success")
        tokens = [event["payload"]["text"] for event in client.events if event["type"] == "assistant_token"]
        assert "".join(tokens) == "one two three"
        assert seqs(client.events) == list(range(1, len(client.events) + 1))
        assert client.events == await read_log(client, session_id)


async def test_tool_calls_and_results_are_seen_in_pairs(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    async with connected_client(shared, kind, transport) as client:
        await send(client, await start(client, shared), "read")
        call, result = await client.wait_for("tool_call"), await client.wait_for("tool_result")
        assert call["payload"]["toolName"] == result["payload"]["toolName"] == "read_file"
        assert (result["payload"]["isError"], result["payload"]["structuredError"]) == (False, None)
        assert "hello" in result["payload"]["text"]


async def test_an_approval_holds_the_call_until_it_is_given(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    async with connected_client(shared, kind, transport) as client:
        before = len(read_ledger(shared.workspace))
        await send(client, await start(client, shared), "make")
        asked = await client.wait_for("approval_required")
        assert len(read_ledger(shared.workspace)) == before
        assert await decide(client, asked) == {"accepted": True}
        received = (await client.wait_for("approval_received"))["payload"]
        assert (received["decision"], received["by"]) == ("approve", "cli")
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        assert len(read_ledger(shared.workspace)) == before + 1


async def test_a_cancelled_run_completes_as_cancelled(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared, approvalPolicy="all")
        run_id = await send(client, session_id, "wait")
        await client.wait_for("tool_output")
        request = {"sessionId": session_id, "runId": run_id, "reason": "user_cancelled"}
        assert await client.ask("cancel_run", request, session_id) == {"accepted": True}
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "cancelled"
        with pytest.raises(ErrorResponse, match="NO_ACTIVE_RUN"):
            await client.ask("cancel_run", request, session_id)


async def test_an_attach_replays_what_was_missed(shared: Daemon, kind: ClientKind, transport: TransportName) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared)
        await send(client, session_id, "count")
        await client.wait_for("run_complete")
    async with connected_client(shared, kind, transport) as late:
        reply = await attach(late, session_id, 3)
        last = client.events[-1]["seq"]
        assert reply["replay"] == {"fromSeq": 4, "toSeq": last, "completed": True, "gap": False}
        await late.wait_for("run_complete")
        assert late.events == client.events[3:]


async def test_resume_is_attach_with_the_state(shared: Daemon, kind: ClientKind, transport: TransportName) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared)
        await send(client, session_id, "make")
        asked = await client.wait_for("approval_required")
        async with wire_client(shared, transport) as other:
            reply = await other.ask("resume_session", {"sessionId": session_id, "lastSeenSeq": 0}, session_id)
            assert reply["state"] == "awaiting_approval"
            assert (await other.wait_for("approval_required"))["payload"] == asked["payload"]
        await decide(client, asked, "deny")
        await client.wait_for("run_complete")


async def test_one_run_at_a_time_and_a_message_once(shared: Daemon, kind: ClientKind, transport: TransportName) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared)
        message_id = new_message_id()
        run_id = await send(client, session_id, "make", message_id)
        assert await send(client, session_id, "make", message_id) == run_id
        with pytest.raises(ErrorResponse, match="RUN_IN_PROGRESS") as refused:
            await send(client, session_id, "count")
        assert refused.value.retryable
        await decide(client, await client.wait_for("approval_required"), "deny")
        await client.wait_for("run_complete")
        assert await send(client, session_id, "make", message_id) == run_id
        assert [event["type"] for event in await read_log(client, session_id)].count("run_started") == 1


async def test_the_same_message_sent_twenty_times_at_once_is_one_run(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared)
        message_id = new_message_id()

        async def repeat() -> str:
            async with connected_client(shared, kind, transport) as other:
                return await send(other, session_id, "count", message_id)

        runs = await asyncio.gather(*(repeat() for _ in range(20)))
        assert len(set(runs)) == 1
        await client.wait_for("run_complete")
        assert [event["type"] for event in client.events].count("user_message") == 1


async def test_all_observers_see_the_same(shared: Daemon, kind: ClientKind, transport: TransportName) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared)
        async with wire_client(shared) as first, wire_client(shared, "websocket") as second:
            await attach(first, session_id)
            await attach(second, session_id)
            await send(client, session_id, "count")
            for observer in (client, first, second):
                await observer.wait_for("run_complete")
            assert client.events == first.events == second.events


async def test_the_first_approval_wins_and_the_others_are_refused(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    async with (
        connected_client(shared, kind, transport) as client,
        connected_client(shared, kind, transport, name="app") as other,
    ):
        session_id = await start(client, shared)
        await attach(other, session_id)
        await send(client, session_id, "make")
        asked = await other.wait_for("approval_required")
        await decide(other, asked)
        with pytest.raises(ErrorResponse, match=r"APPROVAL_EXPIRED|APPROVAL_NOT_FOUND"):
            await decide(client, asked, "deny")
        done = await client.wait_for("run_complete")
        assert done["payload"]["outcome"] == "success"
        received = [event for event in client.events if event["type"] == "approval_received"]
        assert [event["payload"]["by"] for event in received] == ["app"]


async def test_an_unknown_approval_is_not_found(shared: Daemon, kind: ClientKind, transport: TransportName) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared)
        await send(client, session_id, "make")
        asked = await client.wait_for("approval_required")
        wrong = {**asked, "payload": {**asked["payload"], "approvalId": "appr_other"}}
        with pytest.raises(ErrorResponse, match="APPROVAL_NOT_FOUND"):
            await decide(client, wrong)
        await decide(client, asked, "deny")


async def test_a_pruned_cursor_gets_a_gap_a_warning_and_a_snapshot(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared)
        await send(client, session_id, "count")
        done = await client.wait_for("run_complete")
        assert (await client.ask("prune_session", {"beforeSeq": done["seq"]}, session_id))["firstSeq"] == done["seq"]
        async with connected_client(shared, kind, transport) as late:
            reply = await attach(late, session_id, 1)
            assert reply["replay"]["gap"] is True
            warning, snapshot = await late.wait_for("warning"), await late.wait_for("session_snapshot")
            assert warning["payload"]["code"] == "EVENT_GAP"
            assert (snapshot["payload"]["state"], snapshot["payload"]["pendingApproval"]) == ("idle", None)
            assert snapshot["seq"] == warning["seq"] + 1


async def test_a_known_secret_is_redacted_everywhere(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    async with connected_client(shared, kind, transport) as client:
        session_id = await start(client, shared, approvalPolicy="all")
        await send(client, session_id, "secret")
        await client.wait_for("run_complete")
        assert CANARY not in str(await read_log(client, session_id))
        assert CANARY not in str(client.events)
        assert "the key is" in str(client.events)


async def test_a_wrong_token_is_refused_also_for_the_owner(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    async with connected_client(shared, kind, transport) as client, connected_client(shared, kind, transport) as other:
        session_id = await start(client, shared)
        with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
            await attach(other, session_id, 0, "att_wrong")
        assert (await attach(other, session_id, 0, client.token))["sessionId"] == session_id


async def test_unknown_types_versions_and_sessions_are_named(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    del kind
    async with wire_client(shared, transport) as client:
        with pytest.raises(ErrorResponse, match="UNSUPPORTED_REQUEST_TYPE"):
            await client.ask("make_coffee")
        with pytest.raises(ErrorResponse, match="SESSION_NOT_FOUND"):
            await attach(client, "sess_missing")
        with pytest.raises(ErrorResponse, match="PROVIDER_NOT_CONFIGURED"):
            await client.ask(
                "start_session",
                {"mode": "interactive", "provider": "x", "sandboxProvider": "local", "repo": {"rootPath": "/"}},
            )
        with pytest.raises(ErrorResponse, match="SANDBOX_UNAVAILABLE"):
            await client.ask(
                "start_session",
                {"mode": "interactive", "provider": "play", "sandboxProvider": "modal", "repo": {"rootPath": "/"}},
            )
        await client.transport.send(b'{"v":"push.runtime.v2","kind":"request","requestId":"req_v2","type":"ping"}')
        assert (await client.response("req_v2"))["error"]["code"] == "UNSUPPORTED_PROTOCOL_VERSION"


async def test_a_response_names_the_session_that_only_the_payload_of_its_request_names(
    shared: Daemon, kind: ClientKind, transport: TransportName
) -> None:
    del kind
    async with wire_client(shared, transport) as client:
        session_id = await start(client, shared)
        payload = {"sessionId": session_id, "clientMessageId": "msg_1", "text": "count"}
        head = {"v": "push.runtime.v1", "kind": "request", "requestId": "req_1", "type": "send_user_message"}
        await client.transport.send(json.dumps({**head, "payload": payload}).encode())
        response = await client.response("req_1")
        assert (response["ok"], response["sessionId"]) == (True, session_id)

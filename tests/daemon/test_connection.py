"""One connection: what is refused, and who may do what."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from buddy.client.client import Client
from buddy.daemon.link import memory_pair
from buddy.errors import ProtocolError
from buddy.protocol import queue_requests as queue
from buddy.protocol import requests as ask
from buddy.protocol.codes import VERSION, Role
from buddy.protocol.envelopes import Response
from buddy.protocol.events import ApprovalReceived, ApprovalRequired, RunComplete, RunStarted
from buddy.protocol.shapes import Repo, Shape
from tests.harness.models import calls, says
from tests.harness.runtime import RuntimeClient, RuntimeHost, scripted_host


@asynccontextmanager
async def stranger(host: RuntimeHost, name: str = "stranger") -> AsyncGenerator[RuntimeClient]:
    """A client that is not the owner: it may do what its tokens allow."""
    theirs, ours = memory_pair()
    assert host.runtime.accept(ours, trusted=False)
    async with Client(theirs, name) as client:
        yield RuntimeClient(client, host.workspace)


@asynccontextmanager
async def guest_with(host: RuntimeHost, session_id: str, token: str) -> AsyncGenerator[RuntimeClient]:
    async with stranger(host) as client:
        client.session_id = session_id
        await client.api.attach(session_id, 0, token)
        yield client


async def minted(owner: RuntimeClient, role: Role, seconds: float | None = None) -> str:
    request = ask.MintToken(role, seconds)
    return (await owner.api.request(request, ask.MintTokenReply, owner.session_id)).attach_token


async def code_of(client: RuntimeClient, payload: Shape, reply: type[Shape], session_id: str | None = None) -> str:
    with pytest.raises(ProtocolError) as refusal:
        await client.api.request(payload, reply, session_id or client.session_id)
    return refusal.value.code


async def raw(host: RuntimeHost, *lines: bytes) -> list[Response]:
    """What comes back for lines as they are."""
    link = host.runtime.connect()
    found: list[Response] = []
    for line in lines:
        await link.write(line + b"\n")
        answered = await link.read_line()
        assert answered is not None
        found.append(msgspec.json.decode(answered, type=Response))
    link.close()
    return found


def request_line(kind: str, payload: object, session_id: str | None = None, request_id: str = "req_1") -> bytes:
    envelope = {"v": VERSION, "kind": "request", "requestId": request_id, "type": kind, "payload": payload}
    return msgspec.json.encode({**envelope, "sessionId": session_id} if session_id else envelope)


HELLO = request_line("hello", {"clientName": "raw", "clientVersion": "1", "capabilities": []})


def codes(responses: list[Response]) -> list[str | None]:
    return [response.error.code if response.error else None for response in responses]


async def test_nothing_is_done_for_a_client_that_did_not_say_hello(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        early = request_line("list_sessions", {})
        assert codes(await raw(host, early, request_line("ping", {}), HELLO, early)) == [
            "INVALID_REQUEST",
            None,
            None,
            None,
        ]


async def test_an_invalid_request_is_refused_and_the_connection_stays_open(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        wrong_version = HELLO.replace(VERSION.encode(), b"push.runtime.v9")
        answers = await raw(
            host,
            b"{not json",
            wrong_version,
            HELLO,
            request_line("dance", {}, request_id="req_dance"),
            request_line("send_user_message", {"sessionId": "sess_1"}, "sess_1"),
            request_line("ping", {}),
        )
        assert codes(answers) == [
            "INVALID_REQUEST",
            "UNSUPPORTED_PROTOCOL_VERSION",
            None,
            "UNSUPPORTED_REQUEST_TYPE",
            "INVALID_REQUEST",
            None,
        ]
        assert (answers[3].request_id, answers[3].type) == ("req_dance", "dance")


async def test_a_time_that_no_clock_reaches_is_refused(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host, host.client() as owner:
        session_id = await owner.start()
        answers = await raw(
            host,
            HELLO,
            request_line("mint_token", {"role": "observer", "expiresInSeconds": 1e300}, session_id),
            request_line("set_approval_policy", {"policy": "until", "durationSeconds": 1e300}, session_id),
            request_line("set_approval_policy", {"policy": "until", "durationSeconds": 86400.0}, session_id),
        )
        assert codes(answers) == [None, "INVALID_REQUEST", "INVALID_REQUEST", None]


async def test_envelope_and_payload_must_mean_the_same_session(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        payload = {"sessionId": "sess_1", "runId": "run_1"}
        answers = await raw(
            host, HELLO, request_line("cancel_run", payload, "sess_2"), request_line("get_snapshot", {})
        )
        assert codes(answers) == [None, "INVALID_REQUEST", "INVALID_REQUEST"]
        assert answers[1].error is not None
        assert "differs" in answers[1].error.message


async def test_a_session_is_named_in_the_envelope_or_in_the_payload(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host, host.client() as client:
        session_id = await client.start()
        answers = await raw(
            host,
            HELLO,
            request_line("cancel_run", {"runId": "run_1"}, session_id),
            request_line("get_snapshot", {"sessionId": session_id}),
            request_line("get_snapshot", {"sessionId": session_id}, "sess_2"),
            request_line("get_snapshot", {"sessionId": 7}),
            request_line("attach_session", {"lastSeenSeq": 0}, session_id),
        )
        assert codes(answers) == [None, "NO_ACTIVE_RUN", None, "INVALID_REQUEST", "INVALID_REQUEST", None]


@pytest.mark.parametrize("session_id", ["../../x", "sess_../../etc", "sess_unknown", "sess_", "x" * 500])
async def test_an_unknown_session_is_not_found(tmp_path: Path, session_id: str) -> None:
    async with scripted_host(tmp_path) as host, host.client() as client:
        assert await code_of(client, ask.GetSnapshot(), ask.GetSnapshotReply, session_id) == "SESSION_NOT_FOUND"
        assert (
            await code_of(client, ask.AttachSession(session_id, 0), ask.AttachSessionReply, session_id)
            == "SESSION_NOT_FOUND"
        )


async def test_a_token_that_is_shown_must_be_right_even_for_the_owner(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host, host.client() as client:
        first = await client.start()
        token = client.token
        second = await client.start()
        for session_id, shown in ((first, "att_wrong"), (second, token)):
            wrong = ask.AttachSession(session_id, 0, shown)
            assert await code_of(client, wrong, ask.AttachSessionReply, session_id) == "ATTACH_FORBIDDEN"
        await client.api.attach(first, 0, token)
        await client.api.attach(second, 0)


async def test_a_stranger_needs_a_token_and_sees_only_its_session(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host, host.client() as owner:
        session_id = await owner.start()
        token = owner.token
        await owner.start()
        async with stranger(host) as client:
            client.session_id = session_id
            attach = ask.AttachSession(session_id, 0)
            assert await code_of(client, attach, ask.AttachSessionReply) == "ATTACH_FORBIDDEN"
            for request, reply in ((ask.GetSnapshot(), ask.GetSnapshotReply), (ask.ReadEvents(0), ask.ReadEventsReply)):
                assert await code_of(client, request, reply) == "ATTACH_FORBIDDEN"
            assert await code_of(client, ask.ListApprovals(), ask.ListApprovalsReply) == "ATTACH_FORBIDDEN"
            assert await code_of(client, ask.Shutdown(), ask.AcceptedReply) == "ATTACH_FORBIDDEN"
            assert (await client.api.request(ask.ListSessions(), ask.ListSessionsReply)).sessions == ()
            await client.api.attach(session_id, 0, token)
            listed = (await client.api.request(ask.ListSessions(limit=1), ask.ListSessionsReply)).sessions
            assert [found.session_id for found in listed] == [session_id]
            other = ask.ListSessions(root_path="/elsewhere")
            assert (await client.api.request(other, ask.ListSessionsReply)).sessions == ()


async def test_a_path_that_no_system_has_is_the_peers_mistake(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host, host.client() as client:
        requests: tuple[tuple[Shape, type[Shape]], ...] = (
            (ask.StartSession("interactive", "default", "local", Repo("/no\0where")), ask.StartSessionReply),
            (ask.TrustFolder("/no\0where", trusted=True), ask.TrustFolderReply),
            (ask.CreateProject("x", "/no\0where"), ask.CreateProjectReply),
        )
        for request, reply in requests:
            assert await code_of(client, request, reply) == "INVALID_REQUEST", request


async def test_an_observer_sees_everything_and_does_nothing(tmp_path: Path) -> None:
    script = (calls(("run_shell", {"command": "true"})), says("done"))
    async with scripted_host(tmp_path, *script) as host, host.client() as owner:
        session_id = await owner.start()
        async with guest_with(host, session_id, await minted(owner, "observer")) as observer:
            run_id = await owner.send("go")
            asked = await observer.wait_for(ApprovalRequired)
            decision = ask.SubmitApproval(session_id, run_id, asked.approval_id, "approve")
            refused: tuple[tuple[Shape, type[Shape]], ...] = (
                (ask.SendUserMessage(session_id, "msg_1", "hi"), ask.SendUserMessageReply),
                (decision, ask.AcceptedReply),
                (ask.CancelRun(session_id, run_id), ask.AcceptedReply),
                (ask.SetApprovalPolicy("all"), ask.SetApprovalPolicyReply),
                (queue.SteerRun(run_id, "left"), ask.AcceptedReply),
                (queue.QueueMessage("msg_2", "later"), queue.QueueMessageReply),
                (ask.SwitchModel("other"), ask.SwitchModelReply),
                (ask.CompactSession(), ask.CompactSessionReply),
                (ask.PruneSession(2), ask.PruneSessionReply),
                (ask.MintToken("driver"), ask.MintTokenReply),
                (ask.DeleteSession(), ask.DeleteSessionReply),
            )
            for request, reply in refused:
                assert await code_of(observer, request, reply) == "ATTACH_FORBIDDEN", request
            await owner.api.approve(decision)
            assert (await observer.wait_for(RunComplete)).outcome == "success"


async def test_an_approver_decides_and_does_nothing_else(tmp_path: Path) -> None:
    script = (calls(("run_shell", {"command": "true"})), says("done"))
    async with scripted_host(tmp_path, *script) as host, host.client() as owner:
        session_id = await owner.start()
        async with guest_with(host, session_id, await minted(owner, "approver")) as approver:
            run_id = await owner.send("go")
            asked = await approver.wait_for(ApprovalRequired)
            cancel = ask.CancelRun(session_id, run_id)
            assert await code_of(approver, cancel, ask.AcceptedReply) == "ATTACH_FORBIDDEN"
            decision = ask.SubmitApproval(session_id, run_id, asked.approval_id, "approve")
            await approver.api.approve(decision)
            assert (await approver.wait_for(RunComplete)).outcome == "success"
            assert [received.by for received in approver.bodies(ApprovalReceived)] == ["stranger"]


async def test_a_client_cannot_take_the_name_of_a_policy(tmp_path: Path) -> None:
    script = (calls(("run_shell", {"command": "true"})), says("done"))
    async with scripted_host(tmp_path, *script) as host, host.client("policy") as client:
        session_id = await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        await client.api.approve(ask.SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        await client.wait_for(RunComplete)
        assert client.bodies(ApprovalReceived)[0].by == "policy-client"


async def test_the_answer_to_an_attach_comes_before_what_is_replayed(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, says("one two three")) as host, host.client() as owner:
        session_id = await owner.start()
        await owner.send("go")
        await owner.wait_for(RunComplete)
        link = host.runtime.connect()
        await link.write(HELLO + b"\n")
        await link.read_line()
        await link.write(request_line("attach_session", {"sessionId": session_id, "lastSeenSeq": 0}) + b"\n")
        first = await link.read_line()
        assert first is not None
        assert b'"kind":"response"' in first
        seqs: list[int] = []
        while len(seqs) < len(owner.received):
            line = await link.read_line()
            assert line is not None
            seqs.append(msgspec.json.decode(line)["seq"])
        assert seqs == [event.seq for event in owner.received]
        link.close()


async def test_attaching_again_moves_the_cursor_and_loses_nothing(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, says("one two three"), says("four")) as host, host.client() as client:
        session_id = await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        known = len(client.received)
        for _ in range(5):
            await client.api.attach(session_id, known)
        await client.send("again")
        await client.wait_for(RunComplete)
        assert [event.seq for event in client.received] == list(range(1, len(client.received) + 1))
        assert len(client.bodies(RunStarted)) == 2


async def test_a_client_that_leaves_does_not_stop_the_run(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, calls(("read_file", {"path": "a"})), says("done")) as host:
        async with host.client() as client:
            session_id = await client.start()
            await client.send("go")
        async with host.client() as later:
            await later.api.attach(session_id)
            assert (await asyncio.wait_for(later.wait_for(RunComplete), 10)).outcome == "success"

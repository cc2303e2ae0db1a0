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
from buddy.protocol import requests as ask
from buddy.protocol.codes import VERSION, Role
from buddy.protocol.envelopes import Response
from buddy.protocol.events import ApprovalReceived, ApprovalRequired, RunComplete, RunStarted
from buddy.protocol.shapes import Repo, Shape
from harness import Guest, House, calls, house, says


@asynccontextmanager
async def stranger(home: House, name: str = "stranger") -> AsyncGenerator[Guest]:
    """A client that nobody vouches for: it has what its tokens allow."""
    theirs, ours = memory_pair()
    assert home.runtime.accept(ours, trusted=False)
    async with Client(theirs, name) as client:
        yield Guest(client, home.workspace)


@asynccontextmanager
async def guest_with(home: House, session_id: str, token: str) -> AsyncGenerator[Guest]:
    async with stranger(home) as guest:
        guest.session_id = session_id
        await guest.client.attach(session_id, 0, token)
        yield guest


async def minted(owner: Guest, role: Role, seconds: float | None = None) -> str:
    request = ask.MintToken(role, seconds)
    return (await owner.client.request(request, ask.MintTokenReply, owner.session_id)).attach_token


async def code_of(guest: Guest, payload: Shape, reply: type[Shape], session_id: str | None = None) -> str:
    with pytest.raises(ProtocolError) as refusal:
        await guest.client.request(payload, reply, session_id or guest.session_id)
    return refusal.value.code


async def raw(home: House, *lines: bytes) -> list[Response]:
    """What comes back for lines as they are."""
    link = home.runtime.connect()
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
    async with house(tmp_path) as home:
        early = request_line("list_sessions", {})
        assert codes(await raw(home, early, request_line("ping", {}), HELLO, early)) == [
            "INVALID_REQUEST",
            None,
            None,
            None,
        ]


async def test_what_is_no_request_is_refused_and_the_connection_lives_on(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        wrong_version = HELLO.replace(VERSION.encode(), b"push.runtime.v9")
        answers = await raw(
            home,
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
    async with house(tmp_path) as home, home.client() as owner:
        session_id = await owner.start()
        answers = await raw(
            home,
            HELLO,
            request_line("mint_token", {"role": "observer", "expiresInSeconds": 1e300}, session_id),
            request_line("set_approval_policy", {"policy": "until", "durationSeconds": 1e300}, session_id),
            request_line("set_approval_policy", {"policy": "until", "durationSeconds": 86400.0}, session_id),
        )
        assert codes(answers) == [None, "INVALID_REQUEST", "INVALID_REQUEST", None]


async def test_envelope_and_payload_must_mean_the_same_session(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        payload = {"sessionId": "sess_1", "runId": "run_1"}
        answers = await raw(
            home, HELLO, request_line("cancel_run", payload, "sess_2"), request_line("get_snapshot", {})
        )
        assert codes(answers) == [None, "INVALID_REQUEST", "INVALID_REQUEST"]
        assert answers[1].error is not None
        assert "differs" in answers[1].error.message


async def test_a_session_is_named_in_the_envelope_or_in_the_payload(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.client() as guest:
        session_id = await guest.start()
        answers = await raw(
            home,
            HELLO,
            request_line("cancel_run", {"runId": "run_1"}, session_id),
            request_line("get_snapshot", {"sessionId": session_id}),
            request_line("get_snapshot", {"sessionId": session_id}, "sess_2"),
            request_line("get_snapshot", {"sessionId": 7}),
            request_line("attach_session", {"lastSeenSeq": 0}, session_id),
        )
        assert codes(answers) == [None, "NO_ACTIVE_RUN", None, "INVALID_REQUEST", "INVALID_REQUEST", None]


@pytest.mark.parametrize("session_id", ["../../x", "sess_../../etc", "sess_unknown", "sess_", "x" * 500])
async def test_what_is_no_session_of_ours_is_not_found(tmp_path: Path, session_id: str) -> None:
    async with house(tmp_path) as home, home.client() as guest:
        assert await code_of(guest, ask.GetSnapshot(), ask.GetSnapshotReply, session_id) == "SESSION_NOT_FOUND"
        assert (
            await code_of(guest, ask.AttachSession(session_id, 0), ask.AttachSessionReply, session_id)
            == "SESSION_NOT_FOUND"
        )


async def test_a_token_that_is_shown_must_be_right_even_for_the_owner(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.client() as guest:
        first = await guest.start()
        token = guest.token
        second = await guest.start()
        for session_id, shown in ((first, "att_wrong"), (second, token)):
            wrong = ask.AttachSession(session_id, 0, shown)
            assert await code_of(guest, wrong, ask.AttachSessionReply, session_id) == "ATTACH_FORBIDDEN"
        await guest.client.attach(first, 0, token)
        await guest.client.attach(second, 0)


async def test_a_stranger_needs_a_token_and_sees_only_its_session(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.client() as owner:
        session_id = await owner.start()
        token = owner.token
        await owner.start()
        async with stranger(home) as guest:
            guest.session_id = session_id
            attach = ask.AttachSession(session_id, 0)
            assert await code_of(guest, attach, ask.AttachSessionReply) == "ATTACH_FORBIDDEN"
            for request, reply in ((ask.GetSnapshot(), ask.GetSnapshotReply), (ask.ReadEvents(0), ask.ReadEventsReply)):
                assert await code_of(guest, request, reply) == "ATTACH_FORBIDDEN"
            assert await code_of(guest, ask.ListApprovals(), ask.ListApprovalsReply) == "ATTACH_FORBIDDEN"
            assert await code_of(guest, ask.Shutdown(), ask.AcceptedReply) == "ATTACH_FORBIDDEN"
            assert (await guest.client.request(ask.ListSessions(), ask.ListSessionsReply)).sessions == ()
            await guest.client.attach(session_id, 0, token)
            listed = (await guest.client.request(ask.ListSessions(limit=1), ask.ListSessionsReply)).sessions
            assert [found.session_id for found in listed] == [session_id]
            other = ask.ListSessions(root_path="/elsewhere")
            assert (await guest.client.request(other, ask.ListSessionsReply)).sessions == ()


async def test_a_path_that_no_system_has_is_the_peers_mistake(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.client() as guest:
        requests: tuple[tuple[Shape, type[Shape]], ...] = (
            (ask.StartSession("interactive", "default", "local", Repo("/no\0where")), ask.StartSessionReply),
            (ask.TrustFolder("/no\0where", trusted=True), ask.TrustFolderReply),
            (ask.CreateProject("x", "/no\0where"), ask.CreateProjectReply),
        )
        for request, reply in requests:
            assert await code_of(guest, request, reply) == "INVALID_REQUEST", request


async def test_an_observer_sees_everything_and_does_nothing(tmp_path: Path) -> None:
    script = (calls(("run_shell", {"command": "true"})), says("done"))
    async with house(tmp_path, *script) as home, home.client() as owner:
        session_id = await owner.start()
        async with guest_with(home, session_id, await minted(owner, "observer")) as observer:
            run_id = await owner.send("go")
            asked = await observer.until(ApprovalRequired)
            decision = ask.SubmitApproval(session_id, run_id, asked.approval_id, "approve")
            refused: tuple[tuple[Shape, type[Shape]], ...] = (
                (ask.SendUserMessage(session_id, "msg_1", "hi"), ask.SendUserMessageReply),
                (decision, ask.AcceptedReply),
                (ask.CancelRun(session_id, run_id), ask.AcceptedReply),
                (ask.SetApprovalPolicy("all"), ask.SetApprovalPolicyReply),
                (ask.SteerRun(run_id, "left"), ask.AcceptedReply),
                (ask.QueueMessage("msg_2", "later"), ask.QueueMessageReply),
                (ask.SwitchModel("other"), ask.SwitchModelReply),
                (ask.CompactSession(), ask.CompactSessionReply),
                (ask.PruneSession(2), ask.PruneSessionReply),
                (ask.MintToken("driver"), ask.MintTokenReply),
                (ask.DeleteSession(), ask.DeleteSessionReply),
            )
            for request, reply in refused:
                assert await code_of(observer, request, reply) == "ATTACH_FORBIDDEN", request
            await owner.client.approve(decision)
            assert (await observer.until(RunComplete)).outcome == "success"


async def test_an_approver_decides_and_does_nothing_else(tmp_path: Path) -> None:
    script = (calls(("run_shell", {"command": "true"})), says("done"))
    async with house(tmp_path, *script) as home, home.client() as owner:
        session_id = await owner.start()
        async with guest_with(home, session_id, await minted(owner, "approver")) as approver:
            run_id = await owner.send("go")
            asked = await approver.until(ApprovalRequired)
            cancel = ask.CancelRun(session_id, run_id)
            assert await code_of(approver, cancel, ask.AcceptedReply) == "ATTACH_FORBIDDEN"
            decision = ask.SubmitApproval(session_id, run_id, asked.approval_id, "approve")
            await approver.client.approve(decision)
            assert (await approver.until(RunComplete)).outcome == "success"
            assert [received.by for received in approver.bodies(ApprovalReceived)] == ["stranger"]


async def test_nobody_can_take_the_name_of_a_policy(tmp_path: Path) -> None:
    script = (calls(("run_shell", {"command": "true"})), says("done"))
    async with house(tmp_path, *script) as home, home.client("policy") as guest:
        session_id = await guest.start()
        run_id = await guest.send("go")
        asked = await guest.until(ApprovalRequired)
        await guest.client.approve(ask.SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        await guest.until(RunComplete)
        assert guest.bodies(ApprovalReceived)[0].by == "policy-client"


async def test_the_answer_to_an_attach_comes_before_what_is_replayed(tmp_path: Path) -> None:
    async with house(tmp_path, says("one two three")) as home, home.client() as owner:
        session_id = await owner.start()
        await owner.send("go")
        await owner.until(RunComplete)
        link = home.runtime.connect()
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
    async with house(tmp_path, says("one two three"), says("four")) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("go")
        await guest.until(RunComplete)
        known = len(guest.received)
        for _ in range(5):
            await guest.client.attach(session_id, known)
        await guest.send("again")
        await guest.until(RunComplete)
        assert [event.seq for event in guest.received] == list(range(1, len(guest.received) + 1))
        assert len(guest.bodies(RunStarted)) == 2


async def test_a_client_that_leaves_does_not_stop_the_run(tmp_path: Path) -> None:
    async with house(tmp_path, calls(("read_file", {"path": "a"})), says("done")) as home:
        async with home.client() as guest:
            session_id = await guest.start()
            await guest.send("go")
        async with home.client() as later:
            await later.client.attach(session_id)
            assert (await asyncio.wait_for(later.until(RunComplete), 10)).outcome == "success"

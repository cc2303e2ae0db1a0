"""The commands of the runtime as requests: what each does, and when it is refused."""

import asyncio
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.models.contract import AssistantItem, ToolItem, UserItem
from buddy.protocol.events import (
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    ModelSwitched,
    RunCancelling,
    RunComplete,
    SessionCompacted,
    ToolCall,
    ToolResult,
)
from buddy.protocol.requests import (
    CompactSession,
    CompactSessionReply,
    ListSessions,
    ListSessionsReply,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SwitchModel,
    SwitchModelReply,
)
from buddy.protocol.shapes import RunOptions
from tests.harness.clock import ManualClock
from tests.harness.models import StepModel, answer, asks_for, says, shell
from tests.harness.runtime import RuntimeClient, checked_host, recorded_types, scripted_host


async def refused(client: RuntimeClient, code: str, *, text: str = "more", message_id: str | None = None) -> None:
    with pytest.raises(ProtocolError) as refusal:
        await client.send(text, message_id=message_id)
    assert refusal.value.code == code


async def set_policy(client: RuntimeClient, policy: str, seconds: float | None = None) -> SetApprovalPolicyReply:
    match policy:
        case "ask" | "all" | "none" | "until":
            request = SetApprovalPolicy(policy, seconds)
        case _:
            raise AssertionError(policy)
    return await client.api.request(request, SetApprovalPolicyReply, client.session_id)


async def compact(client: RuntimeClient, *, undo: bool = False) -> tuple[int, int]:
    reply = await client.api.request(CompactSession(undo), CompactSessionReply, client.session_id)
    return reply.before_tokens, reply.after_tokens


async def run(client: RuntimeClient, text: str, options: RunOptions | None = None) -> RunComplete:
    await client.send(text, options=options)
    return await client.wait_for(RunComplete)


async def test_a_second_message_is_refused_while_a_run_is_active(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *answer("one")], answer("two"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("first")
        await refused(client, "RUN_IN_PROGRESS")
        gate.set()
        await client.wait_for(RunComplete)
        assert (await run(client, "second")).summary == "two"


async def test_only_the_active_run_can_be_cancelled(tmp_path: Path) -> None:
    model = StepModel(answer(), [asyncio.Event()])
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        over = (await run(client, "first")).run_id
        active = await client.send("second")
        for run_id in (over, "run_unknown"):
            with pytest.raises(ProtocolError) as refusal:
                await client.api.cancel(client.session_id, run_id)
            assert refusal.value.code == "NO_ACTIVE_RUN"
        await client.api.cancel(client.session_id, active, "enough")
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.summary, done.reason) == ("cancelled", "cancelled: enough", "cancelled")
        assert done.headless is not None
        assert done.headless.exit_code_hint == 2
        assert [cancelling.by for cancelling in client.bodies(RunCancelling)] == ["cli"]


async def test_a_model_is_switched_between_runs_and_not_while_one_is_active(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *answer()])
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("go")
        with pytest.raises(ProtocolError, match="while a run is active") as refusal:
            await client.api.request(SwitchModel("other"), SwitchModelReply, client.session_id)
        assert refusal.value.code == "RUN_IN_PROGRESS"
        gate.set()
        await client.wait_for(RunComplete)
        await client.api.request(SwitchModel("other"), SwitchModelReply, client.session_id)
        switched = await client.wait_for(ModelSwitched)
        assert (switched.after["profile"], switched.by) == ("test", "cli")


async def test_an_unknown_profile_is_not_configured(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel()) as host, host.client() as client:
        await client.start()
        with pytest.raises(ProtocolError, match="unknown profile 'nobody'") as refusal:
            await client.api.request(SwitchModel("nobody"), SwitchModelReply, client.session_id)
        assert refusal.value.code == "PROVIDER_NOT_CONFIGURED"
        with pytest.raises(ProtocolError) as refusal:
            await client.start(profile="nobody")
        assert refusal.value.code == "PROVIDER_NOT_CONFIGURED"


async def test_a_model_without_a_profile_is_one_of_the_profile_in_use(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, says("one")) as host, host.client() as client:
        session_id = await client.start()
        requests = [SwitchModel("other"), SwitchModel(model="big"), SwitchModel(), SwitchModel(model="test/small")]
        replies = [await client.api.request(request, SwitchModelReply, session_id) for request in requests]
        chosen = [(reply.profile, reply.model) for reply in replies]
        assert chosen == [("other", "other-model"), ("other", "big"), ("other", "big"), ("test", "small")]


async def test_a_shutdown_denies_what_waits_and_cancels_the_run(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("touch made")))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        session_id = await client.start()
        await client.send("make it")
        await client.wait_for(ApprovalRequired)
        await host.runtime.sessions.close()
        assert (await recorded_types(host, session_id))[-4:] == [
            "run_cancelling",
            "approval_received",
            "tool_result",
            "run_complete",
        ]
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.summary) == ("cancelled", "cancelled: shutdown")
        denied = client.bodies(ApprovalReceived)[0]
        assert (denied.decision, denied.by, denied.comment) == ("deny", "daemon", "shutdown")
        assert not (tmp_path / "made").exists()


async def test_the_last_session_of_a_folder_is_found_and_resumed(tmp_path: Path) -> None:
    model = StepModel(answer("one"), answer("two"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with checked_host(tmp_path, model) as host:
        async with host.client() as client:
            first = await client.start()
            await run(client, "first")
            second = await client.start()
            client.workspace = elsewhere
            await client.start()
        async with host.client() as later:
            found = await later.api.request(ListSessions(1, str(tmp_path)), ListSessionsReply)
            assert [session.session_id for session in found.sessions] == [second]
            later.session_id = first
            reply = await later.api.attach(first)
            assert (reply.state, reply.replay.gap) == ("idle", False)
            assert (await run(later, "again")).summary == "one"
            assert (await later.wait_for(RunComplete)).summary == "two"
        assert model.received[1] == [UserItem("first"), AssistantItem("one"), UserItem("again")]


async def test_compaction_shortens_the_history_and_can_be_undone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 4000)
    texts = [f"message {number} " + "y" * 500 for number in range(6)]
    turns = [asks_for(shell("cat a.txt")), *(answer(f"reply {number}") for number in range(6))]
    model = StepModel(*turns, answer("a.txt was read"), answer(), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        for text in texts:
            await run(client, text)
        before, after = await compact(client)
        assert after < before
        await run(client, "short?")
        short = model.received[-1]
        assert [item.text for item in short if isinstance(item, UserItem)][1:] == [*texts[3:], "short?"]
        assert isinstance(short[0], UserItem)
        assert short[0].text.startswith("[buddy compact summary]")
        assert short[0].text.endswith("a.txt was read")
        assert all(text in short[0].text for text in texts[:3])
        assert not any(isinstance(item, ToolItem) for item in short)
        assert len(await undone(client)) == 2
        await run(client, "whole?")
        whole = model.received[-1]
        assert model.user_messages() == [*texts, "short?", "whole?"]
        assert isinstance(whole[2], ToolItem)


async def undone(client: RuntimeClient) -> list[SessionCompacted]:
    smaller, larger = await compact(client, undo=True)
    assert larger > smaller
    await client.wait_for(SessionCompacted, lambda body: body.undo)
    return client.bodies(SessionCompacted)


async def test_nothing_to_compact_or_to_undo_changes_nothing(tmp_path: Path) -> None:
    model = StepModel(*(answer("y" * 4000) for _ in range(5)), answer("five messages"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        session_id = await client.start()
        for undo in (False, True):
            before, after = await compact(client, undo=undo)
            assert before == after
        for number in range(5):
            await run(client, f"{number} " + "x" * 400)
        before, after = await compact(client)
        assert before > after
        assert await compact(client) == (after, after)
        assert (await recorded_types(host, session_id)).count("session_compacted") == 1


@pytest.mark.parametrize(("policy", "by", "ran"), [("all", "policy", True), ("none", "policy", False)])
async def test_a_policy_decides_without_asking(tmp_path: Path, policy: str, by: str, ran: bool) -> None:
    model = StepModel(asks_for(shell("touch made")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await set_policy(client, policy)
        assert (await run(client, "make it")).outcome == "success"
        assert client.bodies(ApprovalRequired) == []
        assert [received.by for received in client.bodies(ApprovalReceived)] == [by]
        assert (tmp_path / "made").exists() is ran
        assert client.bodies(ToolResult)[0].is_error is not ran


async def test_a_window_allows_until_its_time_is_over_and_then_asks(tmp_path: Path, clock: ManualClock) -> None:
    model = StepModel(asks_for(shell("true")), answer(), asks_for(shell("true")), answer())
    async with checked_host(tmp_path, model, clock=clock) as host, host.client() as client:
        await client.start()
        reply = await set_policy(client, "until", 60)
        assert reply.expires_at == clock.now + 60_000
        clock.advance(59.9)
        await run(client, "in time")
        assert client.bodies(ApprovalRequired) == []
        clock.advance(0.1)
        run_id = await client.send("too late")
        await client.wait_for(ApprovalRequired)
        await client.api.cancel(client.session_id, run_id)
        await client.wait_for(RunComplete)


async def test_a_window_needs_a_duration_and_nothing_else_has_one(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel()) as host, host.client() as client:
        await client.start()
        for policy, seconds in (("until", None), ("all", 60.0)):
            with pytest.raises(ProtocolError) as refusal:
                await set_policy(client, policy, seconds)
            assert refusal.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize(("policy", "ran"), [("all", True), ("none", False)])
async def test_a_new_policy_decides_what_waits(tmp_path: Path, policy: str, ran: bool) -> None:
    model = StepModel(asks_for(shell("touch made")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("make it")
        await client.wait_for(ApprovalRequired)
        await set_policy(client, policy)
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert (tmp_path / "made").exists() is ran
        changed = client.bodies(ApprovalPolicyChanged)[0]
        assert (changed.policy, changed.by) == (policy, "cli")


async def test_a_runs_own_policy_beats_the_sessions(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("touch made")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await run(client, "make it", RunOptions(approval_policy="none"))
        assert not (tmp_path / "made").exists()


async def test_a_message_with_an_unknown_policy_has_no_effect(tmp_path: Path) -> None:
    model = StepModel(answer("fine"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        session_id = await client.start()
        with pytest.raises(ProtocolError, match="unknown approval policy 'perhaps'"):
            await client.send("go", message_id="msg_1", options=RunOptions(approval_policy="perhaps"))
        assert await recorded_types(host, session_id) == ["session_started"]
        await client.send("go", message_id="msg_1")
        assert (await client.wait_for(RunComplete)).summary == "fine"


async def test_a_cancel_ends_the_command_and_everything_it_started(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("sleep 61 & sleep 60; touch never")))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        run_id = await client.send("wait")
        await client.wait_for(ToolCall)
        await client.api.cancel(client.session_id, run_id)
        await client.wait_for(RunComplete)
        assert client.types()[-2:] == ["tool_result", "run_complete"]
        assert not (tmp_path / "never").exists()
        assert [told.source for told in (*client.bodies(ToolCall), *client.bodies(ToolResult))] == [
            "sandbox",
            "sandbox",
        ]

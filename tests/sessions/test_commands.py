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
from harness import Guest, house, says
from sessions.stage import Clock, Puppet, answer, asks_for, log_types, shell, stage


async def refused(guest: Guest, code: str, *, text: str = "more", message_id: str | None = None) -> None:
    with pytest.raises(ProtocolError) as refusal:
        await guest.send(text, message_id=message_id)
    assert refusal.value.code == code


async def set_policy(guest: Guest, policy: str, seconds: float | None = None) -> SetApprovalPolicyReply:
    match policy:
        case "ask" | "all" | "none" | "until":
            request = SetApprovalPolicy(policy, seconds)
        case _:
            raise AssertionError(policy)
    return await guest.client.request(request, SetApprovalPolicyReply, guest.session_id)


async def compact(guest: Guest, *, undo: bool = False) -> tuple[int, int]:
    reply = await guest.client.request(CompactSession(undo), CompactSessionReply, guest.session_id)
    return reply.before_tokens, reply.after_tokens


async def run(guest: Guest, text: str, options: RunOptions | None = None) -> RunComplete:
    await guest.send(text, options=options)
    return await guest.until(RunComplete)


async def test_a_second_message_is_refused_while_a_run_is_active(tmp_path: Path) -> None:
    gate = asyncio.Event()
    puppet = Puppet([gate, *answer("one")], answer("two"))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        await guest.send("first")
        await refused(guest, "RUN_IN_PROGRESS")
        gate.set()
        await guest.until(RunComplete)
        assert (await run(guest, "second")).summary == "two"


async def test_only_the_active_run_can_be_cancelled(tmp_path: Path) -> None:
    puppet = Puppet(answer(), [asyncio.Event()])
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        over = (await run(guest, "first")).run_id
        active = await guest.send("second")
        for run_id in (over, "run_unknown"):
            with pytest.raises(ProtocolError) as refusal:
                await guest.client.cancel(guest.session_id, run_id)
            assert refusal.value.code == "NO_ACTIVE_RUN"
        await guest.client.cancel(guest.session_id, active, "enough")
        done = await guest.until(RunComplete)
        assert (done.outcome, done.summary, done.reason) == ("cancelled", "cancelled: enough", "cancelled")
        assert done.headless is not None
        assert done.headless.exit_code_hint == 2
        assert [cancelling.by for cancelling in guest.bodies(RunCancelling)] == ["cli"]


async def test_a_model_is_switched_between_runs_and_not_while_one_is_active(tmp_path: Path) -> None:
    gate = asyncio.Event()
    puppet = Puppet([gate, *answer()])
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        await guest.send("go")
        with pytest.raises(ProtocolError, match="while a run is active") as refusal:
            await guest.client.request(SwitchModel("other"), SwitchModelReply, guest.session_id)
        assert refusal.value.code == "RUN_IN_PROGRESS"
        gate.set()
        await guest.until(RunComplete)
        await guest.client.request(SwitchModel("other"), SwitchModelReply, guest.session_id)
        switched = await guest.until(ModelSwitched)
        assert (switched.after["profile"], switched.by) == ("test", "cli")


async def test_an_unknown_profile_is_not_configured(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet()) as home, home.client() as guest:
        await guest.start()
        with pytest.raises(ProtocolError, match="unknown profile 'nobody'") as refusal:
            await guest.client.request(SwitchModel("nobody"), SwitchModelReply, guest.session_id)
        assert refusal.value.code == "PROVIDER_NOT_CONFIGURED"
        with pytest.raises(ProtocolError) as refusal:
            await guest.start(profile="nobody")
        assert refusal.value.code == "PROVIDER_NOT_CONFIGURED"


async def test_a_model_without_a_profile_is_one_of_the_profile_in_use(tmp_path: Path) -> None:
    async with house(tmp_path, says("one")) as home, home.client() as guest:
        session_id = await guest.start()
        requests = [SwitchModel("other"), SwitchModel(model="big"), SwitchModel(), SwitchModel(model="test/small")]
        replies = [await guest.client.request(request, SwitchModelReply, session_id) for request in requests]
        chosen = [(reply.profile, reply.model) for reply in replies]
        assert chosen == [("other", "other-model"), ("other", "big"), ("other", "big"), ("test", "small")]


async def test_a_shutdown_denies_what_waits_and_cancels_the_run(tmp_path: Path) -> None:
    puppet = Puppet(asks_for(shell("touch made")))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("make it")
        await guest.until(ApprovalRequired)
        await home.runtime.sessions.close()
        assert (await log_types(home, session_id))[-4:] == [
            "run_cancelling",
            "approval_received",
            "tool_result",
            "run_complete",
        ]
        done = await guest.until(RunComplete)
        assert (done.outcome, done.summary) == ("cancelled", "cancelled: shutdown")
        denied = guest.bodies(ApprovalReceived)[0]
        assert (denied.decision, denied.by, denied.comment) == ("deny", "daemon", "shutdown")
        assert not (tmp_path / "made").exists()


async def test_the_last_session_of_a_folder_is_found_and_resumed(tmp_path: Path) -> None:
    puppet = Puppet(answer("one"), answer("two"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with stage(tmp_path, puppet) as home:
        async with home.client() as guest:
            first = await guest.start()
            await run(guest, "first")
            second = await guest.start()
            guest.workspace = elsewhere
            await guest.start()
        async with home.client() as later:
            found = await later.client.request(ListSessions(1, str(tmp_path)), ListSessionsReply)
            assert [session.session_id for session in found.sessions] == [second]
            later.session_id = first
            reply = await later.client.attach(first)
            assert (reply.state, reply.replay.gap) == ("idle", False)
            assert (await run(later, "again")).summary == "one"
            assert (await later.until(RunComplete)).summary == "two"
        assert puppet.heard[1] == [UserItem("first"), AssistantItem("one"), UserItem("again")]


async def test_compaction_shortens_the_history_and_can_be_undone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 4000)
    texts = [f"message {number} " + "y" * 500 for number in range(6)]
    turns = [asks_for(shell("cat a.txt")), *(answer(f"reply {number}") for number in range(6))]
    puppet = Puppet(*turns, answer("a.txt was read"), answer(), answer())
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start(approval_policy="all")
        for text in texts:
            await run(guest, text)
        before, after = await compact(guest)
        assert after < before
        await run(guest, "short?")
        short = puppet.heard[-1]
        assert [item.text for item in short if isinstance(item, UserItem)][1:] == [*texts[3:], "short?"]
        assert isinstance(short[0], UserItem)
        assert short[0].text.startswith("[buddy compact summary]")
        assert short[0].text.endswith("a.txt was read")
        assert all(text in short[0].text for text in texts[:3])
        assert not any(isinstance(item, ToolItem) for item in short)
        assert len(await undone(guest)) == 2
        await run(guest, "whole?")
        whole = puppet.heard[-1]
        assert puppet.told() == [*texts, "short?", "whole?"]
        assert isinstance(whole[2], ToolItem)


async def undone(guest: Guest) -> list[SessionCompacted]:
    smaller, larger = await compact(guest, undo=True)
    assert larger > smaller
    await guest.until(SessionCompacted, lambda body: body.undo)
    return guest.bodies(SessionCompacted)


async def test_nothing_to_compact_or_to_undo_changes_nothing(tmp_path: Path) -> None:
    puppet = Puppet(*(answer("y" * 4000) for _ in range(5)), answer("five messages"))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        session_id = await guest.start()
        for undo in (False, True):
            before, after = await compact(guest, undo=undo)
            assert before == after
        for number in range(5):
            await run(guest, f"{number} " + "x" * 400)
        before, after = await compact(guest)
        assert before > after
        assert await compact(guest) == (after, after)
        assert (await log_types(home, session_id)).count("session_compacted") == 1


@pytest.mark.parametrize(("policy", "by", "ran"), [("all", "policy", True), ("none", "policy", False)])
async def test_a_policy_decides_without_asking(tmp_path: Path, policy: str, by: str, ran: bool) -> None:
    puppet = Puppet(asks_for(shell("touch made")), answer())
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        await set_policy(guest, policy)
        assert (await run(guest, "make it")).outcome == "success"
        assert guest.bodies(ApprovalRequired) == []
        assert [received.by for received in guest.bodies(ApprovalReceived)] == [by]
        assert (tmp_path / "made").exists() is ran
        assert guest.bodies(ToolResult)[0].is_error is not ran


async def test_a_window_allows_until_its_time_is_over_and_then_asks(tmp_path: Path, clock: Clock) -> None:
    puppet = Puppet(asks_for(shell("true")), answer(), asks_for(shell("true")), answer())
    async with stage(tmp_path, puppet, clock=clock) as home, home.client() as guest:
        await guest.start()
        reply = await set_policy(guest, "until", 60)
        assert reply.expires_at == clock.now + 60_000
        clock.advance(59.9)
        await run(guest, "in time")
        assert guest.bodies(ApprovalRequired) == []
        clock.advance(0.1)
        run_id = await guest.send("too late")
        await guest.until(ApprovalRequired)
        await guest.client.cancel(guest.session_id, run_id)
        await guest.until(RunComplete)


async def test_a_window_needs_a_duration_and_nothing_else_has_one(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet()) as home, home.client() as guest:
        await guest.start()
        for policy, seconds in (("until", None), ("all", 60.0)):
            with pytest.raises(ProtocolError) as refusal:
                await set_policy(guest, policy, seconds)
            assert refusal.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize(("policy", "ran"), [("all", True), ("none", False)])
async def test_a_new_policy_decides_what_waits(tmp_path: Path, policy: str, ran: bool) -> None:
    puppet = Puppet(asks_for(shell("touch made")), answer())
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        await guest.send("make it")
        await guest.until(ApprovalRequired)
        await set_policy(guest, policy)
        assert (await guest.until(RunComplete)).outcome == "success"
        assert (tmp_path / "made").exists() is ran
        changed = guest.bodies(ApprovalPolicyChanged)[0]
        assert (changed.policy, changed.by) == (policy, "cli")


async def test_a_runs_own_policy_beats_the_sessions(tmp_path: Path) -> None:
    puppet = Puppet(asks_for(shell("touch made")), answer())
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start(approval_policy="all")
        await run(guest, "make it", RunOptions(approval_policy="none"))
        assert not (tmp_path / "made").exists()


async def test_a_message_with_an_unknown_policy_leaves_nothing_behind(tmp_path: Path) -> None:
    puppet = Puppet(answer("fine"))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        session_id = await guest.start()
        with pytest.raises(ProtocolError, match="unknown approval policy 'perhaps'"):
            await guest.send("go", message_id="msg_1", options=RunOptions(approval_policy="perhaps"))
        assert await log_types(home, session_id) == ["session_started"]
        await guest.send("go", message_id="msg_1")
        assert (await guest.until(RunComplete)).summary == "fine"


async def test_a_cancel_ends_the_command_and_everything_it_started(tmp_path: Path) -> None:
    puppet = Puppet(asks_for(shell("sleep 61 & sleep 60; touch never")))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start(approval_policy="all")
        run_id = await guest.send("wait")
        await guest.until(ToolCall)
        await guest.client.cancel(guest.session_id, run_id)
        await guest.until(RunComplete)
        assert guest.types()[-2:] == ["tool_result", "run_complete"]
        assert not (tmp_path / "never").exists()
        assert [told.source for told in (*guest.bodies(ToolCall), *guest.bodies(ToolResult))] == ["sandbox", "sandbox"]

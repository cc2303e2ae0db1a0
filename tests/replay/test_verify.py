"""Replay: the same loop gives the same events, and a changed recording is detected."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from buddy.backends.contract import Run
from buddy.backends.native import watch
from buddy.backends.native.dispatch import Dispatch, PreparedCall
from buddy.backends.runstate import OpenCall
from buddy.config.settings import ToolSettings
from buddy.daemon.runtime import unix_ms
from buddy.errors import ProviderError
from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.models.contract import (
    Piece,
    Prompt,
    Reply,
    Restart,
    Retrying,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
)
from buddy.protocol.events import (
    ApprovalRequired,
    AssistantToken,
    ModelRequest,
    Phase,
    RunComplete,
    RunStarted,
    ToolOutput,
    WarningRaised,
)
from buddy.protocol.queue_requests import SteerRun
from buddy.protocol.requests import (
    AcceptedReply,
    CancelRun,
    CompactSession,
    CompactSessionReply,
    ForkSession,
    ForkSessionReply,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SubmitApproval,
    SwitchModel,
    SwitchModelReply,
)
from buddy.protocol.shapes import BudgetLimits, RunOptions, ToolCallItem
from buddy.replay.verify import Verdict, verify
from buddy.tools.toolbox import PANE_TOOLS, ToolDeps, toolbox
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import checked_host, crash
from tests.replay.recordings import RecordedSession, assert_same, recorded, recording_session, verified


async def test_an_answer_is_replayed(tmp_path: Path) -> None:
    turn = [ThinkingDelta("hm "), ThinkingDelta("so "), TextDelta("one "), TextDelta("two "), *answer("one two three")]
    async with recording_session(tmp_path, turn) as recording:
        await recording.say("count")
        await assert_same(await recording.recording())


async def test_tools_are_replayed_without_being_run(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    turns = (
        asks_for(shell("echo made >> made; echo two; echo three >&2"), call("read_file", {"path": "a.txt"})),
        asks_for(call("read_file", {"path": "a.txt"}), call("read_file", {"path": "missing"}), shell("exit 3")),
        asks_for(call("grpe", {}), call("read_file", {"path": 7}), call("run_shell", "{not json")),
        asks_for(call("write_file", {"path": "b.txt", "content": "new"})),
        answer("done"),
    )
    async with recording_session(tmp_path, *turns) as recording:
        await recording.say("work")
        (tmp_path / "a.txt").unlink()
        await assert_same(await recording.recording())
    assert (tmp_path / "made").read_text() == "made\n"


async def test_a_tool_that_took_long_to_prepare_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Dispatch.prepare

    async def prepare_slowly(dispatch: Dispatch, run: Run, call: OpenCall) -> PreparedCall:
        await asyncio.sleep(0.2)
        return await prepare(dispatch, run, call)

    monkeypatch.setattr(Dispatch, "prepare", prepare_slowly)
    monkeypatch.setattr(watch, "HEARTBEAT_SECONDS", 0.05)
    async with recording_session(tmp_path, asks_for(shell("echo a"), shell("echo b")), answer("ok")) as session:
        await session.say("go")
        recording = await session.recording()
    types = [event.type for event in recording.events]
    assert types[types.index("tool_call") - 1] == "progress"
    await assert_same(recording)


async def test_tools_without_a_target_are_replayed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    plan = call("todo", {"items": [{"text": "look", "state": "done"}]})
    turns = (
        asks_for(call("time", {}), call("read_file", {"path": "a.txt"}), plan, call("time", {"zone": 7})),
        asks_for(call("grpe", {}), call("time", {})),
        answer("done"),
    )
    async with recording_session(tmp_path, *turns) as recording:
        await recording.say("work")
        await assert_same(await recording.recording())


async def test_long_texts_are_replayed(tmp_path: Path) -> None:
    turns = (asks_for(shell("seq 1 20000")), answer("word " * 9000))
    async with recording_session(tmp_path, *turns) as recording:
        await recording.say("say much")
        await assert_same(await recording.recording())


async def test_several_runs_are_replayed(tmp_path: Path) -> None:
    async with recording_session(
        tmp_path, answer("one"), asks_for(shell("true")), answer("two"), answer("three")
    ) as recording:
        for text in ("first", "second", "third"):
            await recording.say(text)
        await assert_same(await recording.recording())


async def test_decisions_of_a_person_are_replayed(tmp_path: Path) -> None:
    turns = (asks_for(shell("echo a"), shell("echo b")), asks_for(shell("echo a")), answer("done"))
    async with recording_session(tmp_path, *turns, policy="ask") as recording:
        client = recording.client
        run_id = await client.send("go")
        first = await client.wait_for(ApprovalRequired)
        yes = SubmitApproval(client.session_id, run_id, first.approval_id, "approve", scope="session")
        await client.api.approve(yes)
        second = await client.wait_for(ApprovalRequired)
        no = SubmitApproval(client.session_id, run_id, second.approval_id, "deny", "rather not")
        await client.api.approve(no)
        await client.wait_for(RunComplete)
        await assert_same(await recording.recording())


async def test_a_policy_that_changes_while_something_waits_is_replayed(tmp_path: Path) -> None:
    async with recording_session(tmp_path, asks_for(shell("echo a")), answer("ok"), policy="ask") as recording:
        client = recording.client
        await client.send("go")
        await client.wait_for(ApprovalRequired)
        request = SetApprovalPolicy("until", 60.0)
        await client.api.request(request, SetApprovalPolicyReply, client.session_id)
        await client.wait_for(RunComplete)
        await assert_same(await recording.recording())


async def test_a_cancel_in_the_middle_of_an_answer_is_replayed(tmp_path: Path) -> None:
    turn = [TextDelta("some words "), TextDelta("and half a wo"), asyncio.Event()]
    async with recording_session(tmp_path, turn) as recording:
        client = recording.client
        run_id = await client.send("talk")
        await client.wait_for(AssistantToken)
        await client.api.request(CancelRun(client.session_id, run_id, "enough"), AcceptedReply)
        await client.wait_for(RunComplete)
        await assert_same(await recording.recording())


async def test_a_cancel_before_the_first_complete_word_is_replayed(tmp_path: Path) -> None:
    turn = [ThinkingDelta("hm"), TextDelta("half-a-wo"), asyncio.Event()]
    async with recording_session(tmp_path, turn) as recording:
        client = recording.client
        run_id = await client.send("talk")
        await client.wait_for(ModelRequest)
        await asyncio.sleep(0.05)
        await client.api.cancel(client.session_id, run_id)
        await client.wait_for(RunComplete)
        await assert_same(await recording.recording())


async def test_a_cancel_while_a_command_runs_is_replayed(tmp_path: Path) -> None:
    async with recording_session(
        tmp_path, asks_for(shell("echo begun; printf half; exec sleep 600"), shell("true"))
    ) as recording:
        client = recording.client
        run_id = await client.send("wait")
        await client.wait_for(ToolOutput)
        await client.api.cancel(client.session_id, run_id)
        await client.wait_for(RunComplete)
        await assert_same(await recording.recording())


async def test_a_cancel_during_an_approval_is_replayed(tmp_path: Path) -> None:
    async with recording_session(tmp_path, asks_for(shell("true")), policy="ask") as recording:
        client = recording.client
        run_id = await client.send("wait")
        await client.wait_for(ApprovalRequired)
        await client.api.cancel(client.session_id, run_id)
        await client.wait_for(RunComplete)
        await assert_same(await recording.recording())


async def test_messages_sent_during_a_run_are_replayed(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    turns = ([TextDelta("one moment "), go_on, *answer("one moment please")], answer("as you like"))
    async with recording_session(tmp_path, *turns) as recording:
        client = recording.client
        run_id = await client.send("begin")
        await client.wait_for(ModelRequest)
        await client.api.request(SteerRun(run_id, "and be quick"), AcceptedReply, client.session_id)
        go_on.set()
        await client.wait_for(RunComplete)
        await assert_same(await recording.recording())


async def test_retries_and_failures_are_replayed(tmp_path: Path) -> None:
    turns = (
        [TextDelta("half "), Retrying(2, "connection lost", 5), Restart("connection lost"), *answer("whole")],
        [TextDelta("then "), ProviderError("overloaded", retryable=True, hint="wait")],
        [RuntimeError("a bug")],
    )
    async with recording_session(tmp_path, *turns) as recording:
        for text in ("first", "second", "third"):
            await recording.say(text)
        await assert_same(await recording.recording())


async def test_a_recording_with_the_phases_of_each_turn_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buddy.sessions.runs.RECORDING", 4)
    (tmp_path / "a.txt").write_text("a")
    turns = [asks_for(call("read_file", {"path": "a.txt"})) for _ in range(4)]
    async with recording_session(tmp_path, *turns, answer("done")) as recording:
        await recording.say("go")
        phases = [phase.name for phase in recording.client.bodies(Phase)]
        assert phases == [*["streaming", "tool_execution"] * 4, "streaming"]
        assert [warning.code for warning in recording.client.bodies(WarningRaised)] == ["REPEATED_CALL"] * 2
        await assert_same(await recording.recording())


async def test_budgets_end_a_replayed_run(tmp_path: Path) -> None:
    turns = (asks_for(shell("echo a")), asks_for(shell("echo b")), [TextDelta("slow "), asyncio.Event()])
    async with recording_session(tmp_path, *turns) as recording:
        await recording.say("go", options=RunOptions(budget=BudgetLimits(max_turns=1)))
        await recording.say("go", options=RunOptions(budget=BudgetLimits(max_tool_calls=1, max_turns=1)))
        await recording.say("go", options=RunOptions(budget=BudgetLimits(max_seconds=0.2)))
        await assert_same(await recording.recording())


async def test_a_full_disk_ends_a_replayed_run(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with recording_session(tmp_path, asks_for(shell("touch made"), shell("touch more")), log=log) as recording:
        log.room = False
        await recording.say("make it")
        await assert_same(await recording.recording())


async def test_switching_the_model_is_replayed(tmp_path: Path) -> None:
    async with recording_session(tmp_path, answer("one"), answer("two")) as recording:
        client = recording.client
        await recording.say("first")
        await client.api.request(SwitchModel("other"), SwitchModelReply, client.session_id)
        await recording.say("second")
        await assert_same(await recording.recording())


async def test_a_compaction_and_its_undoing_are_replayed(tmp_path: Path) -> None:
    turns = (*(answer(f"answer {number} " * 40) for number in range(6)), answer("notes of the model"), answer("end"))
    async with recording_session(tmp_path, *turns) as recording:
        client = recording.client
        for number in range(6):
            await recording.say(f"question {number} " * 40)
        await client.api.request(CompactSession(), CompactSessionReply, client.session_id)
        await recording.say("after it")
        await client.api.request(CompactSession(undo=True), CompactSessionReply, client.session_id)
        await assert_same(await recording.recording())


@pytest.mark.parametrize(
    ("tool", "is_approved"),
    [
        (shell("echo begun"), False),
        (shell("echo begun; sleep 600"), True),
        (call("write_file", {"path": "a.txt", "content": "new"}), False),
        (call("fetch_url", {"url": "http://127.0.0.1:9/"}), False),
    ],
)
async def test_a_crash_and_its_recovery_are_replayed(
    tmp_path: Path, logs: Callable[[], Log], tool: ToolCallItem, is_approved: bool
) -> None:
    async with recording_session(tmp_path, asks_for(tool), log=logs(), policy="ask") as recording:
        client = recording.client
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        if is_approved:
            await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
            await client.wait_for(ToolOutput)
        await crash(recording.host, client.session_id)
        session_id = client.session_id
    log = logs()
    async with checked_host(tmp_path, StepModel(answer("after the crash")), log=log) as host, host.client() as client:
        await client.api.attach(session_id)
        if not is_approved:
            await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        await client.wait_for(RunComplete)
        await assert_same(await recorded(log, session_id))


async def test_a_model_that_was_switched_before_a_crash_is_replayed(tmp_path: Path, logs: Callable[[], Log]) -> None:
    async with recording_session(tmp_path, answer("one"), asks_for(shell("true")), log=logs(), policy="ask") as session:
        client = session.client
        await session.say("first")
        await client.api.request(SwitchModel("other"), SwitchModelReply, client.session_id)
        await client.send("second")
        asked = await client.wait_for(ApprovalRequired)
        await crash(session.host, client.session_id)
        session_id = client.session_id
    log = logs()
    async with checked_host(tmp_path, StepModel(answer("after the crash")), log=log) as host, host.client() as client:
        await client.api.attach(session_id)
        run_id = (await client.wait_for(RunStarted, lambda run: run.recovered)).run_id
        await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        await client.wait_for(RunComplete, lambda complete: complete.run_id == run_id)
        await assert_same(await recorded(log, session_id))


async def test_the_warnings_at_the_start_of_a_session_are_replayed(tmp_path: Path) -> None:
    (tmp_path / "buddy.toml").write_text("")
    async with recording_session(tmp_path, answer("one")) as recording:
        await recording.say("first")
        found = await recording.recording()
    assert found.events[1].type == "warning"
    await assert_same(found)


async def test_an_unfinished_run_is_compared_up_to_its_last_event(tmp_path: Path) -> None:
    async with recording_session(tmp_path, asks_for(shell("true")), policy="ask") as recording:
        client = recording.client
        run_id = await client.send("go")
        await client.wait_for(ApprovalRequired)
        await assert_same(await recording.recording())
        await client.api.cancel(client.session_id, run_id)
        await client.wait_for(RunComplete)


async def test_a_fork_is_compared_from_where_it_began(tmp_path: Path) -> None:
    async with recording_session(tmp_path, answer("one"), answer("two")) as recording:
        client = recording.client
        await recording.say("first")
        made = await client.api.request(ForkSession(client.received[-1].seq), ForkSessionReply, client.session_id)
        client.session_id = made.session_id
        await client.api.attach(made.session_id, 0, made.attach_token)
        await recording.say("second")
        found = await recording.recording()
        forked = next(event.seq for event in found.events if event.type == "session_forked")
        verdict = await verified(found)
    assert verdict == Verdict(len(found.events) - forked)


@pytest.fixture(params=["memory", "sqlite"])
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Log]:
    from buddy.log.sqlite import SqliteLog

    memory = MemoryLog(unix_ms)
    return lambda: memory if request.param == "memory" else SqliteLog.open(tmp_path / "store", unix_ms)


async def test_an_automatic_compaction_is_replayed(tmp_path: Path) -> None:
    """With the same tools in the prompt, so that it is as long as it was."""
    async with checked_host(tmp_path, Talkative()) as host, host.client() as client:
        await client.start()
        recording = RecordedSession(host, client)
        for number in range(8):
            await recording.say(f"question {number} " * 20)
        found = await recording.recording()
    assert any(event.type == "session_compacted" for event in found.events)
    tools = toolbox(ToolSettings(), ToolDeps()).without(PANE_TOOLS)
    verdict = await asyncio.to_thread(verify, found, specs=tools.specs())
    assert verdict == Verdict(len(found.events))


class Talkative(StepModel):
    """A model with a small window: it gives short notes when asked for a summary, else a long answer."""

    context_limit = 8192

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        self.received.append(list(prompt.items))
        is_summary = not prompt.tools
        text = "notes in short" if is_summary else f"answer {len(self.received)} " * 400
        yield Reply(text, usage=TokenUsage(100, 50))

"""Recordings played again: the same loop gives the same events, and a changed recording is found out."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from buddy.config.settings import AgentSettings, ToolSettings
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
from buddy.protocol.events import ApprovalRequired, AssistantToken, ModelRequest, RunComplete, ToolOutput
from buddy.protocol.requests import (
    AcceptedReply,
    CancelRun,
    CompactSession,
    CompactSessionReply,
    ForkSession,
    ForkSessionReply,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SteerRun,
    SubmitApproval,
    SwitchModel,
    SwitchModelReply,
)
from buddy.protocol.shapes import BudgetLimits, Criterion, RunOptions, ToolCallItem
from buddy.replay.verify import Recording, Verdict, verify
from buddy.tools.toolbox import PANE_TOOLS, ToolDeps, toolbox
from harness import Guest, House
from sessions.stage import Puppet, Turn, answer, asks_for, call, crash, read_all, shell, stage


class Named(Struct):
    """Where an event names what is kept beside the log."""

    blobs: dict[str, str] | None = None
    output: object = None


class Scene:
    """A session that is being recorded."""

    def __init__(self, home: House, guest: Guest) -> None:
        self.home = home
        self.guest = guest

    async def say(self, text: str, **more: object) -> RunComplete:
        run_id = await self.guest.send(text, **more)  # pyright: ignore[reportArgumentType] - passed on as given
        return await self.guest.until(RunComplete, lambda complete: complete.run_id == run_id)

    async def recording(self) -> Recording:
        log = self.home.runtime.log
        session = self.home.runtime.sessions.live(self.guest.session_id)
        if session is not None:
            await session.journal.commit()
        return await recorded(log, self.guest.session_id)


async def recorded(log: Log, session_id: str) -> Recording:
    events = await read_all(log, session_id)
    blobs: dict[str, bytes] = {}
    for event in events:
        named = msgspec.json.decode(event.payload, type=Named)
        for blob in [*(named.blobs or {}).values(), *([named.output] if isinstance(named.output, str) else [])]:
            found = await log.read_blob(blob)
            if found is not None:
                blobs[blob] = found[0]
    return Recording(tuple(events), blobs)


@asynccontextmanager
async def scene(
    tmp_path: Path, *turns: Turn, log: Log | None = None, policy: str = "all", agent: AgentSettings | None = None
) -> AsyncGenerator[Scene]:
    async with stage(tmp_path, Puppet(*turns), log=log, agent=agent) as home, home.client() as guest:
        await guest.start(approval_policy=policy)
        yield Scene(home, guest)


async def verified(recording: Recording) -> Verdict:
    """In a thread: it has an event loop of its own."""
    return await asyncio.to_thread(verify, recording)


async def assert_same(recording: Recording) -> None:
    verdict = await verified(recording)
    assert verdict.difference is None
    assert verdict.compared == len(recording.events)


async def test_an_answer_comes_again(tmp_path: Path) -> None:
    turn = [ThinkingDelta("hm "), ThinkingDelta("so "), TextDelta("one "), TextDelta("two "), *answer("one two three")]
    async with scene(tmp_path, turn) as recording:
        await recording.say("count")
        await assert_same(await recording.recording())


async def test_tools_come_again_without_being_run(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    turns = (
        asks_for(shell("echo made >> made; echo two; echo three >&2"), call("read_file", {"path": "a.txt"})),
        asks_for(call("read_file", {"path": "a.txt"}), call("read_file", {"path": "missing"}), shell("exit 3")),
        asks_for(call("grpe", {}), call("read_file", {"path": 7}), call("run_shell", "{not json")),
        asks_for(call("write_file", {"path": "b.txt", "content": "new"})),
        answer("done"),
    )
    async with scene(tmp_path, *turns) as recording:
        await recording.say("work")
        (tmp_path / "a.txt").unlink()
        await assert_same(await recording.recording())
    assert (tmp_path / "made").read_text() == "made\n"


async def test_tools_that_belong_to_no_target_come_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    plan = call("todo", {"items": [{"text": "look", "state": "done"}]})
    turns = (
        asks_for(call("time", {}), call("read_file", {"path": "a.txt"}), plan, call("time", {"zone": 7})),
        asks_for(call("grpe", {}), call("time", {})),
        answer("done"),
    )
    async with scene(tmp_path, *turns) as recording:
        await recording.say("work")
        await assert_same(await recording.recording())


async def test_long_texts_come_again(tmp_path: Path) -> None:
    turns = (asks_for(shell("seq 1 20000")), answer("word " * 9000))
    async with scene(tmp_path, *turns) as recording:
        await recording.say("say much")
        await assert_same(await recording.recording())


async def test_several_runs_come_again(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one"), asks_for(shell("true")), answer("two"), answer("three")) as recording:
        for text in ("first", "second", "third"):
            await recording.say(text)
        await assert_same(await recording.recording())


async def test_decisions_of_a_person_come_again(tmp_path: Path) -> None:
    turns = (asks_for(shell("echo a"), shell("echo b")), asks_for(shell("echo a")), answer("done"))
    async with scene(tmp_path, *turns, policy="ask") as recording:
        guest = recording.guest
        run_id = await guest.send("go")
        first = await guest.until(ApprovalRequired)
        yes = SubmitApproval(guest.session_id, run_id, first.approval_id, "approve", scope="session")
        await guest.client.approve(yes)
        second = await guest.until(ApprovalRequired)
        no = SubmitApproval(guest.session_id, run_id, second.approval_id, "deny", "rather not")
        await guest.client.approve(no)
        await guest.until(RunComplete)
        await assert_same(await recording.recording())


async def test_a_question_that_nobody_answered_comes_again(tmp_path: Path) -> None:
    agent = AgentSettings(model="test", approval_timeout_seconds=0.05)
    async with scene(tmp_path, asks_for(shell("echo a")), answer("ok"), policy="ask", agent=agent) as recording:
        await recording.say("go")
        await assert_same(await recording.recording())


async def test_a_policy_that_changes_while_something_waits_comes_again(tmp_path: Path) -> None:
    async with scene(tmp_path, asks_for(shell("echo a")), answer("ok"), policy="ask") as recording:
        guest = recording.guest
        await guest.send("go")
        await guest.until(ApprovalRequired)
        request = SetApprovalPolicy("until", 60.0)
        await guest.client.request(request, SetApprovalPolicyReply, guest.session_id)
        await guest.until(RunComplete)
        await assert_same(await recording.recording())


async def test_a_cancel_in_the_middle_of_an_answer_comes_again(tmp_path: Path) -> None:
    turn = [TextDelta("some words "), TextDelta("and half a wo"), asyncio.Event()]
    async with scene(tmp_path, turn) as recording:
        guest = recording.guest
        run_id = await guest.send("talk")
        await guest.until(AssistantToken)
        await guest.client.request(CancelRun(guest.session_id, run_id, "enough"), AcceptedReply)
        await guest.until(RunComplete)
        await assert_same(await recording.recording())


async def test_a_cancel_before_the_first_word_is_whole_comes_again(tmp_path: Path) -> None:
    turn = [ThinkingDelta("hm"), TextDelta("half-a-wo"), asyncio.Event()]
    async with scene(tmp_path, turn) as recording:
        guest = recording.guest
        run_id = await guest.send("talk")
        await guest.until(ModelRequest)
        await asyncio.sleep(0.05)
        await guest.client.cancel(guest.session_id, run_id)
        await guest.until(RunComplete)
        await assert_same(await recording.recording())


async def test_a_cancel_while_a_command_runs_comes_again(tmp_path: Path) -> None:
    async with scene(tmp_path, asks_for(shell("echo begun; printf half; exec sleep 600"), shell("true"))) as recording:
        guest = recording.guest
        run_id = await guest.send("wait")
        await guest.until(ToolOutput)
        await guest.client.cancel(guest.session_id, run_id)
        await guest.until(RunComplete)
        await assert_same(await recording.recording())


async def test_a_cancel_while_somebody_is_asked_comes_again(tmp_path: Path) -> None:
    async with scene(tmp_path, asks_for(shell("true")), policy="ask") as recording:
        guest = recording.guest
        run_id = await guest.send("wait")
        await guest.until(ApprovalRequired)
        await guest.client.cancel(guest.session_id, run_id)
        await guest.until(RunComplete)
        await assert_same(await recording.recording())


async def test_what_the_user_said_meanwhile_comes_again(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    turns = ([TextDelta("one moment "), go_on, *answer("one moment please")], answer("as you like"))
    async with scene(tmp_path, *turns) as recording:
        guest = recording.guest
        run_id = await guest.send("begin")
        await guest.until(ModelRequest)
        await guest.client.request(SteerRun(run_id, "and be quick"), AcceptedReply, guest.session_id)
        go_on.set()
        await guest.until(RunComplete)
        await assert_same(await recording.recording())


async def test_retries_and_failures_come_again(tmp_path: Path) -> None:
    turns = (
        [TextDelta("half "), Retrying(2, "connection lost", 5), Restart("connection lost"), *answer("whole")],
        [TextDelta("then "), ProviderError("overloaded", retryable=True, hint="wait")],
        [RuntimeError("a bug")],
    )
    async with scene(tmp_path, *turns) as recording:
        for text in ("first", "second", "third"):
            await recording.say(text)
        await assert_same(await recording.recording())


async def test_budgets_end_a_run_again(tmp_path: Path) -> None:
    turns = (asks_for(shell("echo a")), asks_for(shell("echo b")), [TextDelta("slow "), asyncio.Event()])
    async with scene(tmp_path, *turns) as recording:
        await recording.say("go", options=RunOptions(budget=BudgetLimits(max_turns=1)))
        await recording.say("go", options=RunOptions(budget=BudgetLimits(max_tool_calls=1, max_turns=1)))
        await recording.say("go", options=RunOptions(budget=BudgetLimits(max_seconds=0.2)))
        await assert_same(await recording.recording())


async def test_a_full_disk_ends_a_run_again(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with scene(tmp_path, asks_for(shell("touch made"), shell("touch more")), log=log) as recording:
        log.room = False
        await recording.say("make it")
        await assert_same(await recording.recording())


async def test_acceptance_checks_come_again_without_being_run(tmp_path: Path) -> None:
    turns = (answer("done"), asks_for(shell("touch there")), answer("now it is"))
    async with scene(tmp_path, *turns) as recording:
        accept = [Criterion("there", "seq 1 3000; echo x >> checked; test -e there")]
        await recording.say("make it", accept=accept)
        checks = (tmp_path / "checked").read_text()
        await assert_same(await recording.recording())
    assert (tmp_path / "checked").read_text() == checks


async def test_switching_the_model_comes_again(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one"), answer("two")) as recording:
        guest = recording.guest
        await recording.say("first")
        await guest.client.request(SwitchModel("other"), SwitchModelReply, guest.session_id)
        await recording.say("second")
        await assert_same(await recording.recording())


async def test_a_compaction_and_its_undoing_come_again(tmp_path: Path) -> None:
    turns = (*(answer(f"answer {number} " * 40) for number in range(6)), answer("notes of the model"), answer("end"))
    async with scene(tmp_path, *turns) as recording:
        guest = recording.guest
        for number in range(6):
            await recording.say(f"question {number} " * 40)
        await guest.client.request(CompactSession(), CompactSessionReply, guest.session_id)
        await recording.say("after it")
        await guest.client.request(CompactSession(undo=True), CompactSessionReply, guest.session_id)
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
async def test_a_crash_and_its_recovery_come_again(
    tmp_path: Path, logs: Callable[[], Log], tool: ToolCallItem, is_approved: bool
) -> None:
    async with scene(tmp_path, asks_for(tool), log=logs(), policy="ask") as recording:
        guest = recording.guest
        run_id = await guest.send("go")
        asked = await guest.until(ApprovalRequired)
        if is_approved:
            await guest.client.approve(SubmitApproval(guest.session_id, run_id, asked.approval_id, "approve"))
            await guest.until(ToolOutput)
        await crash(recording.home, guest.session_id)
        session_id = guest.session_id
    log = logs()
    async with stage(tmp_path, Puppet(answer("after the crash")), log=log) as home, home.client() as guest:
        await guest.client.attach(session_id)
        if not is_approved:
            await guest.client.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        await guest.until(RunComplete)
        await assert_same(await recorded(log, session_id))


async def test_a_run_that_is_still_under_way_is_compared_as_far_as_it_is(tmp_path: Path) -> None:
    async with scene(tmp_path, asks_for(shell("true")), policy="ask") as recording:
        guest = recording.guest
        run_id = await guest.send("go")
        await guest.until(ApprovalRequired)
        await assert_same(await recording.recording())
        await guest.client.cancel(guest.session_id, run_id)
        await guest.until(RunComplete)


async def test_a_fork_is_compared_from_where_it_began(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one"), answer("two")) as recording:
        guest = recording.guest
        await recording.say("first")
        made = await guest.client.request(ForkSession(guest.received[-1].seq), ForkSessionReply, guest.session_id)
        guest.session_id = made.session_id
        await guest.client.attach(made.session_id, 0, made.attach_token)
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


async def test_a_history_that_was_shortened_by_itself_comes_again(tmp_path: Path) -> None:
    """With the same tools in the prompt, so that it is as long as it was."""
    async with stage(tmp_path, Talkative()) as home, home.client() as guest:
        await guest.start()
        recording = Scene(home, guest)
        for number in range(8):
            await recording.say(f"question {number} " * 20)
        found = await recording.recording()
    assert any(event.type == "session_compacted" for event in found.events)
    tools = toolbox(ToolSettings(), ToolDeps()).without(PANE_TOOLS)
    verdict = await asyncio.to_thread(verify, found, specs=tools.specs())
    assert verdict == Verdict(len(found.events))


class Talkative(Puppet):
    """A model with a small window: it gives short notes when asked for a summary, else a long answer."""

    context_limit = 8192

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        self.heard.append(list(prompt.items))
        is_summary = not prompt.tools
        text = "notes in short" if is_summary else f"answer {len(self.heard)} " * 400
        yield Reply(text, usage=TokenUsage(100, 50))

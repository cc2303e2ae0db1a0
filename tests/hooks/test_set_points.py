"""The other set points: messages, results, starts, ends, compactions, notifications; a failure there warns."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.errors import ProtocolError
from buddy.hooks.session_hooks import MAX_BACKGROUND
from buddy.log.memory import MemoryLog
from buddy.protocol.events import (
    ApprovalRequired,
    HookFinished,
    QuestionAsked,
    RunComplete,
    SessionCompacted,
    ToolResult,
    UserMessage,
    WarningRaised,
)
from buddy.protocol.question_events import PersonQuestion
from buddy.protocol.question_requests import AnswerQuestion
from buddy.protocol.requests import AcceptedReply, CompactSession, CompactSessionReply
from tests.backends.workers import Worker
from tests.harness.logs import read_all
from tests.harness.models import answer, asks_for, call, shell
from tests.harness.runtime import check_host, scripted_host
from tests.hooks.hooking import hook, hooked_session, saying, user_hooks


def seen(workspace: Path, name: str) -> dict[str, object]:
    return msgspec.json.decode((workspace / name).read_bytes())


async def test_a_message_gets_what_a_hook_adds(tmp_path: Path) -> None:
    user_hooks(tmp_path, UserPromptSubmit=[hook("cat > seen.json; echo the build is red"), hook("true")])
    async with hooked_session(tmp_path, answer(), answer()) as session:
        await session.say("why?")
        assert seen(tmp_path, "seen.json")["prompt"] == "why?"
        [message] = session.model.user_messages()
        assert message.startswith("why?")
        assert "the build is red" in message
        await session.say("and now?")
        assert len(session.model.user_messages()) == 2
        await session.assert_replayed()


async def test_a_refused_message_ends_its_run_and_is_not_sent(tmp_path: Path) -> None:
    user_hooks(tmp_path, UserPromptSubmit=hook("grep -q password && { echo no passwords >&2; exit 2; }; exit 0"))
    async with hooked_session(tmp_path, answer()) as session:
        refused = await session.say("my password is x")
        assert (refused.outcome, refused.reason) == ("denied", "denied")
        assert "no passwords" in refused.summary
        assert (await session.say("hello")).outcome == "success"
        assert "password is" not in str(session.model.received)
        await session.assert_replayed()


async def test_a_result_gets_what_a_hook_says_about_it(tmp_path: Path) -> None:
    user_hooks(tmp_path, PostToolUse=hook("cat > seen.json; echo run the linter >&2; exit 2", "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("echo out"), shell("echo two")), answer()) as session:
        await session.say()
        first, second = session.model.tool_results()
        assert "out" in first
        assert "run the linter" in first
        assert "run the linter" in second
        assert seen(tmp_path, "seen.json")["tool_name"] == "Bash"
        assert "two" in str(seen(tmp_path, "seen.json")["tool_response"])
        assert "run the linter" not in session.client.bodies(ToolResult)[0].text
        await session.assert_replayed()


async def test_a_hook_can_end_the_run_after_a_call(tmp_path: Path) -> None:
    user_hooks(tmp_path, PostToolUse=hook(saying({"continue": False, "stopReason": "enough"}), "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("true"))) as session:
        complete = await session.say()
        assert complete.outcome == "denied"
        assert "enough" in complete.summary
        await session.assert_replayed()


async def test_a_hook_can_keep_the_model_working(tmp_path: Path) -> None:
    script = (
        'input=$(cat); case "$input" in *\'"stop_hook_active":true\'*) exit 0;; esac; echo run the tests >&2; exit 2'
    )
    user_hooks(tmp_path, Stop=hook(script))
    async with hooked_session(tmp_path, answer("done"), answer("really done")) as session:
        complete = await session.say()
        assert complete.summary == "really done"
        assert session.model.user_messages()[-1] == "run the tests"
        assert session.verdicts("Stop") == ["deny", "none"]
        assert [body.by for body in session.client.bodies(UserMessage)] == ["cli", "hook"]
        await session.assert_replayed()


async def test_a_hook_cannot_keep_a_run_for_ever(tmp_path: Path) -> None:
    user_hooks(tmp_path, Stop=hook("exit 2"))
    async with hooked_session(tmp_path, *(answer() for _ in range(9))) as session:
        assert (await session.say()).outcome == "success"
        assert session.verdicts("Stop") == ["deny"] * 9
        assert [warning.code for warning in session.client.bodies(WarningRaised)] == ["HOOK_FAILED"]
        await session.assert_replayed()


async def test_a_session_starts_with_what_hooks_add(tmp_path: Path) -> None:
    user_hooks(tmp_path, SessionStart=hook("cat > seen.json; sleep 0.2; echo today is monday", "startup"))
    async with hooked_session(tmp_path, answer(), answer()) as session:
        await session.say("hello")
        assert seen(tmp_path, "seen.json")["source"] == "startup"
        assert "today is monday" in session.model.user_messages()[0]
        await session.say("again")
        assert session.verdicts("SessionStart") == ["none"]
        await session.assert_replayed()


async def test_the_start_is_recorded_without_a_message(tmp_path: Path) -> None:
    user_hooks(tmp_path, SessionStart=hook("true"))
    async with hooked_session(tmp_path) as session:
        finished = await session.client.wait_for(HookFinished)
        assert (finished.event, finished.verdict) == ("SessionStart", "none")
        assert session.client.received[-1].run_id is None


async def test_a_session_ends_with_its_hooks(tmp_path: Path) -> None:
    user_hooks(tmp_path, SessionEnd=hook("cat > seen.json"))
    async with hooked_session(tmp_path, answer()) as session:
        await session.say()
        runtime = session.host.runtime
        await runtime.sessions.close()
        assert seen(tmp_path, "seen.json")["hook_event_name"] == "SessionEnd"
        last = (await read_all(runtime.log, session.client.session_id))[-1].body()
        assert isinstance(last, HookFinished)
        assert last.event == "SessionEnd"


async def test_somebody_can_be_notified_of_a_question(tmp_path: Path) -> None:
    user_hooks(tmp_path, Notification=hook("cat > seen.json", "permission_prompt"))
    async with hooked_session(tmp_path, asks_for(shell("true")), answer(), policy="ask") as session:
        await session.client.send("go")
        await session.client.wait_for(HookFinished)
        assert "permission" in str(seen(tmp_path, "seen.json")["message"])
        asked = session.client.bodies(ApprovalRequired)[0]
        assert asked.kind == "exec"


async def test_a_hook_can_refuse_a_compaction(tmp_path: Path) -> None:
    user_hooks(tmp_path, PreCompact=hook("cat > seen.json; exit 2", "manual"))
    async with hooked_session(tmp_path, *(answer() for _ in range(5))) as session:
        for number in range(5):
            await session.say(f"{number} " + "words " * 500)
        request = CompactSession()
        with pytest.raises(ProtocolError, match="not compacted"):
            await session.client.api.request(request, CompactSessionReply, session.client.session_id)
        assert seen(tmp_path, "seen.json")["trigger"] == "manual"
        await session.assert_replayed()


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "Stop", "SessionStart"])
async def test_where_nothing_is_guarded_a_failure_warns(tmp_path: Path, event: str) -> None:
    user_hooks(tmp_path, **{event: hook("echo broken >&2; exit 3")})
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer()) as session:
        assert (await session.say()).outcome == "success"
        assert (tmp_path / "made").exists()
        assert session.verdicts() == ["failed"]
        [warning] = session.client.bodies(WarningRaised)
        assert warning.code == "HOOK_FAILED"
        assert "broken" in warning.message
        await session.assert_replayed()


async def test_nobody_waits_for_a_hook_in_the_background(tmp_path: Path) -> None:
    user_hooks(tmp_path, PostToolUse=hook("sleep 60", None, **{"async": True}))
    async with hooked_session(tmp_path, asks_for(shell("true")), answer()) as session:
        complete = await session.say()
        assert isinstance(complete, RunComplete)
        assert session.verdicts() == ["none"]


async def test_hooks_in_the_background_are_limited_in_number(tmp_path: Path) -> None:
    many = [hook(f"echo {number} >>started; sleep 60", None, **{"async": True}) for number in range(MAX_BACKGROUND + 2)]
    user_hooks(tmp_path, PostToolUse=many)
    async with hooked_session(tmp_path, asks_for(shell("true")), answer()) as session:
        await session.say()
        assert session.verdicts() == ["none"] * MAX_BACKGROUND + ["failed"] * 2
        warnings = [one.message for one in session.client.bodies(WarningRaised)]
        assert len(warnings) == 2 and all("in the background" in message for message in warnings)


@pytest.mark.parametrize("refused", [True, False])
async def test_hooks_come_before_an_automatic_compaction(tmp_path: Path, refused: bool) -> None:
    for number in range(40):
        (tmp_path / f"note{number}.txt").write_text(f"note {number}: " + f"word{number} " * 300)
    user_hooks(tmp_path, PreCompact=hook(f"cat > seen.json; exit {2 if refused else 0}", "auto"))
    model = Worker(lambda turn: (call("read_file", {"path": f"note{turn}.txt"}),) if turn < 36 else ())
    parts = RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda _: model)
    async with scripted_host(tmp_path, overrides=parts) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("read everything")
        complete = await client.wait_for(RunComplete)
        assert seen(tmp_path, "seen.json")["trigger"] == "auto"
        assert bool(client.bodies(SessionCompacted)) != refused
        assert complete.reason == ("context_full" if refused else None)
        await check_host(host)


async def test_somebody_can_be_notified_of_a_servers_question(tmp_path: Path) -> None:
    user_hooks(tmp_path, Notification=hook("cat > seen.json", "elicitation_dialog"))
    go_on = asyncio.Event()
    async with hooked_session(tmp_path, [go_on, *answer()]) as session:
        await session.client.send("go")
        await session.model.waiting.wait()
        live = session.host.runtime.sessions.live(session.client.session_id)
        assert live is not None
        asking = asyncio.create_task(live.questions.ask("call_1", PersonQuestion("files", "Which folder?", "form")))
        asked = await session.client.wait_for(QuestionAsked)
        await session.client.wait_for(HookFinished)
        assert seen(tmp_path, "seen.json")["message"] == "files asks: Which folder?"
        request = AnswerQuestion(asked.question_id, "decline")
        await session.client.api.request(request, AcceptedReply, session.client.session_id)
        await asking
        go_on.set()
        await session.client.wait_for(RunComplete)

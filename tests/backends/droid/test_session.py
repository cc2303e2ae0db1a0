"""Droid's wire, spoken with a program that speaks it: every scenario of the agent runtime, and what goes wrong."""

from pathlib import Path

import pytest

from backends.droid.talking import (
    agent_request,
    ask,
    conversation,
    droid,
    environment,
    listen,
    no,
    requests,
    until,
    workspace,
    yes,
)
from buddy.backends.droid.agent import Droid
from buddy.backends.external.contract import (
    Completion,
    Delta,
    Failure,
    Message,
    Permission,
    PermissionAnswer,
    SessionLost,
    SystemNote,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UsageReport,
)
from buddy.errors import ProviderError, UserError
from buddy.targets import orphans
from buddy.targets.local import Local

DIALECTS = pytest.mark.parametrize("mode", ["", "old", "double", "old double"])


async def test_runtime_initialization_succeeds(tmp_path: Path) -> None:
    async with droid(tmp_path) as agent:
        assert agent.is_available
        assert (agent.name, agent.reports_cost) == ("droid", False)


async def test_runtime_initialization_fails_without_credentials(tmp_path: Path) -> None:
    agent = Droid({**environment(tmp_path), "FACTORY_API_KEY": ""}, tmp_path / "config")
    assert not agent.is_available
    with pytest.raises(UserError, match="FACTORY_API_KEY") as refused:
        await agent.start(Local(), str(tmp_path))
    assert "factory.json" in refused.value.hint


async def test_a_missing_program_is_named_with_how_to_install_it(tmp_path: Path) -> None:
    agent = Droid({**environment(tmp_path), "PATH": str(tmp_path)}, tmp_path / "config")
    with pytest.raises(UserError, match="droid was not found") as refused:
        await agent.start(Local(), str(tmp_path))
    assert refused.value.hint == "npm install -g droid"


@DIALECTS
async def test_streaming_session_lifecycle(tmp_path: Path, mode: str) -> None:
    async with conversation(tmp_path, mode, text="say hello there") as executor:
        heard = await listen(executor)
        assert [event.text for event in heard if isinstance(event, Message)] == ["hello there"]
        assert heard[-1] == Completion("completed", "hello there")
        assert sum(isinstance(event, Completion) for event in heard) == 1
        assert not executor.is_closed
        await executor.close()
        assert executor.is_closed
        assert await executor.wait() == 0
    assert orphans.find(agent_request(tmp_path).nonce) == []


@DIALECTS
async def test_each_message_has_one_completion(tmp_path: Path, mode: str) -> None:
    async with conversation(tmp_path, mode) as executor:
        for text in ("one", "two", "three"):
            heard = await ask(executor, f"say {text}")
            assert [event.text for event in heard if isinstance(event, Message)] == [text]
            assert heard[-1] == Completion("completed", text)


async def test_session_cancellation(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        await executor.send_message("wait")
        await until(executor, Message)
        await executor.cancel()
        assert (await listen(executor))[-1] == Completion("cancelled", "waiting for it\n")
        assert (await ask(executor, "say again"))[-1] == Completion("completed", "again")
        await executor.close()
        assert executor.done.is_set()
    assert requests(tmp_path, "interrupt_session")


async def test_an_old_droid_that_only_gets_idle_is_cancelled_all_the_same(tmp_path: Path) -> None:
    async with conversation(tmp_path, "old") as executor:
        await executor.send_message("wait")
        await until(executor, Message)
        await executor.cancel()
        assert (await listen(executor))[-1] == Completion("cancelled", "waiting for it\n")


async def test_droid_event_normalization(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await ask(executor, "say hello there")
        message = next(event for event in heard if isinstance(event, Message))
        assert (message.role, message.text) == ("assistant", "hello there")
        deltas = [event for event in heard if isinstance(event, Delta)]
        assert "".join(event.text for event in deltas) == "hello there"
        assert {event.message_id for event in deltas} == {message.message_id}
        thought = await ask(executor, "think so")
        assert Delta("so", "thought", thinking=True) in thought


async def test_droid_session_continuation(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        session_id = executor.backend_session_id
        await ask(executor, "say first")
    async with conversation(tmp_path, session_id=session_id) as executor:
        assert executor.backend_session_id == session_id
        heard = await ask(executor, "recall")
        assert heard[-1] == Completion("completed", "1 before")
        # What the earlier process told is not told again.
        assert [event.output_tokens for event in heard if isinstance(event, UsageReport)] == [10]
    assert requests(tmp_path, "load_session")[0]["params"] == {"sessionId": session_id}
    assert requests(tmp_path, "update_session_settings")[0]["params"]["autonomyLevel"] == "off"


async def test_a_session_that_is_not_known_any_more_is_lost(tmp_path: Path) -> None:
    async with droid(tmp_path) as agent:
        with pytest.raises(SessionLost, match="not found"):
            await agent.execute(agent_request(tmp_path, session_id="gone"))
    assert orphans.find(agent_request(tmp_path).nonce) == []


async def test_droid_graceful_shutdown(tmp_path: Path) -> None:
    async with conversation(tmp_path, text="wait") as executor:
        await until(executor, Message)
        await executor.close()
        methods = [request["method"] for request in requests(tmp_path)]
        assert methods[-2:] == ["droid.interrupt_session", "droid.close_session"]
        assert orphans.find(agent_request(tmp_path).nonce) == []
        with pytest.raises(ProviderError, match="not running"):
            await executor.send_message("say more")


async def test_droid_health_check(tmp_path: Path) -> None:
    async with droid(tmp_path) as agent:
        await agent.ping()
        await agent.close()
        with pytest.raises(ProviderError, match="not started"):
            await agent.ping()


async def test_one_message_alone_is_answered_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with droid(tmp_path) as agent:
        result = await agent.execute_once(agent_request(tmp_path, "say hello"))
        assert (result.text, result.reason) == ("hello", "completed")
        denied = await agent.execute_once(agent_request(tmp_path, "run touch made"))
        assert denied.text.startswith("heard: That was not allowed: nobody is available to approve this")
    assert not (workspace(tmp_path) / "made").exists()
    assert orphans.find(agent_request(tmp_path).nonce) == []


async def test_a_session_is_opened_so_that_everything_is_asked(tmp_path: Path) -> None:
    async with conversation(tmp_path, model="custom:M-0", instructions="be kind"):
        pass
    async with conversation(tmp_path, plan=True):
        pass
    first, second = (request["params"] for request in requests(tmp_path, "initialize_session"))
    assert first["cwd"] == str(workspace(tmp_path))
    assert (first["autonomyLevel"], first["interactionMode"], first["modelId"]) == ("off", "auto", "custom:M-0")
    assert first["systemPrompt"] == {"type": "preset", "preset": "droid", "append": "be kind"}
    assert second["interactionMode"] == "spec"
    assert first["machineId"] == second["machineId"]
    assert "skipPermissionsUnsafe" not in first


async def test_the_key_reaches_the_process_by_its_environment(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "factory.json").write_text('{"api_key": "fk-of-the-file"}')
    async with droid(tmp_path, FACTORY_API_KEY="") as agent:
        shown = await agent.execute_once(agent_request(tmp_path, "shows FACTORY_API_KEY"))
        assert shown.text == "FACTORY_API_KEY=fk-of-the-file"
        assert (
            await agent.execute_once(agent_request(tmp_path, "shows FACTORY_DROID_AUTO_UPDATE_ENABLED"))
        ).text.endswith("=false")
    assert "fk-of-the-file" not in (tmp_path / "heard.jsonl").read_text()


@DIALECTS
async def test_a_call_is_reported_once_with_all_its_arguments(tmp_path: Path, mode: str) -> None:
    (workspace(tmp_path) / "notes.txt").write_text("contents")
    async with conversation(tmp_path, mode) as executor:
        heard = await ask(executor, "look notes.txt")
        calls = [event for event in heard if isinstance(event, ToolStarted)]
        assert [(call.name, call.args) for call in calls] == [("Read", {"file_path": "notes.txt"})]
        assert [event for event in heard if isinstance(event, ToolEnded)] == [ToolEnded(calls[0].call_id, "contents")]


@DIALECTS
async def test_what_is_approved_is_done(tmp_path: Path, mode: str) -> None:
    async with conversation(tmp_path, mode) as executor:
        heard = await ask(executor, "run echo hi; exit 3", yes)
        asked = [event for event in heard if isinstance(event, Permission)]
        assert [(event.kind, event.command) for event in asked] == [("exec", "echo hi; exit 3")]
        ended = next(event for event in heard if isinstance(event, ToolEnded))
        assert (ended.call_id, ended.is_error) == (asked[0].call_id, True)
        assert ToolProgress(asked[0].call_id, "hi\n") in heard
        assert heard[-1] == Completion("completed", "done")


async def test_what_is_denied_is_not_done_and_the_model_hears_why(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await ask(executor, "run touch made", no)
        assert [event.is_error for event in heard if isinstance(event, ToolEnded)] == [True]
        assert heard[-1] == Completion("completed", "heard: That was not allowed: use tea. Go on without it.")
        assert sum(isinstance(event, Completion) for event in heard) == 1
    assert not (workspace(tmp_path) / "made").exists()


async def test_a_denial_without_a_word_ends_the_turn(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await ask(executor, "run touch made", lambda _: PermissionAnswer(approved=False))
        assert heard[-1] == Completion("completed", "")


async def test_several_calls_in_one_question_are_done_only_if_each_is_approved(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        decisions = iter([PermissionAnswer(approved=True), PermissionAnswer(approved=False, comment="no")])
        heard = await ask(executor, "both touch one | touch two", lambda _: next(decisions))
        assert [event.command for event in heard if isinstance(event, Permission)] == ["touch one", "touch two"]
        assert [event.is_error for event in heard if isinstance(event, ToolEnded)] == [True, True]
        assert not list(workspace(tmp_path).glob("[ot]*"))
        await ask(executor, "both touch one | touch two", yes)
        assert {path.name for path in workspace(tmp_path).glob("[ot]*")} == {"one", "two"}


async def test_two_calls_with_one_id_are_two_calls(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await ask(executor, "same touch one | touch two", yes)
        started = [event.call_id for event in heard if isinstance(event, ToolStarted)]
        assert len(set(started)) == 2
        assert [event.call_id for event in heard if isinstance(event, Permission)] == started
        assert [event.call_id for event in heard if isinstance(event, ToolEnded)] == started


async def test_a_file_is_asked_for_with_what_would_change(tmp_path: Path) -> None:
    file = workspace(tmp_path) / "a.txt"
    file.write_text("old\n")
    async with conversation(tmp_path) as executor:
        heard = await ask(executor, "edit a.txt new", yes)
        asked = next(event for event in heard if isinstance(event, Permission))
        assert (asked.kind, asked.path) == ("write", str(file))
        assert "-old" in asked.details["diff"]
        assert "+new" in asked.details["diff"]
        assert file.read_text() == "new"
        created = await ask(executor, "edit b.txt fresh", yes)
        asked = next(event for event in created if isinstance(event, Permission))
        assert "+fresh" in asked.details["diff"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("fetch http://example.org/x", [("fetch", "", "http://example.org/x")]),
        ("patch src/a.py src/b.py", [("write", "src/a.py", ""), ("write", "src/b.py", "")]),
        ("other linear___search", [("tool", "", "")]),
        ("plan build it", [("tool", "", "")]),
    ],
)
async def test_questions_are_put_in_the_words_of_our_rules(
    tmp_path: Path, text: str, kinds: list[tuple[str, str, str]]
) -> None:
    async with conversation(tmp_path) as executor:
        heard = await ask(executor, text, yes)
        asked = [event for event in heard if isinstance(event, Permission)]
        assert [(event.kind, event.path, event.url) for event in asked] == kinds
        assert heard[-1] == Completion("completed", "done")


async def test_a_plan_that_was_asked_for_is_the_answer_and_nothing_is_begun(tmp_path: Path) -> None:
    async with conversation(tmp_path, plan=True) as executor:
        heard = await ask(executor, "plan first this, then that", yes)
        assert not [event for event in heard if isinstance(event, Permission)]
        assert [event.text for event in heard if isinstance(event, Message)] == ["first this, then that"]
        assert heard[-1] == Completion("completed", "first this, then that")


async def test_a_session_that_plans_does_nothing_that_has_to_be_asked(tmp_path: Path) -> None:
    async with conversation(tmp_path, plan=True) as executor:
        heard = await ask(executor, "run touch made", yes)
        assert not [event for event in heard if isinstance(event, Permission)]
        assert isinstance(heard[-1], Completion)
        assert "Execute was not allowed: only look" in heard[-1].text
    assert not (workspace(tmp_path) / "made").exists()


async def test_a_question_that_is_not_understood_is_answered_with_no(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await ask(executor, "strange thing", yes)
        assert [event.is_error for event in heard if isinstance(event, ToolEnded)] == [True]
        assert heard[-1] == Completion("completed", "")
        assert "request_permission" in str(executor.errors[-1])


async def test_a_question_to_the_user_is_shown_and_given_back(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await ask(executor, "question red or blue?")
        assert "red or blue?" in next(event.text for event in heard if isinstance(event, SystemNote))
        assert isinstance(heard[-1], Completion)
        assert heard[-1].text.startswith("heard: Your question could not be shown")


async def test_a_question_that_nobody_waits_for_is_not_answered(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        await executor.send_message("run touch made")
        asked = await until(executor, Permission)
        assert isinstance(asked, Permission)
        await executor.cancel()
        assert (await listen(executor))[-1] == Completion("cancelled", "")
        before = len(requests(tmp_path))
        await asked.reply(PermissionAnswer(approved=True))
        await ask(executor, "say on")
        assert [line["type"] for line in requests(tmp_path)[before:]] == ["request"]
    assert not (workspace(tmp_path) / "made").exists()


async def test_messages_that_come_while_it_works_are_worked_off_before_it_is_done(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        await executor.send_message("run echo first")
        asked = await until(executor, Permission)
        assert isinstance(asked, Permission)
        await executor.send_message("say second")
        await asked.reply(PermissionAnswer(approved=True))
        heard = await listen(executor)
        assert [event.text for event in heard if isinstance(event, Message)] == ["done", "second"]
        assert heard[-1] == Completion("completed", "second")


async def test_what_is_not_understood_is_kept_and_harms_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert (await ask(executor, "garbage"))[-1] == Completion("completed", "still here")
        shown = " ".join(str(error) for error in executor.errors)
        assert "Updating droid" in shown
        assert "[1, 2]" in shown
        assert "tool_result" in shown
        assert "nested deeper" in shown


async def test_an_answer_has_the_very_id_of_its_question(tmp_path: Path) -> None:
    async with conversation(tmp_path, "numbers") as executor:
        assert (await ask(executor, "run touch made", yes))[-1] == Completion("completed", "done")
    assert (workspace(tmp_path) / "made").exists()


async def test_a_droid_that_closes_its_stdout_and_stays_is_gone(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        await executor.send_message("mute")
        assert [event async for event in executor.events() if isinstance(event, Completion)] == []
        await executor.wait()


@pytest.mark.parametrize("mode", ["", "old"])
async def test_a_turn_that_fails_is_complete_with_its_error(tmp_path: Path, mode: str) -> None:
    async with conversation(tmp_path, mode) as executor:
        heard = await ask(executor, "fail no access token")
        assert Failure("no access token") in heard
        assert heard[-1] == Completion("error", "", "no access token")
        assert (await ask(executor, "say better"))[-1] == Completion("completed", "better")


async def test_what_was_spent_is_reported_as_the_difference(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        for _ in range(2):
            heard = await ask(executor, "say x")
            assert [event for event in heard if isinstance(event, UsageReport)] == [UsageReport(20, 10, 5)]


async def test_a_process_that_dies_while_it_works_ends_the_events_with_its_code(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await ask(executor, "die")
        assert not [event for event in heard if isinstance(event, Completion)]
        assert await executor.wait() == 3
        assert "met its end" in str(executor.errors[-1])
        with pytest.raises(ProviderError, match="not running"):
            await executor.send_message("say more")


@pytest.mark.parametrize(
    ("mode", "told"),
    [("dead", "ended with 1 before it was ready: droid: no"), ("nameless", "Invalid request format")],
)
async def test_a_session_that_cannot_be_opened_is_an_error_and_leaves_nothing(
    tmp_path: Path, mode: str, told: str
) -> None:
    async with droid(tmp_path, FACTORY_FAKE=mode) as agent:
        with pytest.raises(ProviderError, match=told):
            await agent.execute(agent_request(tmp_path))
    assert orphans.find(agent_request(tmp_path).nonce) == []


async def test_a_message_that_is_refused_is_complete_with_its_error(tmp_path: Path) -> None:
    async with conversation(tmp_path, "refusing") as executor:
        heard = await ask(executor, "say x")
        assert heard == [Completion("error", error="droid refused add_user_message: not today")]


async def test_no_request_waits_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("buddy.backends.droid.session.OPEN_SECONDS", 0.3)
    monkeypatch.setattr("buddy.backends.droid.session.CLOSE_SECONDS", 0.1)
    async with droid(tmp_path, FACTORY_FAKE="deaf") as agent:
        with pytest.raises(ProviderError, match="did not answer initialize_session"):
            await agent.execute(agent_request(tmp_path))


async def test_concurrent_sessions_same_project(tmp_path: Path) -> None:
    async with droid(tmp_path) as agent:
        one, two = await agent.execute(agent_request(tmp_path)), await agent.execute(agent_request(tmp_path))
        assert one.backend_session_id != two.backend_session_id
        await one.send_message("say left")
        await two.send_message("say right")
        assert (await listen(two))[-1] == Completion("completed", "right")
        assert (await listen(one))[-1] == Completion("completed", "left")

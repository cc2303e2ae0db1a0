"""A conversation with Droid, with a fake program that speaks its wire format: normal operation and failures."""

from pathlib import Path

import pytest

from buddy.backends.droid.agent import Droid
from buddy.backends.external.contract import (
    Completion,
    Delta,
    Failure,
    Message,
    Permission,
    PermissionAnswer,
    SessionLost,
    ToolEnded,
    ToolStarted,
    UsageReport,
)
from buddy.errors import ProviderError, UserError
from buddy.targets import orphans
from buddy.targets.local import Local
from tests.backends.droid.program import agent_request, conversation, droid, environment, requests, workspace
from tests.backends.talking import listen, send, until, yes

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


async def test_a_missing_program_is_reported_with_the_install_command(tmp_path: Path) -> None:
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
            heard = await send(executor, f"say {text}")
            assert [event.text for event in heard if isinstance(event, Message)] == [text]
            assert heard[-1] == Completion("completed", text)


async def test_session_cancellation(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        await executor.send_message("wait")
        await until(executor, Message)
        await executor.cancel()
        assert (await listen(executor))[-1] == Completion("cancelled", "waiting for it\n")
        assert (await send(executor, "say again"))[-1] == Completion("completed", "again")
        await executor.close()
        assert executor.done.is_set()
    assert requests(tmp_path, "interrupt_session")


async def test_an_old_droid_that_only_reports_idle_can_be_cancelled(tmp_path: Path) -> None:
    async with conversation(tmp_path, "old") as executor:
        await executor.send_message("wait")
        await until(executor, Message)
        await executor.cancel()
        assert (await listen(executor))[-1] == Completion("cancelled", "waiting for it\n")


async def test_droid_event_normalization(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await send(executor, "say hello there")
        message = next(event for event in heard if isinstance(event, Message))
        assert (message.role, message.text) == ("assistant", "hello there")
        deltas = [event for event in heard if isinstance(event, Delta)]
        assert "".join(event.text for event in deltas) == "hello there"
        assert {event.message_id for event in deltas} == {message.message_id}
        thought = await send(executor, "think so")
        assert Delta("so", "thought", thinking=True) in thought


async def test_droid_session_continuation(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        session_id = executor.backend_session_id
        await send(executor, "say first")
    async with conversation(tmp_path, session_id=session_id) as executor:
        assert executor.backend_session_id == session_id
        heard = await send(executor, "recall")
        assert heard[-1] == Completion("completed", "1 before")
        # Usage that the earlier process reported is not reported again.
        assert [event.output_tokens for event in heard if isinstance(event, UsageReport)] == [10]
    assert requests(tmp_path, "load_session")[0]["params"] == {"sessionId": session_id}
    assert requests(tmp_path, "update_session_settings")[0]["params"]["autonomyLevel"] == "off"


async def test_an_unknown_session_is_reported_as_lost(tmp_path: Path) -> None:
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
        with pytest.raises(ProviderError, match="has exited"):
            await executor.send_message("say more")


async def test_droid_health_check(tmp_path: Path) -> None:
    async with droid(tmp_path) as agent:
        await agent.ping()
        await agent.close()
        with pytest.raises(ProviderError, match="not started"):
            await agent.ping()


async def test_execute_once_answers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with droid(tmp_path) as agent:
        result = await agent.execute_once(agent_request(tmp_path, "say hello"))
        assert (result.text, result.reason) == ("hello", "completed")
        denied = await agent.execute_once(agent_request(tmp_path, "run touch made"))
        assert denied.text.startswith("heard: That was not allowed: nobody is available to approve this")
    assert not (workspace(tmp_path) / "made").exists()
    assert orphans.find(agent_request(tmp_path).nonce) == []


async def test_a_session_is_opened_so_that_droid_always_asks(tmp_path: Path) -> None:
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


async def test_the_key_is_passed_in_the_environment(tmp_path: Path) -> None:
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
        heard = await send(executor, "look notes.txt")
        calls = [event for event in heard if isinstance(event, ToolStarted)]
        assert [(call.name, call.args) for call in calls] == [("Read", {"file_path": "notes.txt"})]
        assert [event for event in heard if isinstance(event, ToolEnded)] == [ToolEnded(calls[0].call_id, "contents")]


async def test_two_calls_with_the_same_id_get_different_ids(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await send(executor, "same touch one | touch two", yes)
        started = [event.call_id for event in heard if isinstance(event, ToolStarted)]
        assert len(set(started)) == 2
        assert [event.call_id for event in heard if isinstance(event, Permission)] == started
        assert [event.call_id for event in heard if isinstance(event, ToolEnded)] == started


async def test_messages_sent_while_it_works_are_processed_before_completion(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        await executor.send_message("run echo first")
        asked = await until(executor, Permission)
        assert isinstance(asked, Permission)
        await executor.send_message("say second")
        await asked.reply(PermissionAnswer(approved=True))
        heard = await listen(executor)
        assert [event.text for event in heard if isinstance(event, Message)] == ["done", "second"]
        assert heard[-1] == Completion("completed", "second")


async def test_invalid_lines_are_recorded_as_errors_and_skipped(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert (await send(executor, "garbage"))[-1] == Completion("completed", "still here")
        shown = " ".join(str(error) for error in executor.errors)
        assert "Updating droid" in shown
        assert "[1, 2]" in shown
        assert "tool_result" in shown
        assert "nested deeper" in shown


async def test_a_droid_that_closes_stdout_but_keeps_running_is_ended(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        await executor.send_message("mute")
        assert [event async for event in executor.events() if isinstance(event, Completion)] == []
        await executor.wait()


@pytest.mark.parametrize("mode", ["", "old"])
async def test_a_failed_turn_completes_with_its_error(tmp_path: Path, mode: str) -> None:
    async with conversation(tmp_path, mode) as executor:
        heard = await send(executor, "fail no access token")
        assert Failure("no access token") in heard
        assert heard[-1] == Completion("error", "", "no access token")
        assert (await send(executor, "say better"))[-1] == Completion("completed", "better")


async def test_usage_is_reported_as_the_difference(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        for _ in range(2):
            heard = await send(executor, "say x")
            assert [event for event in heard if isinstance(event, UsageReport)] == [UsageReport(20, 10, 5)]


async def test_events_end_when_the_process_dies_and_wait_returns_its_code(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await send(executor, "die")
        assert not [event for event in heard if isinstance(event, Completion)]
        assert await executor.wait() == 3
        assert "met its end" in str(executor.errors[-1])
        with pytest.raises(ProviderError, match="has exited"):
            await executor.send_message("say more")


@pytest.mark.parametrize(
    ("mode", "message"),
    [("dead", "exited with code 1 before it was ready: droid: no"), ("nameless", "Invalid request format")],
)
async def test_a_session_that_fails_to_open_is_an_error_and_leaves_nothing_behind(
    tmp_path: Path, mode: str, message: str
) -> None:
    async with droid(tmp_path, FACTORY_FAKE=mode) as agent:
        with pytest.raises(ProviderError, match=message):
            await agent.execute(agent_request(tmp_path))
    assert orphans.find(agent_request(tmp_path).nonce) == []


async def test_a_refused_message_completes_with_its_error(tmp_path: Path) -> None:
    async with conversation(tmp_path, "refusing") as executor:
        heard = await send(executor, "say x")
        assert heard == [Completion("error", error="droid refused add_user_message: not today")]


async def test_requests_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

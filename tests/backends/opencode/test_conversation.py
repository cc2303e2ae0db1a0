"""The events of a conversation with OpenCode, with older and newer servers, and when the stream breaks."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from buddy.backends.external.contract import (
    Completion,
    Delta,
    Failure,
    Message,
    Permission,
    SystemNote,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UsageReport,
)
from tests.backends.opencode.serving import conversation, kinds, request, serving
from tests.backends.talking import listen, no, send, until

DIALECTS = pytest.mark.parametrize("dialect", ["", "old"])
SPENT = UsageReport(20, 10, 4, 0.25, 128_000)


@DIALECTS
async def test_text_is_reported_in_pieces_and_then_complete(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OPENCODE", dialect)
    async with conversation(tmp_path) as executor:
        first, second, complete, spent, completion = await send(executor, "say hello world")
        assert isinstance(first, Delta)
        assert isinstance(second, Delta)
        assert (first.text, second.text) == ("hello", " world")
        assert complete == Message("hello world", first.message_id)
        assert spent == SPENT
        assert completion == Completion("completed", "hello world")


async def test_thinking_is_reported_as_such_and_not_as_the_answer(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "think hard now")
        thoughts = [event.text for event in events if isinstance(event, Delta) and event.thinking]
        assert thoughts == ["hard", " now"]
        assert [event.text for event in events if isinstance(event, Message)] == ["thought"]


async def test_a_call_starts_and_ends_once(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("contents")
    async with conversation(tmp_path) as executor:
        events = await send(executor, "look notes")
        assert [event for event in events if isinstance(event, ToolStarted | ToolEnded)] == [
            ToolStarted("call_0", "read", {"filePath": "notes"}),
            ToolEnded("call_0", "contents"),
        ]
        assert [event for event in events if isinstance(event, UsageReport)] == [SPENT, SPENT]


async def test_repeated_events_are_reported_once(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "twice word")
        assert kinds(events) == [
            "Delta",
            "Delta",
            "Message",
            "ToolStarted",
            "ToolEnded",
            "UsageReport",
            "UsageReport",
            "Completion",
        ]
        assert [event.text for event in events if isinstance(event, Message)] == ["word"]


async def test_invalid_events_are_skipped(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert (await send(executor, "garbage and text"))[-1] == Completion("completed", "and text")


@DIALECTS
async def test_a_permission_request_shows_the_command_that_will_run(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OPENCODE", dialect)
    async with conversation(tmp_path) as executor:
        for word in ("run", "early"):  # the request may arrive before the arguments of its call
            events = await send(executor, f"{word} echo one two")
            (asked,) = [event for event in events if isinstance(event, Permission)]
            assert (asked.kind, asked.name, asked.command) == ("exec", "bash", "echo one two")
            assert asked.args == {"command": "echo one two"}
            assert [event.text for event in events if isinstance(event, ToolProgress)] == ["one", " two\n"]
            assert [event.text for event in events if isinstance(event, ToolEnded)] == ["one two\n"]


@DIALECTS
async def test_a_denial_reaches_the_model_and_the_work_continues(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OPENCODE", dialect)
    async with conversation(tmp_path) as executor:
        events = await send(executor, "run touch made", no)
        (ended,) = [event for event in events if isinstance(event, ToolEnded)]
        assert ended.is_error
        assert ("not that" in ended.text) == (not dialect)  # older servers take no comment
        assert events[-1] == Completion("completed", "done")
        assert not (tmp_path / "made").exists()


async def test_a_command_outside_the_workspace_is_asked_about_once(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "outside echo x")
        assert [event.command for event in events if isinstance(event, Permission)] == ["echo x"]
        denied = await send(executor, "outside touch made", no)
        assert len([event for event in denied if isinstance(event, Permission)]) == 1
        assert not (tmp_path / "made").exists()


async def test_permission_requests_map_to_the_kinds_of_our_rules(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        asked: list[Permission] = []
        for text in ("write new.txt", "fetch http://127.0.0.1:9/x", "other their_tool", "loop"):
            asked += [event for event in await send(executor, text) if isinstance(event, Permission)]
        write, fetch, other, loop = asked
        assert (write.kind, write.path) == ("write", str(tmp_path / "new.txt"))
        assert "+new" in write.details["diff"]
        assert (fetch.kind, fetch.url) == ("fetch", "http://127.0.0.1:9/x")
        assert (other.kind, other.name) == ("tool", "their_tool")
        assert (loop.kind, loop.name) == ("tool", "doom_loop")


async def test_every_file_of_a_patch_is_listed(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "patch one.txt two.txt")
        (asked,) = [event for event in events if isinstance(event, Permission)]
        assert (asked.kind, asked.path) == ("write", str(tmp_path / "one.txt"))
        assert asked.more_paths == (str(tmp_path / "two.txt"),)


async def test_a_permission_request_without_a_call_ends_with_its_answer(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "loop")
        (asked,) = [event for event in events if isinstance(event, Permission)]
        assert ToolEnded(asked.call_id, "allowed") in events


async def test_calls_of_a_sub_agent_are_asked_about_and_reported_but_not_its_text(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "sub echo helped")
        assert [event.command for event in events if isinstance(event, Permission)] == ["echo helped"]
        assert [event.name for event in events if isinstance(event, ToolStarted)] == ["task", "bash"]
        assert [event.text for event in events if isinstance(event, ToolEnded)] == ["helped\n", "the helper is done"]
        assert [event.text for event in events if isinstance(event, Message)] == ["done"]
        assert len([event for event in events if isinstance(event, UsageReport)]) == 4  # the usage of sub-agents counts
        assert len([event for event in events if isinstance(event, Completion)]) == 1


async def test_a_call_made_without_asking_is_reported(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        warned = [event for event in await send(executor, "unasked > emptied") if isinstance(event, Failure)]
        assert [("without asking" in event.message, "> emptied" in event.message) for event in warned] == [(True, True)]
        assert not [event for event in await send(executor, "run echo x") if isinstance(event, Failure)]


async def test_a_call_of_a_tool_that_it_lacks_failed_and_did_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "lacks write")
        assert [(event.is_error, "no such tool" in event.text) for event in events if isinstance(event, ToolEnded)] == [
            (True, True)
        ]
        assert not [event for event in events if isinstance(event, Failure)]


async def test_usage_is_measured_against_the_models_own_window(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        used = [event for event in await send(executor, "say hello") if isinstance(event, UsageReport)]
        assert [event.context_limit for event in used] == [128_000]


async def test_a_question_to_the_user_is_shown_and_declined(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "question which colour?")
        assert any(isinstance(event, SystemNote) and "which colour?" in event.text for event in events)
        assert events[-1] == Completion("completed", "nobody answered")


async def test_an_error_completes_the_message_with_its_text(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert (await send(executor, "fail no credit left"))[-1] == Completion("error", "", "no credit left")
        assert (await send(executor, "say again"))[-1] == Completion("completed", "again")


async def test_a_refused_message_completes_with_an_error_without_a_stack_trace(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert await send(executor, "refuse Agent not found") == [Completion("error", "", "Agent not found")]
        assert (await send(executor, "say again"))[-1] == Completion("completed", "again")


async def test_an_error_it_recovers_from_does_not_end_the_message(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert (await send(executor, "overflow got over it"))[-1] == Completion("completed", "got over it")
        events = await send(executor, "retry and there")
        assert any(isinstance(event, SystemNote) and "slow down" in event.text for event in events)
        assert events[-1] == Completion("completed", "and there")


async def test_a_reply_that_was_cut_off_is_reported_as_truncated(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert (await send(executor, "cut off here"))[-1] == Completion("truncated", "off here")


@DIALECTS
async def test_a_cancelled_message_completes_once_and_its_late_events_are_dropped(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OPENCODE", dialect)
    async with conversation(tmp_path) as executor:
        for _ in range(3):
            await executor.send_message("wait")
            await until(executor, Delta)
            await executor.cancel()
            assert await until(executor, Completion) == Completion("cancelled")
            events = await send(executor, "say next")
            assert kinds(events) == ["Delta", "Message", "UsageReport", "Completion"]
            assert events[-1] == Completion("completed", "next")


async def test_a_cancellation_before_the_work_begins_still_stops_it(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        sending = asyncio.ensure_future(executor.send_message("wait"))
        await asyncio.sleep(0)
        await executor.cancel()
        await sending
        assert (await listen(executor))[-1] == Completion("cancelled")


async def test_nothing_is_lost_or_repeated_when_the_stream_drops(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "drop heard lost regained")
        assert [event.text for event in events if isinstance(event, Delta)] == ["heard"]
        assert [event.text for event in events if isinstance(event, Message)] == ["heard lost regained"]
        assert events[-1] == Completion("completed", "heard lost regained")
        assert len([event for event in events if isinstance(event, UsageReport)]) == 1


async def test_a_completion_missed_in_a_gap_is_detected(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "dropend heard and not heard")
        assert [event.text for event in events if isinstance(event, Message)] == ["heard and not heard"]
        assert events[-1] == Completion("completed", "heard and not heard")


async def test_a_permission_request_missed_in_a_gap_is_forwarded(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "dropask echo x")
        assert [event.command for event in events if isinstance(event, Permission)] == ["echo x"]
        assert events[-1] == Completion("completed", "done")


async def test_a_sub_agent_missed_in_a_gap_is_asked_about_too(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        events = await send(executor, "sub true; echo helped")
        assert [event.command for event in events if isinstance(event, Permission)] == ["true; echo helped"]
        assert [event.text for event in events if isinstance(event, ToolEnded)] == ["helped\n", "the helper is done"]
        assert events[-1] == Completion("completed", "done")


async def test_a_slow_reader_gets_the_complete_text_in_the_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        slow, quick = await agent.execute(request(tmp_path)), await agent.execute(request(tmp_path))
        await slow.send_message("flood 5000")
        assert (await send(quick, "say meanwhile"))[-1] == Completion("completed", "meanwhile")
        complete = " ".join(map(str, range(5000)))
        events = await listen(slow)
        assert [event.text for event in events if isinstance(event, Message)] == [complete]
        assert complete.startswith("".join(event.text for event in events if isinstance(event, Delta)))
        assert events[-1] == Completion("completed", complete)


async def test_model_and_instructions_are_sent_with_every_message(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Write short sentences.")
    async with serving(tmp_path) as agent:
        with_model = msgspec.structs.replace(request(tmp_path), model="maker/some/model", instructions="Be kind.")
        executor = await agent.execute(with_model)
        for _ in range(2):
            completion = (await send(executor, "who"))[-1]
            assert isinstance(completion, Completion)
            who, model, system = msgspec.json.decode(completion.text, type=list[str])
            assert (who, model) == ("build", "maker/some/model")
            assert "Be kind." in system
            assert "Write short sentences." in system

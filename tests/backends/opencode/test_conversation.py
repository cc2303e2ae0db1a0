"""What a conversation with OpenCode tells, in both dialects of its server, and when its stream breaks."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from backends.opencode.serving import conversation, kinds, listen, no, request, serving, tell, until
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

DIALECTS = pytest.mark.parametrize("dialect", ["", "old"])
SPENT = UsageReport(20, 10, 4, 0.25)


@DIALECTS
async def test_a_text_is_reported_in_pieces_and_then_whole(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OPENCODE", dialect)
    async with conversation(tmp_path) as executor:
        first, second, whole, spent, completion = await tell(executor, "say hello world")
        assert isinstance(first, Delta)
        assert isinstance(second, Delta)
        assert (first.text, second.text) == ("hello", " world")
        assert whole == Message("hello world", first.message_id)
        assert spent == SPENT
        assert completion == Completion("completed", "hello world")


async def test_what_it_thinks_is_reported_as_such_and_is_no_answer(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "think hard now")
        thoughts = [event.text for event in told if isinstance(event, Delta) and event.thinking]
        assert thoughts == ["hard", " now"]
        assert [event.text for event in told if isinstance(event, Message)] == ["thought"]


async def test_a_call_starts_and_ends_once_and_the_same_id_again_is_another_call(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("contents")
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "look notes")
        assert [event for event in told if isinstance(event, ToolStarted | ToolEnded)] == [
            ToolStarted("call_0", "read", {"filePath": "notes"}),
            ToolEnded("call_0", "contents"),
        ]
        assert [event for event in told if isinstance(event, UsageReport)] == [SPENT, SPENT]


async def test_what_is_said_twice_is_reported_once(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "twice word")
        assert kinds(told) == [
            "Delta",
            "Delta",
            "Message",
            "ToolStarted",
            "ToolEnded",
            "UsageReport",
            "UsageReport",
            "Completion",
        ]
        assert [event.text for event in told if isinstance(event, Message)] == ["word"]


async def test_garbage_is_passed_over(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert (await tell(executor, "garbage and text"))[-1] == Completion("completed", "and text")


@DIALECTS
async def test_a_command_is_asked_for_as_it_runs(dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_OPENCODE", dialect)
    async with conversation(tmp_path) as executor:
        for word in ("run", "early"):  # the request may come before what the call was given
            told = await tell(executor, f"{word} echo one two")
            (asked,) = [event for event in told if isinstance(event, Permission)]
            assert (asked.kind, asked.name, asked.command) == ("exec", "bash", "echo one two")
            assert asked.args == {"command": "echo one two"}
            assert [event.text for event in told if isinstance(event, ToolProgress)] == ["one", " two\n"]
            assert [event.text for event in told if isinstance(event, ToolEnded)] == ["one two\n"]


@DIALECTS
async def test_a_denial_reaches_the_model_and_the_work_goes_on(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OPENCODE", dialect)
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "run touch made", no)
        (ended,) = [event for event in told if isinstance(event, ToolEnded)]
        assert ended.is_error
        assert ("not that" in ended.text) == (not dialect)  # the older way has no place for a word
        assert told[-1] == Completion("completed", "done")
        assert not (tmp_path / "made").exists()


async def test_a_command_outside_is_asked_for_once(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "outside echo x")
        assert [event.command for event in told if isinstance(event, Permission)] == ["echo x"]
        denied = await tell(executor, "outside touch made", no)
        assert len([event for event in denied if isinstance(event, Permission)]) == 1
        assert not (tmp_path / "made").exists()


async def test_what_it_wants_to_do_is_reported_by_its_kind(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        asked: list[Permission] = []
        for text in ("write new.txt", "fetch http://127.0.0.1:9/x", "other their_tool", "loop"):
            asked += [event for event in await tell(executor, text) if isinstance(event, Permission)]
        write, fetch, other, loop = asked
        assert (write.kind, write.path) == ("write", str(tmp_path / "new.txt"))
        assert "+new" in write.details["diff"]
        assert (fetch.kind, fetch.url) == ("fetch", "http://127.0.0.1:9/x")
        assert (other.kind, other.name) == ("tool", "their_tool")
        assert (loop.kind, loop.name) == ("tool", "doom_loop")


async def test_every_file_of_a_patch_is_reported(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "patch one.txt two.txt")
        (asked,) = [event for event in told if isinstance(event, Permission)]
        assert (asked.kind, asked.path) == ("write", str(tmp_path / "one.txt"))
        assert asked.more_paths == (str(tmp_path / "two.txt"),)


async def test_a_request_without_a_call_ends_with_its_answer(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "loop")
        (asked,) = [event for event in told if isinstance(event, Permission)]
        assert ToolEnded(asked.call_id, "allowed") in told


async def test_what_a_helper_does_is_asked_and_told_but_not_what_it_says(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "sub echo helped")
        assert [event.command for event in told if isinstance(event, Permission)] == ["echo helped"]
        assert [event.name for event in told if isinstance(event, ToolStarted)] == ["task", "bash"]
        assert [event.text for event in told if isinstance(event, ToolEnded)] == ["helped\n", "the helper is done"]
        assert [event.text for event in told if isinstance(event, Message)] == ["done"]
        assert len([event for event in told if isinstance(event, UsageReport)]) == 4  # what helpers spend counts
        assert len([event for event in told if isinstance(event, Completion)]) == 1


async def test_what_it_does_without_asking_is_at_least_told(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        warned = [event for event in await tell(executor, "unasked > emptied") if isinstance(event, Failure)]
        assert [("without asking" in event.message, "> emptied" in event.message) for event in warned] == [(True, True)]
        assert not [event for event in await tell(executor, "run echo x") if isinstance(event, Failure)]


async def test_a_question_is_reported_and_turned_down(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "question which colour?")
        assert any(isinstance(event, SystemNote) and "which colour?" in event.text for event in told)
        assert told[-1] == Completion("completed", "nobody answered")


async def test_an_error_ends_the_message_with_its_word(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert (await tell(executor, "fail no credit left"))[-1] == Completion("error", "", "no credit left")
        assert (await tell(executor, "say again"))[-1] == Completion("completed", "again")


async def test_a_message_that_is_not_even_taken_up_ends_with_an_error_without_a_stack(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert await tell(executor, "refuse Agent not found") == [Completion("error", "", "Agent not found")]
        assert (await tell(executor, "say again"))[-1] == Completion("completed", "again")


async def test_an_error_it_gets_over_is_no_end(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert (await tell(executor, "overflow got over it"))[-1] == Completion("completed", "got over it")
        told = await tell(executor, "retry and there")
        assert any(isinstance(event, SystemNote) and "slow down" in event.text for event in told)
        assert told[-1] == Completion("completed", "and there")


async def test_a_reply_that_was_cut_off_is_reported_as_truncated(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        assert (await tell(executor, "cut off here"))[-1] == Completion("truncated", "off here")


@DIALECTS
async def test_a_cancelled_message_completes_once_and_its_late_events_are_not_the_next_ones(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OPENCODE", dialect)
    async with conversation(tmp_path) as executor:
        for _ in range(3):
            await executor.send_message("wait")
            await until(executor, Delta)
            await executor.cancel()
            assert await until(executor, Completion) == Completion("cancelled")
            told = await tell(executor, "say next")
            assert kinds(told) == ["Delta", "Message", "UsageReport", "Completion"]
            assert told[-1] == Completion("completed", "next")


async def test_a_cancel_that_comes_before_the_work_begins_still_stops_it(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        sending = asyncio.ensure_future(executor.send_message("wait"))
        await asyncio.sleep(0)
        await executor.cancel()
        await sending
        assert (await listen(executor))[-1] == Completion("cancelled")


async def test_nothing_is_lost_or_doubled_when_the_stream_drops(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "drop heard lost regained")
        assert [event.text for event in told if isinstance(event, Delta)] == ["heard"]
        assert [event.text for event in told if isinstance(event, Message)] == ["heard lost regained"]
        assert told[-1] == Completion("completed", "heard lost regained")
        assert len([event for event in told if isinstance(event, UsageReport)]) == 1


async def test_an_end_that_nobody_heard_is_found(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "dropend heard and not heard")
        assert [event.text for event in told if isinstance(event, Message)] == ["heard and not heard"]
        assert told[-1] == Completion("completed", "heard and not heard")


async def test_a_request_that_nobody_heard_is_asked(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "dropask echo x")
        assert [event.command for event in told if isinstance(event, Permission)] == ["echo x"]
        assert told[-1] == Completion("completed", "done")


async def test_a_helper_that_nobody_heard_of_is_asked_about_too(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        told = await tell(executor, "sub true; echo helped")
        assert [event.command for event in told if isinstance(event, Permission)] == ["true; echo helped"]
        assert [event.text for event in told if isinstance(event, ToolEnded)] == ["helped\n", "the helper is done"]
        assert told[-1] == Completion("completed", "done")


async def test_a_slow_reader_gets_the_whole_text_in_the_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        slow, quick = await agent.execute(request(tmp_path)), await agent.execute(request(tmp_path))
        await slow.send_message("flood 5000")
        assert (await tell(quick, "say meanwhile"))[-1] == Completion("completed", "meanwhile")
        whole = " ".join(map(str, range(5000)))
        told = await listen(slow)
        assert [event.text for event in told if isinstance(event, Message)] == [whole]
        assert whole.startswith("".join(event.text for event in told if isinstance(event, Delta)))
        assert told[-1] == Completion("completed", whole)


async def test_model_and_instructions_go_with_every_message(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Write short sentences.")
    async with serving(tmp_path) as agent:
        changed = msgspec.structs.replace(request(tmp_path), model="maker/some/model", instructions="Be kind.")
        executor = await agent.execute(changed)
        for _ in range(2):
            completion = (await tell(executor, "who"))[-1]
            assert isinstance(completion, Completion)
            who, model, system = msgspec.json.decode(completion.text, type=list[str])
            assert (who, model) == ("build", "maker/some/model")
            assert "Be kind." in system
            assert "Write short sentences." in system

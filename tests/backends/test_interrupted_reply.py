"""A reply that is stopped while it streams stays in the conversation; older recordings are replayed as they were."""

import asyncio
from pathlib import Path

import pytest

from buddy.backends.native.transcript import CUT_OFF
from buddy.daemon.runtime import unix_ms
from buddy.log.memory import MemoryLog
from buddy.models.contract import AssistantItem, Restart, TextDelta, ThinkingDelta, UserItem
from buddy.protocol.events import AssistantMessage, AssistantToken, RunComplete, ThinkingToken
from buddy.protocol.shapes import BudgetLimits, RunOptions
from tests.backends.wires import invalid_on_any_wire
from tests.harness.models import StepModel, Turn, answer
from tests.harness.runtime import RuntimeClient, checked_host
from tests.replay.recordings import assert_same, recorded, recording_session

SAID = "First, open the lid. Then half a wo"


def half() -> Turn:
    return [TextDelta("First, open the lid. "), TextDelta("Then half a wo"), asyncio.Event()]


async def stop_in_the_middle(client: RuntimeClient, text: str = "explain") -> None:
    run_id = await client.send(text)
    await client.wait_for(AssistantToken)
    await client.api.cancel(client.session_id, run_id)
    assert (await client.wait_for(RunComplete)).outcome == "cancelled"


async def test_the_model_sees_what_it_had_said_when_it_was_stopped(tmp_path: Path) -> None:
    model = StepModel(half(), answer("Then close it."))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await stop_in_the_middle(client)
        await client.send("go on")
        await client.wait_for(RunComplete, lambda done: done.outcome == "success")
    kept = client.bodies(AssistantMessage)[0]
    assert (kept.text, kept.finish, kept.truncated, kept.tool_calls) == (SAID, "interrupted", True, ())
    assert model.received[-1] == [
        UserItem("explain"),
        AssistantItem(f"{SAID}\n\n{CUT_OFF}"),
        UserItem("go on"),
    ]
    assert invalid_on_any_wire(model.received[-1]) is None


async def test_it_is_the_same_after_a_restart(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with checked_host(tmp_path, StepModel(half()), log=log) as host, host.client() as client:
        session_id = await client.start()
        await stop_in_the_middle(client)
    model = StepModel(answer("Then close it."))
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.api.attach(session_id)
        client.session_id = session_id
        await client.send("go on")
        await client.wait_for(RunComplete, lambda done: done.outcome == "success")
    assert model.received[-1][1] == AssistantItem(f"{SAID}\n\n{CUT_OFF}")


async def test_a_time_limit_keeps_what_was_said_too(tmp_path: Path) -> None:
    async with recording_session(tmp_path, half(), answer("closed")) as recording:
        done = await recording.say("explain", options=RunOptions(budget=BudgetLimits(max_seconds=1)))
        assert done.reason == "budget_exceeded"
        assert [kept.finish for kept in recording.client.bodies(AssistantMessage)] == ["interrupted"]
        await recording.say("go on")
        await assert_same(await recording.recording())


async def test_a_void_or_unspoken_reply_leaves_nothing(tmp_path: Path) -> None:
    turns: tuple[Turn, ...] = (
        [TextDelta("wrong"), Restart("cut"), asyncio.Event()],
        [ThinkingDelta("hm "), asyncio.Event()],
        answer("yes"),
    )
    model = StepModel(*turns)
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        for text, kind in (("one", AssistantToken), ("two", ThinkingToken)):
            run_id = await client.send(text)
            await client.wait_for(kind)
            await model.waiting.wait()
            model.waiting.clear()
            await client.api.cancel(client.session_id, run_id)
            await client.wait_for(RunComplete, lambda done, run_id=run_id: done.run_id == run_id)
        await client.send("three")
        await client.wait_for(RunComplete, lambda done: done.outcome == "success")
    assert model.received[-1] == [UserItem("one"), UserItem("two"), UserItem("three")]


@pytest.mark.parametrize("version", [2, 3])
async def test_recordings_of_both_versions_are_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr("buddy.sessions.runs.RECORDING", version)
    async with recording_session(tmp_path, half(), answer("Then close it.")) as recording:
        await stop_in_the_middle(recording.client)
        await recording.say("go on")
        kept = [message.finish for message in recording.client.bodies(AssistantMessage)]
        assert kept == (["stop"] if version == 2 else ["interrupted", "stop"])
        await assert_same(await recorded(recording.host.runtime.log, recording.client.session_id))

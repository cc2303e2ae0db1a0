"""Acceptance checks in a replay: their results come from the recording."""

from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace

from buddy.protocol.shapes import BudgetLimits, Criterion, RunOptions
from buddy.replay.verify import Recording
from tests.harness.models import answer, asks_for, shell
from tests.replay.recordings import assert_same, recording_session


async def test_acceptance_checks_are_replayed_without_being_run(tmp_path: Path) -> None:
    turns = (answer("done"), asks_for(shell("touch there")), answer("now it is"))
    async with recording_session(tmp_path, *turns) as recording:
        accept = [Criterion("there", "seq 1 3000; echo x >> checked; test -e there")]
        await recording.say("make it", accept=accept)
        checks = (tmp_path / "checked").read_text()
        await assert_same(await recording.recording())
    assert (tmp_path / "checked").read_text() == checks


@pytest.mark.parametrize(("version", "exit_code"), [(4, -1), (5, 7)])
async def test_the_results_of_an_earlier_round_are_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, exit_code: int
) -> None:
    monkeypatch.setattr("buddy.sessions.runs.RECORDING", version)
    async with recording_session(tmp_path, answer("done")) as recording:
        accept = [Criterion("never", "exit 7")]
        options = RunOptions(budget=BudgetLimits(max_turns=1))
        complete = await recording.say("make it", accept=accept, options=options)
        assert complete.acceptance is not None
        assert [result.exit_code for result in complete.acceptance.results] == [exit_code]
        await assert_same(await recording.recording())


async def test_the_wording_of_a_used_up_budget_is_not_compared(tmp_path: Path) -> None:
    async with recording_session(tmp_path, asks_for(shell("true"))) as recording:
        complete = await recording.say("go", options=RunOptions(budget=BudgetLimits(max_turns=1)))
        assert complete.summary == "the budget of 1 turn is used up"
        made = await recording.recording()
    older = [
        replace(event, payload=Raw(bytes(event.payload).replace(b"1 turn is", b"1 turns is"))) for event in made.events
    ]
    await assert_same(Recording(tuple(older), made.blobs))

"""SIGKILL while sub-agents are started, work and finish: each is started once, and its parent finds it again."""

import asyncio
import signal
from pathlib import Path

import pytest

from buddy.protocol.events import ChildFinished, ChildStarted, RunComplete, ToolResult
from tests.faults.driver import SESSION
from tests.faults.scenario import Scenario
from tests.harness.scripts import MARK, shell_call

PARTS = ("part one", "part two")
SCRIPT: dict[str, object] = {
    "on": [
        {
            "match": "^handover$",
            "replies": [
                {"calls": [{"name": "delegate", "args": {"task": task}} for task in PARTS]},
                {"text": "Both are back."},
            ],
        },
        {"match": "part one", "replies": [{"calls": [shell_call(MARK)]}, {"text": "one is done"}]},
        {"match": "part two", "replies": [{"text": "two is done"}]},
    ],
    "replies": [],
    "echo": True,
}
POINTS = (
    "claim.after:1",
    "child.created:2",
    "child.recorded:1",
    "child.recorded:2",
    "tool.run.before:3",
    "tool.run.after:1",
)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_parent_killed_anywhere_finds_its_sub_agents_again(tmp_path: Path, point: str) -> None:
    scenario = Scenario(tmp_path / "scenario", SCRIPT)
    killed = scenario.drive("handover", fault=f"{point}:kill")
    assert killed.code == -signal.SIGKILL, killed.err
    last = scenario.drive("handover", "afterwards")
    assert last.code == 0, last.err
    recorded = asyncio.run(scenario.recorded())
    assert asyncio.run(scenario.violations()) == []
    parent = (scenario.folder / SESSION).read_text()
    bodies = [event.body() for event in recorded.log[parent]]
    started = [body.session_id for body in bodies if isinstance(body, ChildStarted)]
    assert len(started) == len(set(started)) == len(PARTS)
    assert recorded.log.keys() == {parent, *started}
    assert [body.outcome for body in bodies if isinstance(body, ChildFinished)] == ["success"] * len(PARTS)
    assert {body.text for body in bodies if isinstance(body, ToolResult)} == {"one is done", "two is done"}
    assert [body.outcome for body in bodies if isinstance(body, RunComplete)] == ["success", "success"]
    assert len(recorded.ledger) <= 1

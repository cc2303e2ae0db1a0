"""SIGKILL around a hook: the session continues, the call is decided by an answer, and the script does not linger."""

import asyncio
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from buddy.protocol.events import HookFinished, RunComplete, ToolResult
from tests.faults.driver import SESSION
from tests.faults.scenario import Scenario
from tests.hooks.hooking import hook, listed, write_hooks
from tests.hooks.test_hostile_hooks import is_running

# The first time it runs for ever, so that a process that dies meanwhile leaves it behind.
STUBBORN = "echo $$ >> pids; test $(wc -l < pids) -gt 1 || exec sleep 600; exit 2"
QUICK = "cat >/dev/null"


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["hook.started:1", "hook.after:2"])
def test_a_process_killed_during_a_hook_leaves_a_sound_session(tmp_path: Path, boundary: str) -> None:
    """Of the write that a hook refuses, there is a refusal; of everything else, its result."""
    with ThreadPoolExecutor(1) as pool:
        recorded, problems = pool.submit(_kill_and_continue, tmp_path / "scenario", boundary).result()
    assert problems == []
    outcomes = [body.outcome for body in recorded if isinstance(body, RunComplete)]
    assert outcomes == ["success"]
    refused = [body for body in recorded if isinstance(body, HookFinished) and body.verdict == "deny"]
    results = [body for body in recorded if isinstance(body, ToolResult) and body.tool_name == "write_file"]
    assert [body.call_id for body in refused] == [body.call_id for body in results]
    assert {body.outcome for body in results} == {"denied"}


def _kill_and_continue(folder: Path, boundary: str) -> tuple[Sequence[object], list[str]]:
    scenario = Scenario(folder)
    others = {"PostToolUse": hook(QUICK), "Stop": hook(QUICK)}
    is_stubborn = boundary.startswith("hook.started")
    events = listed(
        {"PreToolUse": hook(STUBBORN if is_stubborn else "exit 2", "Write"), **({} if is_stubborn else others)}
    )
    write_hooks(folder / ".config" / "buddy" / "hooks.json", events)
    killed = scenario.drive("build", fault=f"{boundary}:kill")
    assert killed.code == -signal.SIGKILL, killed.err
    last = scenario.drive("build")
    assert last.code == 0, last.err
    pids = scenario.workspace / "pids"
    left = [pid for pid in pids.read_text().split() if is_running(pid)] if pids.exists() else []
    recorded = asyncio.run(scenario.recorded())
    bodies = [event.body() for event in recorded.log[(folder / SESSION).read_text()]]
    return bodies, [*asyncio.run(scenario.violations()), *(f"{pid} still runs" for pid in left)]

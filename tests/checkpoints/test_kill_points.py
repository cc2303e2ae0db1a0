"""SIGKILL at every boundary inside a checkpoint and inside a restore: the next process finishes it, to the byte."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from buddy.checkpoints.contract import CallKey
from tests.checkpoints.trees import make_repository, picture
from tests.checkpoints.workspace import Workspace

KEY = CallKey("sess_a", "run", "call")
UNDO = CallKey("sess_a", "", "undo")
SCRIPT = """
import asyncio, sys
from pathlib import Path
from buddy.checkpoints.contract import CallKey
from tests.checkpoints.workspace import Workspace

MESS = "echo more >> tracked; rm gone; mkdir new; head -c 100000 /dev/zero > new/large; chmod 600 mode; mv from to"

async def call(workspace):
    key = CallKey("sess_a", "run", "call")
    await workspace.checkpoints.begin(key, workspace.scope())
    workspace.sh(MESS)
    await workspace.end(key)

async def undo(workspace):
    key, undo = CallKey("sess_a", "run", "call"), CallKey("sess_a", "", "undo")
    found = (await workspace.checkpoints.changes([key.checkpoint]))[key.checkpoint]
    plan = await workspace.checkpoints.plan(workspace.scope(), found.changes, frozenset(), lambda _: None)
    assert not plan.conflicts
    await workspace.checkpoints.record_restore(undo, workspace.scope().root, plan.steps, "{}")
    await workspace.checkpoints.restore(undo.checkpoint, workspace.scope())
    await workspace.checkpoints.report(undo.checkpoint)

async def main():
    async with Workspace(Path(sys.argv[1])) as workspace:
        await (call if sys.argv[2] == "call" else undo)(workspace)

asyncio.run(main())
"""


def run(folder: Path, what: str, **env: str) -> int:
    command = [sys.executable, "-c", SCRIPT, str(folder), what]
    return subprocess.run(command, env={**os.environ, **env}, timeout=60, check=False).returncode


def prepare(folder: Path) -> Workspace:
    workspace = Workspace(folder)
    (workspace.root / "tracked").write_text("tracked\n")
    make_repository(workspace.root)
    for name in ("gone", "mode", "from"):
        (workspace.root / name).write_text(f"{name}\n")
    return workspace


def points_of(folder: Path, what: str) -> list[str]:
    """Every boundary that is reached, in order."""
    listing = folder / "points"
    assert run(folder, what, BUDDY_FAULT_LOG=str(listing)) == 0
    return listing.read_text().splitlines()


def test_a_call_that_is_killed_anywhere_still_leads_back(tmp_path: Path) -> None:
    prepare(tmp_path / "whole")
    points = points_of(tmp_path / "whole", "call")
    assert len(points) >= 4
    for at, point in enumerate(points):
        workspace = prepare(tmp_path / str(at))
        before = picture(workspace.root)
        assert run(tmp_path / str(at), "call", BUDDY_FAULT=f"{point}:kill") == -9
        asyncio.run(_lead_back(tmp_path / str(at)))
        assert picture(workspace.root) == before, point


async def _lead_back(folder: Path) -> None:
    async with Workspace(folder) as workspace:
        if await workspace.checkpoints.end(KEY, workspace.scope()) is None:
            return  # it was not begun, so the call did not start
        found = (await workspace.checkpoints.changes([KEY.checkpoint])).get(KEY.checkpoint)
        _, conflicts = await workspace.undo(found.changes if found else [])
        assert conflicts == []


@pytest.mark.slow
def test_a_restore_that_is_killed_anywhere_is_finished_and_can_be_taken_back(tmp_path: Path) -> None:
    whole = prepare(tmp_path / "whole")
    before = picture(whole.root)
    assert run(tmp_path / "whole", "call") == 0
    after = picture(whole.root)
    shutil.copytree(tmp_path / "whole", tmp_path / "called", symlinks=True)
    points = [point for point in points_of(tmp_path / "whole", "undo") if point.startswith("restore.")]
    assert len(points) >= 10
    assert picture(whole.root) == before
    for point in points:
        # In the same place each time: a checkpoint is one of a place.
        shutil.rmtree(tmp_path / "whole")
        shutil.copytree(tmp_path / "called", tmp_path / "whole", symlinks=True)
        assert run(tmp_path / "whole", "undo", BUDDY_FAULT=f"{point}:kill") == -9
        asyncio.run(_finish(tmp_path / "whole", before, after, point))


async def _finish(folder: Path, before: object, after: object, point: str) -> None:
    async with Workspace(folder) as workspace:
        assert [row[0] for row in await workspace.checkpoints.unfinished()] == [UNDO.checkpoint]
        done, problems = await workspace.checkpoints.restore(UNDO.checkpoint, workspace.scope())
        assert (problems, picture(workspace.root)) == ([], before), point
        assert not list(workspace.root.rglob(".buddy-*")), point
        await workspace.checkpoints.report(UNDO.checkpoint)
        _, conflicts = await workspace.undo(done)
        assert (conflicts, picture(workspace.root)) == ([], after), point

"""What the look before a call did not reach may have been there already: nobody's change, and no undo removes it."""

import os
from pathlib import Path

import pytest

from buddy.checkpoints.limits import HEAVY, MAX_HEAVY, CheckpointLimits
from tests.checkpoints.trees import picture
from tests.checkpoints.workspace import Workspace


def deep(root: Path) -> None:
    for name in "abcd":
        (root / name).write_text(f"{name}\n")
    (root / "inner").mkdir()
    (root / "inner" / "mine").write_text("mine\n")


async def test_files_beyond_the_limit_are_nobodys(tmp_path: Path) -> None:
    async with Workspace(tmp_path, CheckpointLimits(max_files=6)) as workspace:
        deep(workspace.root)
        for name in "xyz":
            (workspace.root / name).touch()
        before = picture(workspace.root)
        ended = await workspace.call("rm a b x y z; echo more > inner/mine; mkdir new; echo new > new/file")
        assert [one.path for one in ended.changes] == ["a", "b", "new", "new/file", "x", "y", "z"]
        (workspace.root / "inner" / "mine").write_text("mine\n")
        _, conflicts = await workspace.undo(ended.changes)
        assert (conflicts, picture(workspace.root)) == ([], before)


async def test_a_scan_that_ran_out_of_time_claims_nothing_later(tmp_path: Path) -> None:
    async with Workspace(tmp_path, CheckpointLimits(seconds=0.0)) as workspace:
        deep(workspace.root)
        before = picture(workspace.root)
        ended = await workspace.call("echo new > new")
        await workspace.undo(ended.changes)
        assert ([one.path for one in ended.changes], picture(workspace.root)) == (["new"], before)


async def test_the_next_process_claims_nothing_either(tmp_path: Path) -> None:
    async with Workspace(tmp_path, CheckpointLimits(seconds=0.0)) as workspace:
        deep(workspace.root)
        before = picture(workspace.root)
        key, _ = await workspace.begin()
    async with Workspace(tmp_path) as workspace:
        ended = await workspace.end(key)
        await workspace.undo(ended.changes)
        assert (ended.changes, picture(workspace.root)) == ((), before)


async def test_a_heavy_directory_that_becomes_small_is_nobodys(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        heavy = workspace.root / min(HEAVY)
        heavy.mkdir()
        for number in range(MAX_HEAVY + 1):
            (heavy / str(number)).touch()
        ended = await workspace.call(f"rm {heavy.name}/1*; echo new > new")
        await workspace.undo(ended.changes)
        assert [one.path for one in ended.changes] == ["new"]
        assert (heavy / "2").exists()


@pytest.mark.parametrize("mode", [0o000, 0o444], ids=["unreadable", "names-only"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["same-process", "next-process"])
@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
async def test_a_directory_that_becomes_readable_is_nobodys(tmp_path: Path, mode: int, is_restarted: bool) -> None:
    """Also what was known of it: it may have changed while it could not be read."""
    async with Workspace(tmp_path) as workspace:
        deep(workspace.root)
        await workspace.call("true")
        (workspace.root / "inner" / "mine").write_text("changed by the user\n")
        (workspace.root / "inner" / "other").write_text("the user's\n")
        (workspace.root / "inner").chmod(mode)
        key, _ = await workspace.begin()
        (workspace.root / "inner").chmod(0o755)
        ended = None if is_restarted else await workspace.end(key)
    if ended is None:
        async with Workspace(tmp_path) as workspace:
            ended = await workspace.end(key)
    assert [one.path for one in ended.changes] == ["inner"]


async def test_a_file_whose_content_is_not_kept_is_reported_once(tmp_path: Path) -> None:
    """Also if it is looked at again so soon that its times say little."""
    async with Workspace(tmp_path, CheckpointLimits(max_total=0)) as workspace:
        first = await workspace.call("echo one > text")
        second = await workspace.call("true")
        assert ([one.path for one in first.changes], second.changes) == (["text"], ())

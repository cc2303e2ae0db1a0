"""A restore while somebody works in the same place: what appears meanwhile is never overwritten."""

import os
from pathlib import Path

import pytest

from buddy import faults
from tests.checkpoints.workspace import Workspace


async def test_a_save_during_the_restore_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Workspace(tmp_path) as workspace:
        for name in ("back", "kept"):
            (workspace.root / name).write_text(f"{name}\n")
        ended = await workspace.call("rm back; echo changed > kept; echo new > new; echo new > newer")

        def save(point: str) -> None:
            if point == "restore.step":  # the first step removes a new file
                for name in ("back", "kept", "new", "newer"):
                    if name in ("back", "kept") or (workspace.root / name).exists():
                        (workspace.root / name).write_text("saved by the user\n")

        monkeypatch.setattr(faults, "reached", save)
        _, conflicts = await workspace.undo(ended.changes)
        assert sorted(one.path for one in conflicts) == ["back", "kept", "newer"]
        assert {one.why for one in conflicts} == {"it was changed since"}
        for name in ("back", "kept", "newer"):
            assert (workspace.root / name).read_text() == "saved by the user\n"


async def test_a_pipe_in_the_place_of_a_file_is_a_conflict(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        (workspace.root / "text").write_text("text\n")
        ended = await workspace.call("rm text")
        os.mkfifo(workspace.root / "text")
        done, conflicts = await workspace.undo(ended.changes)
        assert (done, [one.path for one in conflicts]) == ([], ["text"])
        assert (workspace.root / "text").is_fifo()


async def test_what_a_look_at_conflicts_finds_belongs_to_the_open_call(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        earlier = await workspace.call("echo one > text")
        key, _ = await workspace.begin("sess_b")
        (workspace.root / "text").write_text("two\n")
        await workspace.checkpoints.plan(workspace.scope(), earlier.changes, frozenset(), lambda _: None)
        ended = await workspace.end(key)
        assert [(one.path, one.word) for one in ended.changes] == [("text", "modified")]

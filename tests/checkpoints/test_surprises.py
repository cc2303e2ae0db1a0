"""Workspaces with what nobody expects: the run goes on, and what is not covered is said."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from buddy.checkpoints.checkpoints import CheckpointError
from buddy.checkpoints.contract import CallKey, Scope
from buddy.checkpoints.entries import entry_of
from tests.checkpoints.trees import make_repository
from tests.checkpoints.workspace import Workspace


@pytest.mark.parametrize("error", [OverflowError("too large"), ValueError("null byte"), KeyError("x"), RuntimeError()])
async def test_any_failure_of_a_snapshot_is_one_of_the_store(tmp_path: Path, error: Exception) -> None:
    def fail(_: str) -> bool:
        raise error

    async with Workspace(tmp_path) as workspace:
        (workspace.root / "text").write_text("one\n")
        with pytest.raises(CheckpointError, match="cannot be used"):
            await workspace.checkpoints.begin(CallKey("s", "r", "c"), Scope(workspace.scope().root, is_closed=fail))
        ended = await workspace.call("echo two > text")
        assert [one.path for one in ended.changes] == ["text"]


async def test_a_store_that_is_closed_says_so(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        await workspace.call("true")
    with pytest.raises(CheckpointError, match="is closed"):
        await workspace.begin()


def test_an_inode_that_the_store_cannot_hold_is_shortened(tmp_path: Path) -> None:
    info = tmp_path.stat()
    values: dict[str, Any] = {name: getattr(info, name) for name in dir(info) if name.startswith("st_")}
    large = cast("os.stat_result", SimpleNamespace(**{**values, "st_ino": (1 << 64) - 5}))
    entry = entry_of("file", large, b"")
    assert entry.inode < 1 << 63
    assert entry.has_stat(large)


async def test_a_pipe_as_the_list_of_alternates_is_not_waited_for(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        (workspace.root / "text").write_text("one\n")
        make_repository(workspace.root)
        pipe = workspace.root / ".git" / "objects" / "info" / "alternates"
        pipe.parent.mkdir(exist_ok=True)
        os.mkfifo(pipe)
        try:
            await asyncio.wait_for(workspace.begin(), 20)
        finally:
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # a reader that waits there goes on


async def test_private_directories_count_also_for_a_workspace_that_is_known(tmp_path: Path) -> None:
    """It was loaded for something else first, which says nothing of them."""
    async with Workspace(tmp_path) as workspace:
        root = workspace.scope().root
        (workspace.root / "own").mkdir()
        (workspace.root / "own" / "old").write_text("old\n")
        await workspace.call("true")
        scope = Scope(root, private=(f"{root}/own",), is_closed=lambda path: path.endswith("/closed"))
        key = CallKey("sess_a", "run_a", "call")
        await workspace.checkpoints.begin(key, scope)
        (workspace.root / "own" / "new").write_text("new\n")
        (workspace.root / "closed").write_text("closed\n")
        ended = await workspace.checkpoints.end(key, scope)
        assert ended is not None
        assert [(one.path, one.after and one.after.is_known) for one in ended.changes] == [("closed", False)]

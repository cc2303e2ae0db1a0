"""What checkpoints cost: contents that stay in the repository, packs, old checkpoints, and calls that write much."""

import asyncio
import contextlib
import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from buddy.checkpoints.contract import CallKey, Scope
from buddy.checkpoints.database import is_disk_full
from buddy.checkpoints.limits import MIB, CheckpointLimits
from buddy.checkpoints.listing import describe
from buddy.checkpoints.reading import SETTLED_NS
from tests.checkpoints.trees import git, make_repository, picture
from tests.checkpoints.workspace import Workspace

FILES = 40


def repository_with(root: Path, size: int = 10) -> None:
    """Packed, as after a clone; contents that do not shrink."""
    for number in range(FILES):
        (root / f"f{number}").write_bytes(os.urandom(size))
    make_repository(root)
    git(root, "gc", "-q")


def stored(workspace: Workspace) -> int:
    """How many contents the store has."""
    with contextlib.closing(sqlite3.connect(workspace.state / "checkpoints" / "checkpoints.db")) as db, db:
        [count] = db.execute("SELECT count(*) FROM contents").fetchone()
    db.close()
    return count


@pytest.mark.parametrize("is_edited_first", [False, True], ids=["shell-first", "edit-first"])
async def test_the_files_of_a_repository_are_not_copied(tmp_path: Path, is_edited_first: bool) -> None:
    async with Workspace(tmp_path) as workspace:
        repository_with(workspace.root)
        before = picture(workspace.root)
        root = workspace.scope().root
        if is_edited_first:
            key, scope = CallKey("sess_a", "run", "edit"), Scope(root, ("f0",))
            await workspace.checkpoints.begin(key, scope)
            await workspace.checkpoints.end(key, scope)
        ended = await workspace.call("echo changed > f1; chmod 600 f2; rm f3")
        assert stored(workspace) <= 5
        _, conflicts = await workspace.undo(ended.changes)
        assert (conflicts, picture(workspace.root)) == ([], before)


async def test_a_branch_that_the_user_checked_out_is_not_copied(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        (workspace.root / "text").write_text("text\n")
        make_repository(workspace.root)
        await workspace.call("true")
        repository_with(workspace.root)
        before = picture(workspace.root)
        ended = await workspace.call("rm f*")
        assert len(ended.changes) == FILES
        _, conflicts = await workspace.undo(ended.changes)
        assert (conflicts, picture(workspace.root)) == ([], before)


async def test_what_a_call_creates_is_in_our_own_store(tmp_path: Path) -> None:
    """Even if git has it: a redo must not depend on the repository."""
    async with Workspace(tmp_path) as workspace:
        repository_with(workspace.root)
        shutil.move(workspace.root / ".git", tmp_path / "aside")
        for path in workspace.root.iterdir():
            path.unlink()
        await workspace.call("true")
        shutil.move(tmp_path / "aside", workspace.root / ".git")
        ended = await workspace.call("git checkout -q .")
        after = picture(workspace.root)
        done, _ = await workspace.undo(ended.changes)
        shutil.rmtree(workspace.root / ".git")
        _, conflicts = await workspace.undo(done)
        assert (conflicts, picture(workspace.root)) == ([], after)


async def test_packs_that_only_we_have_count_against_the_limit(tmp_path: Path) -> None:
    limits = CheckpointLimits(max_total=4 * MIB)
    async with Workspace(tmp_path, limits) as workspace:
        repository_with(workspace.root, 5 * MIB // FILES)
        await workspace.call("true")
        linked = await workspace.checkpoints.usage()
        assert (linked.pinned, linked.size < MIB) == (0, True)
        shutil.rmtree(workspace.root / ".git")
        assert (await workspace.checkpoints.usage()).pinned > 4 * MIB
        await workspace.checkpoints.prune()
        left = await workspace.checkpoints.usage()
        assert (left.pinned, left.size <= limits.max_total) == (0, True)
        for path in workspace.root.glob("f[0-9]"):
            path.unlink()
        before = picture(workspace.root)
        ended = await workspace.call("rm f10")  # looked at from the beginning: it is in our own store now
        _, conflicts = await workspace.undo(ended.changes)
        assert (conflicts, picture(workspace.root)) == ([], before)


async def test_a_call_that_writes_much_is_stored_in_slices(tmp_path: Path) -> None:
    """With no time at all for each look, it is all there in the end, and nothing is in doubt."""
    async with Workspace(tmp_path, CheckpointLimits(seconds=0.0)) as workspace:
        before = picture(workspace.root)
        ended = await workspace.call("for n in $(seq 30); do echo $n > $n; done")
        assert all(change.after and change.after.is_known for change in ended.changes)
        after = picture(workspace.root)
        done, conflicts = await workspace.undo(ended.changes)
        assert (conflicts, picture(workspace.root)) == ([], before)
        _, conflicts = await workspace.undo(done)
        assert (conflicts, picture(workspace.root)) == ([], after)


async def test_what_was_not_stored_in_time_is_stored_by_the_next_process(tmp_path: Path) -> None:
    async with Workspace(tmp_path, CheckpointLimits(seconds=0.0)) as workspace:
        (workspace.root / "large").write_bytes(bytes(2 * MIB))
        (workspace.root / "text").write_text("text\n")
        await asyncio.sleep(2 * SETTLED_NS / 1e9)
        await workspace.checkpoints.look(workspace.scope())
    async with Workspace(tmp_path, CheckpointLimits(max_file=MIB)) as workspace:
        _, coverage = await workspace.begin()
        assert "1 file that is too large" in describe(coverage)
        for _ in range(200):
            if not (await workspace.checkpoints.coverage(workspace.scope().root)).pending:
                break
        ended = await workspace.call("echo changed > text")
        await workspace.undo(ended.changes)
        assert (workspace.root / "text").read_text() == "text\n"


async def test_old_checkpoints_go_once_a_day_without_a_restart(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        old = await workspace.call("echo one > text")
        database = workspace.state / "checkpoints" / "checkpoints.db"
        with contextlib.closing(sqlite3.connect(database)) as db, db:
            db.execute("UPDATE checkpoints SET created = 1")
            db.execute("UPDATE counters SET value = 1 WHERE name = 'pruned'")
        db.close()
        new = await workspace.call("echo two > text")
        kept = await workspace.checkpoints.changes([old.checkpoint, new.checkpoint])
        assert list(kept) == [new.checkpoint]


def test_a_full_disk_is_distinguished_from_other_failures(tmp_path: Path) -> None:
    small = sqlite3.connect(tmp_path / "small.db")
    small.execute("PRAGMA max_page_count = 2")
    small.execute("CREATE TABLE grown (data BLOB)")
    with pytest.raises(sqlite3.OperationalError) as failed:
        small.execute("INSERT INTO grown VALUES (zeroblob(100000))")
    small.close()
    assert is_disk_full(failed.value, tmp_path)
    assert is_disk_full(OSError(errno.ENOSPC, "No space left on device"), tmp_path)
    assert not is_disk_full(PermissionError(errno.EACCES, "Permission denied"), tmp_path)
    assert not is_disk_full(sqlite3.OperationalError("no such table"), tmp_path)

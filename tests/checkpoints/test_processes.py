"""Several processes use one store: each knows what the others have under way, and a dead one does not count."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from buddy.checkpoints.contract import CallKey, Ended, Scope
from buddy.checkpoints.limits import MIB, CheckpointLimits
from buddy.sessions.file_history import Step, combine
from tests.checkpoints.trees import picture
from tests.checkpoints.workspace import Workspace

DIES = """
import asyncio, os, sys
from pathlib import Path
from buddy.checkpoints.checkpoints import Checkpoints
from buddy.checkpoints.contract import Scope
from buddy.checkpoints.contract import CallKey

async def main(state, root):
    checkpoints = Checkpoints(Path(state))
    await checkpoints.begin(CallKey("sess_dead", "run", "shell"), Scope(root))
    await checkpoints.begin(CallKey("sess_dead", "run", "edit"), Scope(root, ("edited",)))
    print("begun", flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""
SHELL, EDIT = CallKey("sess_dead", "run", "shell"), CallKey("sess_dead", "run", "edit")


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncGenerator[tuple[Workspace, Workspace]]:
    """Two stores in the same place: locks and connections are as separate as those of two processes."""
    async with Workspace(tmp_path) as one, Workspace(tmp_path) as other:
        yield one, other


def paths(ended: Ended) -> list[str]:
    return [change.path for change in ended.changes]


async def test_sessions_of_two_processes_are_distinguished(pair: tuple[Workspace, Workspace]) -> None:
    one, other = pair
    first, _ = await one.begin("sess_a")
    (one.root / "a").write_text("a\n")
    second, _ = await other.begin("sess_b")
    (one.root / "b").write_text("b\n")
    ended_second = await other.end(second)
    (one.root / "c").write_text("c\n")
    ended_first = await one.end(first)
    assert (paths(ended_second), paths(ended_first)) == (["b"], ["a", "b", "c"])
    assert (ended_first.overlaps, ended_second.overlaps) == (("sess_b",), ("sess_a",))


async def test_what_the_user_did_between_two_processes_is_nobodys(pair: tuple[Workspace, Workspace]) -> None:
    """The second process knew an older state; a look of its own must not give that to the first one's call."""
    one, other = pair
    (one.root / "text").write_text("old\n")
    await other.call("true")
    (one.root / "text").write_text("the user's\n")
    key, _ = await one.begin()
    await other.checkpoints.look(other.scope())
    (one.root / "text").write_text("the call's\n")
    await other.checkpoints.look(other.scope())
    ended = await one.end(key)
    await one.undo(ended.changes)
    assert (one.root / "text").read_text() == "the user's\n"


async def test_a_nested_workspace_overlaps(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as outer:
        inner = Scope(f"{outer.scope().root}/inner")
        (outer.root / "inner").mkdir()
        key, _ = await outer.begin("sess_a")
        await outer.checkpoints.begin(CallKey("sess_b", "run", "call"), inner)
        (outer.root / "inner" / "text").write_text("x\n")
        ended = await outer.checkpoints.end(CallKey("sess_b", "run", "call"), inner)
        assert ended is not None
        assert ended.overlaps == ("sess_a",)
        assert (await outer.end(key)).overlaps == ("sess_b",)


async def test_what_a_tool_writes_by_name_is_no_other_sessions(pair: tuple[Workspace, Workspace]) -> None:
    one, other = pair
    first, _ = await one.begin("sess_a")
    edit, scope = CallKey("sess_b", "run", "edit"), Scope(one.scope().root, ("named",))
    await other.checkpoints.begin(edit, scope)
    (one.root / "named").write_text("b\n")
    (one.root / "other").write_text("a\n")
    ended = await other.checkpoints.end(edit, scope)
    assert ended is not None
    assert (paths(ended), ended.overlaps) == (["named"], ())
    assert paths(await one.end(first)) == ["other"]


async def test_an_edit_is_kept_also_if_another_session_sees_it_first(pair: tuple[Workspace, Workspace]) -> None:
    one, other = pair
    edit, scope = CallKey("sess_b", "run", "edit"), Scope(one.scope().root, ("named",))
    await one.checkpoints.begin(edit, scope)
    (one.root / "named").write_text("b\n")
    await other.checkpoints.look(other.scope())
    ended = await one.checkpoints.end(edit, scope)
    assert ended is not None
    assert paths(ended) == ["named"]


async def test_a_session_has_what_its_sub_agents_did_and_no_overlap(pair: tuple[Workspace, Workspace]) -> None:
    one, other = pair
    parent, _ = await one.begin("sess_parent")
    root = one.scope().root
    child = Scope(root, ("named",), "sess_parent")
    await other.checkpoints.begin(CallKey("sess_child", "run", "edit"), child)
    (one.root / "named").write_text("x\n")
    await other.checkpoints.end(CallKey("sess_child", "run", "edit"), child)
    shell = Scope(root, None, "sess_parent")
    await other.checkpoints.begin(CallKey("sess_child", "run", "shell"), shell)
    (one.root / "made").write_text("x\n")
    of_child = await other.checkpoints.end(CallKey("sess_child", "run", "shell"), shell)
    ended = await one.end(parent)
    assert of_child is not None
    assert (paths(ended), paths(of_child)) == (["made", "named"], ["made"])
    assert (ended.overlaps, of_child.overlaps) == ((), ())


async def test_a_dead_process_gets_what_the_next_look_finds_and_no_more(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        command = (sys.executable, "-c", DIES, str(workspace.state), workspace.scope().root)
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            await asyncio.wait_for(process.stdout.readline(), 30)
            (workspace.root / "edited").write_text("edited\n")
            (workspace.root / "made").write_text("made\n")
            alive, _ = await workspace.begin("sess_alive")
            assert (await workspace.end(alive)).overlaps == ("sess_dead",)
        finally:
            process.kill()
            await process.wait()
        key, _ = await workspace.begin("sess_alive")
        (workspace.root / "later").write_text("later\n")
        ended = await workspace.end(key)
        assert (paths(ended), ended.overlaps) == (["later"], ())
        shell = await workspace.checkpoints.end(SHELL, workspace.scope())
        edit = await workspace.checkpoints.end(EDIT, workspace.scope())
        assert shell is not None
        assert edit is not None
        assert (shell.is_recovered, paths(shell), paths(edit)) == (True, ["edited", "made"], ["edited"])


async def test_the_limit_is_one_for_all_processes(tmp_path: Path) -> None:
    limits = CheckpointLimits(max_total=4 * MIB)
    async with Workspace(tmp_path, limits) as one, Workspace(tmp_path, limits) as other:
        for number in range(8):
            await (one, other)[number % 2].call(f"head -c {MIB} /dev/urandom > data{number % 2}")
        assert (await one.checkpoints.usage()).size <= limits.max_total
        stored = sum(path.stat().st_size for path in one.state.rglob("objects/*/*"))
        assert stored <= limits.max_total


async def test_a_call_that_begins_again_keeps_what_it_did_before(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        (workspace.root / "text").write_text("old\n")
        before = picture(workspace.root)
        key = CallKey("sess_a", "run", "call")
        for number in range(2):
            await workspace.checkpoints.begin(key, workspace.scope())
            (workspace.root / f"new{number}").write_text("new\n")
            (workspace.root / "text").write_text(f"{number}\n")
            await workspace.end(key)
        recorded = (await workspace.checkpoints.changes([key.checkpoint]))[key.checkpoint]
        _, conflicts = await workspace.undo(recorded.changes)
        assert (conflicts, picture(workspace.root)) == ([], before)


async def test_a_store_of_the_first_version_is_upgraded(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        ended = await workspace.call("echo one > text")
    database = workspace.state / "checkpoints" / "checkpoints.db"
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        db.executescript(
            "DROP TABLE counters; DROP TABLE overlaps; DROP INDEX open_checkpoints;"
            "ALTER TABLE roots DROP COLUMN version; ALTER TABLE roots DROP COLUMN looked;"
            "ALTER TABLE checkpoints DROP COLUMN parent; ALTER TABLE checkpoints DROP COLUMN holder;"
            "ALTER TABLE checkpoints DROP COLUMN began; ALTER TABLE checkpoints DROP COLUMN ended;"
            "PRAGMA user_version = 1"
        )
    db.close()
    async with Workspace(tmp_path) as workspace:
        recorded = (await workspace.checkpoints.changes([ended.checkpoint]))[ended.checkpoint]
        assert [change.path for change in recorded.changes] == ["text"]
        await workspace.undo(recorded.changes)
        assert not (workspace.root / "text").exists()


async def test_calls_of_a_session_at_the_same_time_are_no_conflict(tmp_path: Path) -> None:
    """As two sub-agents are: both change a file, and nobody else did in between."""
    async with Workspace(tmp_path) as workspace:
        (workspace.root / "text").write_text("old\n")
        before = picture(workspace.root)
        first, _ = await workspace.begin()
        (workspace.root / "text").write_text("first\n")
        second, _ = await workspace.begin()
        (workspace.root / "text").write_text("second\n")
        await workspace.end(second)
        (workspace.root / "text").write_text("third\n")
        await workspace.end(first)
        steps = [Step(key.checkpoint, seq) for seq, key in enumerate((second, first), 1)]
        kept = await workspace.checkpoints.changes([step.checkpoint_id for step in steps])
        found = combine(steps, kept)
        assert found.mixed == frozenset()
        _, conflicts = await workspace.undo(found.changes)
        assert (conflicts, picture(workspace.root)) == ([], before)


async def test_a_change_between_two_calls_is_still_a_conflict(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        first = await workspace.call("echo one > text")
        (workspace.root / "text").write_text("the user's\n")
        second = await workspace.call("echo two > text")
        steps = [Step(ended.checkpoint, seq) for seq, ended in enumerate((first, second), 1)]
        kept = await workspace.checkpoints.changes([step.checkpoint_id for step in steps])
        assert combine(steps, kept).mixed == {"text"}


async def test_a_call_that_outlives_its_process_keeps_its_checkpoint(tmp_path: Path) -> None:
    """Its command goes on in a pane; others look at the workspace before it ends."""
    async with Workspace(tmp_path) as workspace:
        key, _ = await workspace.begin()
        (workspace.root / "early").write_text("early\n")
    async with Workspace(tmp_path) as workspace:
        await workspace.checkpoints.adopt(key)
        await workspace.checkpoints.look(workspace.scope())
        (workspace.root / "late").write_text("late\n")
        ended = await workspace.end(key)
        assert (ended.is_recovered, paths(ended)) == (True, ["early", "late"])

"""A restore while somebody works in the same place: what appears meanwhile is never overwritten."""

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from buddy import faults
from buddy.checkpoints.entries import Change
from buddy.checkpoints.reading import Folder
from tests.checkpoints.trees import picture
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


async def test_a_mode_is_restored_without_writing_the_file(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        target = workspace.root / "text"
        target.write_text("text\n")
        (workspace.root / "second name").hardlink_to(target)
        before, shown = target.stat(), picture(workspace.root)
        ended = await workspace.call("chmod 751 text")
        done, conflicts = await workspace.undo(ended.changes)
        after = target.stat()
        assert (conflicts, picture(workspace.root)) == ([], shown)
        assert (after.st_ino, after.st_mtime_ns, after.st_nlink) == (before.st_ino, before.st_mtime_ns, 2)
        await workspace.undo(done)
        assert stat.S_IMODE(target.stat().st_mode) == 0o751


async def test_a_name_that_differs_in_case_alone_is_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where case does not count, opening `text` finds `TEXT`; it must not be taken for what an undo should create."""
    exact = Folder.parent_of

    @contextmanager
    def parent_of(self: Folder, path: str) -> Generator[tuple[int, str]]:
        with exact(self, path) as (directory, name):
            names = os.listdir(directory)  # noqa: PTH208 - a descriptor
            alike = [one for one in names if one.casefold() == name.casefold()]
            yield directory, alike[0] if alike else name

    monkeypatch.setattr(Folder, "parent_of", parent_of)
    async with Workspace(tmp_path) as workspace:
        (workspace.root / "text").write_text("text\n")
        before = picture(workspace.root)
        ended = await workspace.call("mv text TEXT")
        after = picture(workspace.root)
        assert [(one.path, one.word) for one in ended.changes] == [("TEXT", "added"), ("text", "deleted")]
        done, conflicts = await workspace.undo(ended.changes)
        assert (conflicts, picture(workspace.root)) == ([], before)
        _, conflicts = await workspace.undo(done)
        assert (conflicts, picture(workspace.root)) == ([], after)


async def test_both_names_of_a_file_are_restored(tmp_path: Path) -> None:
    """Restoring one changes the times of the other."""
    async with Workspace(tmp_path) as workspace:
        (workspace.root / "text").write_text("text\n")
        (workspace.root / "second name").hardlink_to(workspace.root / "text")
        before = picture(workspace.root)
        ended = await workspace.call("echo changed > text")
        assert [one.path for one in ended.changes] == ["second name", "text"]
        _, conflicts = await workspace.undo(ended.changes)
        assert (conflicts, picture(workspace.root)) == ([], before)


async def test_what_was_moved_stays_if_its_old_place_is_taken(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        (workspace.root / "text").write_text("precious\n")
        ended = await workspace.call("mv text moved; echo new > new")
        (workspace.root / "text").write_text("the user's\n")
        _, conflicts = await workspace.undo(ended.changes)
        assert [(one.path, one.why) for one in conflicts] == [
            ("text", "it was changed since"),
            ("moved", "it was moved here, and its old place is not restored"),
        ]
        assert (workspace.root / "moved").read_text() == "precious\n"
        assert not (workspace.root / "new").exists()
        _, conflicts = await workspace.undo(ended.changes, "text")
        assert (conflicts, (workspace.root / "text").read_text()) == ([], "precious\n")
        assert not (workspace.root / "moved").exists()


MIXED = (
    "rm -r inner && echo now a file > inner; rm text && mkdir text && echo in > text/in; chmod 500 closed; "
    "rm link && mkdir link; mkdir -p new/deep && echo made > new/deep/file; rm -r gone; echo more >> kept"
)


class Killed(BaseException):
    """What a signal would have done."""


async def test_a_restore_that_ends_after_any_step_is_finished_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a directory takes the place of a file, or changes its mode: that takes several steps."""
    async with Workspace(tmp_path) as workspace:
        workspace.sh(
            "umask 022; mkdir -p inner/deep gone/empty closed && echo one > inner/one && echo two > inner/deep/two && "
            "echo text > text && echo in > closed/in && ln -s text link && echo kept > kept"
        )
        first = picture(workspace.root)
        ended = await workspace.call(f"umask 022; {MIXED}")
        second = picture(workspace.root)
        undo = ended.changes
        redo = [Change(change.path, change.after, change.before) for change in undo]
        killed = 0
        for step in range(1, 100):
            left = iter(range(step))

            def count(point: str, left: Iterator[int] = left) -> None:
                if point in ("restore.step", "restore.written") and next(left, None) is None:
                    raise Killed

            changes, wanted = (undo, first) if step % 2 else (redo, second)
            plan = await workspace.checkpoints.plan(workspace.scope(), changes, frozenset(), lambda _: None)
            assert plan.conflicts == ()
            monkeypatch.setattr(faults, "reached", count)
            try:
                await workspace.carry_out(plan)
            except Killed:
                killed += 1
            monkeypatch.undo()
            for checkpoint, _, _ in await workspace.checkpoints.unfinished():
                _, conflicts = await workspace.checkpoints.restore(checkpoint, workspace.scope())
                assert conflicts == []
                await workspace.checkpoints.report(checkpoint)
            assert picture(workspace.root) == wanted, step
        assert killed > 20

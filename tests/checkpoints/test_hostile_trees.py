"""Trees that are not a handful of text files: each is undone to the byte, and what cannot be is reported."""

import asyncio
import contextlib
import os
import socket
import sqlite3
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from buddy.checkpoints.checkpoints import CheckpointError
from buddy.checkpoints.limits import HEAVY, MAX_HEAVY, MIB, CheckpointLimits
from buddy.checkpoints.listing import describe
from buddy.checkpoints.reading import SETTLED_NS
from buddy.checkpoints.store import Store
from tests.checkpoints.trees import git, make_repository, picture, repository_state
from tests.checkpoints.workspace import Workspace


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncGenerator[Workspace]:
    async with Workspace(tmp_path) as workspace:
        yield workspace


def crlf(root: Path) -> None:
    (root / ".gitattributes").write_text("* text=auto eol=crlf\n")
    (root / "text").write_bytes(b"one\r\ntwo\r\n")
    make_repository(root)


def filtered(root: Path) -> None:
    (root / "text").write_bytes(b"as it is\n")
    git(root, "init", "-q")
    git(root, "config", "filter.rot.clean", "tr a-z b-za")
    (root / ".gitattributes").write_text("text filter=rot\n")
    make_repository(root)


def nested(root: Path) -> None:
    (root / "text").write_text("outer\n")
    (root / "inner").mkdir()
    (root / "inner" / "text").write_text("inner\n")
    make_repository(root / "inner")
    make_repository(root)


def submodule(root: Path) -> None:
    (root.parent / "other").mkdir()
    (root.parent / "other" / "text").write_text("module\n")
    make_repository(root.parent / "other")
    (root / "text").write_text("outer\n")
    git(root, "init", "-q")
    git(root, "submodule", "add", "-q", str(root.parent / "other"), "module")
    make_repository(root)


def linked_worktree(root: Path) -> None:
    main = root.parent / "main"
    main.mkdir()
    (main / "text").write_text("shared\n")
    make_repository(main)
    root.rmdir()
    git(main, "worktree", "add", "-q", str(root), "-b", "side")


def ignored(root: Path) -> None:
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    (root / "text").write_text("seen\n")
    (root / "a.log").write_text("ignored\n")
    (root / "build").mkdir()
    (root / "build" / "text").write_text("built\n")
    make_repository(root)


def packed(root: Path) -> None:
    (root / "text").write_text("packed\n")
    make_repository(root)
    git(root, "gc", "-q")


def compressed_index(root: Path) -> None:
    (root / "inner").mkdir()
    for name in ("text", "inner/text", "inner/text2"):
        (root / name).write_text(f"{name}\n")
    make_repository(root)
    git(root, "update-index", "--index-version", "4")


def split_index(root: Path) -> None:
    (root / "text").write_text("in the shared part\n")
    make_repository(root)
    git(root, "update-index", "--split-index")
    (root / "second").write_text("in the other\n")
    make_repository(root)


def long_ids(root: Path) -> None:
    (root / "text").write_text("SHA-256\n")
    git(root, "init", "-q", "--object-format=sha256")
    make_repository(root)


def not_looked_at(root: Path) -> None:
    """Flags keep git from looking at files: its index does not have what is there."""
    for name in ("text", "skipped", "second"):
        (root / name).write_text("committed\n")
    make_repository(root)
    git(root, "update-index", "--assume-unchanged", "second")
    git(root, "update-index", "--skip-worktree", "skipped")
    for name in ("skipped", "second"):
        (root / name).write_text("local\n")
    git(root, "status")


def added_only(root: Path) -> None:
    (root / "text").write_text("committed\n")
    make_repository(root)
    (root / "intended").write_text("not in the repository\n")
    (root / "staged").write_text("staged\n")
    git(root, "add", "-N", "intended")
    git(root, "add", "staged")
    (root / "staged").write_text("changed again\n")


def borrowing(root: Path) -> None:
    """Its objects are in another repository, whose objects are in a third."""
    source, middle = root.parent / "source", root.parent / "middle"
    source.mkdir()
    (source / "text").write_text("from far away\n")
    make_repository(source)
    git(root.parent, "clone", "-q", "--shared", str(source), str(middle))
    root.rmdir()
    git(root.parent, "clone", "-q", "--shared", str(middle), str(root))
    git(root, "status")


def conflicted(root: Path) -> None:
    """In the middle of a merge that conflicts."""
    (root / "text").write_text("one\n")
    make_repository(root)
    git(root, "checkout", "-q", "-b", "side")
    (root / "text").write_text("side\n")
    git(root, "commit", "-qam", "side")
    git(root, "checkout", "-q", "-")
    (root / "text").write_text("main\n")
    git(root, "commit", "-qam", "main")
    with suppress(subprocess.CalledProcessError):
        git(root, "merge", "side")
    assert "<<<<<<<" in (root / "text").read_text()


def deep(root: Path) -> None:
    folder = root
    for _ in range(60):
        folder = folder / "inner"
    folder.mkdir(parents=True)
    (folder / "text").write_text("deep\n")
    (root / "text").write_text("x" * 300 + "\n")
    (root / ("n" * 255)).write_text("a long name\n")


def subdirectory(root: Path) -> None:
    (root.parent / "above").write_text("not ours\n")
    (root / "text").write_text("below\n")
    make_repository(root.parent)


def odd_names(root: Path) -> None:
    for name in (b"text", b"new\nline", b"\xff\xfe", b"-rf", b"tab\t", "ünï".encode(), b" ", b"~", b"a\\x41"):
        (root / os.fsdecode(name)).write_bytes(name)


def odd_kinds(root: Path) -> None:
    (root / "text").write_text("plain\n")
    (root / "dangling").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    (root / "up").symlink_to("..")
    (root / "empty").touch()
    (root / "hollow").mkdir()
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(root / "socket"))


TREES = (
    crlf, filtered, nested, submodule, linked_worktree, ignored, packed, subdirectory, odd_names, odd_kinds,
    compressed_index, split_index, long_ids, not_looked_at, added_only, borrowing, conflicted, deep,
)  # fmt: skip


@pytest.mark.parametrize("make", TREES)
async def test_a_hostile_tree_is_undone_to_the_byte(workspace: Workspace, make: Callable[[Path], None]) -> None:
    make(workspace.root)
    before = picture(workspace.root)
    git_before = repository_state(workspace.root) if (workspace.root / ".git").exists() else None
    ended = await workspace.call(
        "find . -name .git -prune -o -type f -print0 | xargs -0 -n 1 sh -c 'echo more >> \"./$0\"';"
        "find . -name .git -prune -o -type l -exec rm {} +; rm -f text; mkdir text; echo in > text/in;"
        "rm -rf hollow build"
    )
    assert picture(workspace.root) != before
    _, conflicts = await workspace.undo(ended.changes)
    assert (conflicts, picture(workspace.root)) == ([], before)
    assert git_before is None or repository_state(workspace.root) == git_before


async def test_the_users_repository_stays_as_it_is(workspace: Workspace) -> None:
    packed(workspace.root)
    (workspace.root / "text").write_text("stashed\n")
    git(workspace.root, "stash")
    (workspace.root / "text").write_text("not committed\n")
    before = repository_state(workspace.root)
    ended = await workspace.call("echo changed > text; echo new > new")
    await workspace.undo(ended.changes)
    assert repository_state(workspace.root) == before
    assert (workspace.root / "text").read_text() == "not committed\n"


async def test_files_come_back_even_if_the_repository_is_gone(workspace: Workspace) -> None:
    packed(workspace.root)
    (workspace.root / "loose").write_text("committed later\n")
    git(workspace.root, "add", "-A")
    git(workspace.root, "commit", "-q", "-m", "second")
    before = picture(workspace.root)
    ended = await workspace.call("rm -rf .git *")
    _, conflicts = await workspace.undo(ended.changes)
    assert (conflicts, picture(workspace.root)) == ([], before)


async def test_a_change_in_the_same_moment_is_seen(workspace: Workspace) -> None:
    """Same size, same times as far as the clock of the file system goes."""
    target = workspace.root / "text"
    target.write_text("one\n")
    key, _ = await workspace.begin()
    info = target.stat()
    target.write_text("two\n")
    os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))
    ended = await workspace.end(key)
    assert [change.path for change in ended.changes] == ["text"]


async def test_a_link_in_the_place_of_a_directory_is_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "text").write_text("not ours\n")
    (workspace.root / "inner").mkdir()
    (workspace.root / "inner" / "text").write_text("ours\n")
    ended = await workspace.call("echo changed > inner/text")
    (workspace.root / "inner" / "text").unlink()
    (workspace.root / "inner").rmdir()
    (workspace.root / "inner").symlink_to(outside)
    _, conflicts = await workspace.undo(ended.changes, "inner/text")
    assert conflicts
    assert (outside / "text").read_text() == "not ours\n"


async def test_what_is_too_large_or_too_much_is_reported(tmp_path: Path) -> None:
    async with Workspace(tmp_path, CheckpointLimits(max_file=MIB)) as workspace:
        (workspace.root / "large").write_bytes(bytes(MIB + 1))
        heavy = workspace.root / min(HEAVY)
        heavy.mkdir()
        for number in range(MAX_HEAVY + 1):
            (heavy / str(number)).touch()
        key, coverage = await workspace.begin()
        assert "1 file that is too large" in describe(coverage)
        assert f"{heavy.name}/" in describe(coverage)
        (workspace.root / "large").write_bytes(bytes(MIB + 2))
        (heavy / "0").write_text("x")
        ended = await workspace.end(key)
        _, conflicts = await workspace.undo(ended.changes)
        assert [(one.path, one.why) for one in conflicts] == [("large", "its earlier content was not kept")]


async def test_a_home_directory_is_not_watched(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(workspace.root / "user"))
    _, coverage = await workspace.begin()
    assert "home directory" in describe(coverage)


async def test_contents_that_take_long_are_stored_later(tmp_path: Path) -> None:
    async with Workspace(tmp_path, CheckpointLimits(seconds=0.0)) as workspace:
        for number in range(20):
            (workspace.root / str(number)).write_text(f"{number}\n")
        await asyncio.sleep(2 * SETTLED_NS / 1e9)  # what changed just now is read again, and here there is never time
        key, coverage = await workspace.begin()
        assert coverage.pending or coverage.is_partial
        for _ in range(200):
            if not (await workspace.checkpoints.coverage(workspace.scope().root)).pending:
                break
        ended = await workspace.end(key)
        before = picture(workspace.root)
        changed = await workspace.call("for n in *; do echo more >> $n; done")
        _, conflicts = await workspace.undo(changed.changes)
        assert (ended.changes, conflicts, picture(workspace.root)) == ((), [], before)


async def test_the_store_stays_below_its_limit(tmp_path: Path) -> None:
    limits = CheckpointLimits(max_total=4 * MIB)
    async with Workspace(tmp_path, limits) as workspace:
        for number in range(20):
            await workspace.call(f"head -c {MIB} /dev/urandom > data{number % 2}")
        stored = sum(path.stat().st_size for path in workspace.state.rglob("objects/*/*"))
        assert stored <= limits.max_total
        assert (await workspace.checkpoints.usage()).size <= limits.max_total
        before = picture(workspace.root)
        last = await workspace.call("echo small > small")
        await workspace.undo(last.changes)
        assert picture(workspace.root) == before


async def test_two_sessions_in_one_place_are_distinguished(workspace: Workspace) -> None:
    first, _ = await workspace.begin("sess_a")
    (workspace.root / "a").write_text("a\n")
    second, _ = await workspace.begin("sess_b")
    (workspace.root / "b").write_text("b\n")
    ended_second = await workspace.end(second)
    (workspace.root / "c").write_text("c\n")
    ended_first = await workspace.end(first)
    assert [change.path for change in ended_second.changes] == ["b"]
    assert [change.path for change in ended_first.changes] == ["a", "b", "c"]
    assert (ended_first.overlaps, ended_second.overlaps) == (("sess_b",), ("sess_a",))


async def test_the_next_process_goes_on_with_the_same_store(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        (workspace.root / "text").write_text("before\n")
        key, _ = await workspace.begin()
        (workspace.root / "text").write_text("after\n")
    async with Workspace(tmp_path) as workspace:
        ended = await workspace.end(key)
        assert (ended.is_recovered, [change.path for change in ended.changes]) == (True, ["text"])
        await workspace.undo(ended.changes)
        assert (workspace.root / "text").read_text() == "before\n"


async def test_a_damaged_store_is_put_aside(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        await workspace.call("echo one > text")
    database = workspace.state / "checkpoints" / "checkpoints.db"
    database.write_bytes(b"this is no database" * 1000)
    async with Workspace(tmp_path) as workspace:
        ended = await workspace.call("echo two > text")
        await workspace.undo(ended.changes)
        assert (workspace.root / "text").read_text() == "one\n"
    assert list(database.parent.glob("checkpoints.db.damaged.*"))


async def test_the_store_of_a_newer_program_is_left_alone(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        await workspace.call("echo one > text")
    database = workspace.state / "checkpoints" / "checkpoints.db"
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        db.execute("PRAGMA user_version = 99")
    async with Workspace(tmp_path) as workspace:
        with pytest.raises(CheckpointError, match="a newer Buddy wrote it"):
            await workspace.begin()
    assert not list(database.parent.glob("*.damaged*"))


def test_a_removal_that_was_not_committed_leaves_the_content(tmp_path: Path) -> None:
    store = Store(tmp_path, CheckpointLimits())
    large = os.urandom(1024 * 1024)
    with store.saving():
        key = store.contents.put(large)
    with pytest.raises(ZeroDivisionError), store.saving():
        store.contents.remove([key])
        raise ZeroDivisionError
    assert store.contents.get(key) == large
    with store.saving():
        store.contents.remove([key])
        store.contents.put(large)
    assert store.contents.get(key) == large
    with store.saving():
        store.contents.remove([key])
    assert (store.contents.get(key), list(tmp_path.glob("objects/*/*"))) == (None, [])
    store.close()

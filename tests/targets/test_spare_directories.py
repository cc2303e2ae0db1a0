"""Placeholders are moved in and out; whatever cannot be moved is made and removed."""

import os
import tempfile
from pathlib import Path

import pytest

from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.probe import ProbeResult
from buddy.targets.confine.sharing import is_marked, mark_placeholder
from buddy.targets.confine.spare_directories import MOST, SpareDirectories
from buddy.targets.confine.target import Confined
from tests.targets.inspect_files import contents, run


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.fixture
def spares(tmp_path: Path) -> SpareDirectories:
    return SpareDirectories(tmp_path / "confined")


def make_placeholder(place: Path) -> str:
    place.mkdir()
    mark_placeholder(str(place))
    return str(place)


def inodes(place: Path) -> list[tuple[Path, int]]:
    return [(path, path.stat().st_ino) for path in place.rglob("*")]


async def test_commands_use_the_same_directories_again(
    way: str, home: Path, work: Path, tmp_path: Path, nonce: str
) -> None:
    policy = ConfinementPolicy(str(work), home=str(home), own=(), state_dir=tmp_path)
    target = Confined(policy, lambda: ProbeResult(way))
    kept = tmp_path / "confined" / "spares"
    seen: list[set[int]] = []
    for _ in range(3):
        await run(target, "mkdir -p .vscode 2>&1; touch .vscode/x 2>&1; ls -A >listed; true", work, nonce)
        files = contents(work)
        assert list(files) == ["listed"]
        assert b".vscode" in files["listed"].split()
        seen.append({inode for path, inode in inodes(work.parent) if path.parent == kept})
    assert seen[0]
    assert seen[0] == seen[1] == seen[2]
    assert all(is_marked(str(path)) for path, _ in inodes(kept))
    assert not any(path.parent == work and path.is_dir() for path, _ in inodes(work.parent))


def test_nothing_is_replaced(work: Path, spares: SpareDirectories) -> None:
    assert spares.keep(make_placeholder(work / "a"))
    mine = work / ".vscode"
    mine.mkdir()
    before = mine.stat().st_ino
    assert not spares.take(str(mine))
    assert mine.stat().st_ino == before
    assert spares.take(str(work / "b"))
    assert is_marked(str(work / "b"))


def test_what_somebody_has_used_stays(work: Path, spares: SpareDirectories) -> None:
    used, nested = work / "used", work / "nested"
    make_placeholder(used)
    (used / "settings.json").write_text("{}")
    make_placeholder(nested)
    (nested / "inner").mkdir()
    mark_placeholder(str(nested))
    assert not spares.keep(str(used))
    assert not spares.keep(str(nested))
    assert (used / "settings.json").read_text() == "{}"
    assert (nested / "inner").is_dir()


def test_those_that_another_process_took_are_passed_over(work: Path, tmp_path: Path, spares: SpareDirectories) -> None:
    assert spares.keep(make_placeholder(work / "a"))
    assert spares.keep(make_placeholder(work / "b"))
    other = SpareDirectories(tmp_path / "confined")
    assert other.take(str(work / "c"))
    assert other.take(str(work / "d"))
    assert not spares.take(str(work / "e"))


def test_their_number_is_bounded(work: Path, spares: SpareDirectories) -> None:
    kept = [spares.keep(make_placeholder(work / f"p{number}")) for number in range(MOST + 2)]
    assert kept == [True] * MOST + [False] * 2


def test_another_file_system_has_its_own(tmp_path: Path, spares: SpareDirectories) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        elsewhere = Path(folder)
        assert elsewhere.stat().st_dev != tmp_path.stat().st_dev
        assert not spares.keep(make_placeholder(elsewhere / "a"))
        assert (elsewhere / "a").is_dir()
        assert spares.keep(make_placeholder(tmp_path / "here"))
        assert not spares.take(str(elsewhere / "b"))
        assert spares.take(str(tmp_path / "there"))


def test_what_somebody_puts_into_a_kept_directory_comes_into_no_workspace(work: Path, spares: SpareDirectories) -> None:
    place = work / ".vscode"
    make_placeholder(place)
    opened = os.open(place, os.O_PATH)  # as a shell whose directory it is
    assert spares.keep(str(place))
    os.mkdir("tasks", dir_fd=opened)
    os.close(opened)
    assert not spares.take(str(place))
    assert not place.exists()
    make_placeholder(place)
    assert spares.keep(str(place))
    assert spares.take(str(place))
    assert not list(place.iterdir())

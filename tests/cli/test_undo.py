"""`buddy undo`: what a run did to the files, shell commands included, is brought back."""

import json
import os
import stat
from pathlib import Path

import pytest

from tests.harness.home import Home
from tests.harness.scripts import shell

MESS = (
    "printf 'changed\\n' > kept.txt; rm gone.txt; mkdir -p new/deep; echo made > new/deep/file; chmod 600 run.sh; "
    "ln -sf run.sh link; rmdir empty; mv old.txt moved.txt; head -c 100000 /dev/zero > large.bin"
)


def picture(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every path with its kind, mode and content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        name = str(path.relative_to(folder))
        if stat.S_ISLNK(info.st_mode):
            found[name] = ("link", str(path.readlink()))
        elif stat.S_ISDIR(info.st_mode):
            found[name] = ("directory", stat.S_IMODE(info.st_mode))
        else:
            found[name] = ("file", stat.S_IMODE(info.st_mode), path.read_bytes())
    return found


def make_files(work: Path) -> None:
    (work / "kept.txt").write_text("original\n")
    (work / "gone.txt").write_text("precious\n")
    (work / "old.txt").write_text("named\n")
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("kept.txt")
    (work / "empty").mkdir()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home").script(shell(MESS), {"text": "done"}, shell("echo more >> kept.txt"), {"text": "ok"})
    make_files(home.work)
    return home


def run(home: Home, *more: str) -> None:
    place = [] if "-c" in more else ["--sandbox", "host"]
    done = home.run("exec", "--approve", "all", *place, *more, "make a mess")
    assert done.code == 0, done.err


def test_a_shell_command_is_undone_to_the_byte_and_redone(home: Home) -> None:
    before = picture(home.work)
    run(home)
    after = picture(home.work)
    assert after != before
    preview = home.run("undo", "--dry-run")
    assert preview.code == 0
    assert "gone.txt" in preview.out
    assert picture(home.work) == after
    done = home.run("undo", "--yes")
    assert (done.code, picture(home.work)) == (0, before)
    assert home.run("undo", "--yes").err.startswith("nothing to undo")
    assert home.run("undo", "--redo", "--yes").code == 0
    assert picture(home.work) == after
    assert home.run("undo", "--yes").code == 0
    assert picture(home.work) == before


def test_changes_lists_what_a_shell_command_did(home: Home) -> None:
    run(home)
    found = json.loads(home.run("changes", "--json").out)
    changes = {file["path"]: file["change"] for file in found["files"]}
    assert changes == {
        "kept.txt": "modified",
        "gone.txt": "deleted",
        "new/deep/file": "added",
        "run.sh": "modified",
        "link": "modified",
        "empty/": "deleted",
        "old.txt": "deleted",
        "moved.txt": "added",
        "large.bin": "added",
    }
    assert "-precious\n" in next(file["diff"] for file in found["files"] if file["path"] == "gone.txt")


@pytest.mark.slow
def test_an_edit_of_the_user_is_a_conflict_and_stays(home: Home) -> None:
    run(home)
    (home.work / "kept.txt").write_text("mine\n")
    (home.work / "new" / "mine.txt").write_text("mine, too\n")
    done = home.run("undo", "--yes")
    assert done.code == 1
    assert "conflict: kept.txt" in done.err
    assert (home.work / "kept.txt").read_text() == "mine\n"
    assert (home.work / "new" / "mine.txt").exists()
    assert not (home.work / "new" / "deep").exists()
    assert (home.work / "gone.txt").read_text() == "precious\n"
    forced = home.run("undo", "--to", "0", "--force", "kept.txt", "--yes")
    assert (home.work / "kept.txt").read_text() == "original\n", forced.err
    assert home.run("undo", "--redo", "--yes").code == 0
    assert (home.work / "kept.txt").read_text() == "mine\n"


@pytest.mark.slow
def test_changes_names_the_conflicts(home: Home) -> None:
    run(home)
    assert "conflict" not in home.run("changes").err
    (home.work / "kept.txt").write_text("mine\n")
    found = home.run("changes")
    assert "conflict: kept.txt: it was changed since\n" in found.err
    assert "kept.txt" in found.out


@pytest.mark.slow
def test_a_diff_is_printed_in_full(tmp_path: Path) -> None:
    """Also those for which one reply has no room."""
    steps = (shell("for n in 1 2 3; do seq 60000 > long$n.txt; done; chmod 600 run.sh"), {"text": "ok"})
    home = Home(tmp_path / "home").script(*steps)
    make_files(home.work)
    run(home)
    found = home.run("changes", "--diff")
    assert found.out.count("+60000\n") == 3
    assert "cut here" not in found.out
    assert "mode 0755 became 0600" in found.out
    listed = json.loads(home.run("changes", "--json").out)["files"]
    assert [file["diff"].count("\n") for file in listed] == [60003, 60003, 60003, 3]


@pytest.mark.slow
def test_doctor_says_how_much_is_kept(home: Home) -> None:
    def check() -> str:
        checks = json.loads(home.run("doctor", "--json").out)["checks"]
        return next(one["text"] for one in checks if one["name"] == "checkpoints")

    assert check() == "0 MiB of at most 2048 MiB, kept for 14 days"
    run(home)
    assert check().startswith("1 MiB of at most 2048 MiB, kept for 14 days; 1 checkpoints in ")


@pytest.mark.slow
def test_forcing_a_conflict_goes_on_with_the_same_run(tmp_path: Path) -> None:
    steps = (shell("echo one > kept.txt"), {"text": "ok"}, shell("echo two > gone.txt; echo new > new"), {"text": "ok"})
    home = Home(tmp_path / "home").script(*steps)
    make_files(home.work)
    run(home)
    run(home, "-c")
    (home.work / "gone.txt").write_text("mine\n")
    assert home.run("undo", "--yes").code == 1
    assert not (home.work / "new").exists()
    assert home.run("undo", "--force", "gone.txt", "--yes").code == 0
    assert (home.work / "gone.txt").read_text() == "precious\n"
    assert (home.work / "kept.txt").read_text() == "one\n"
    assert home.run("undo", "--yes").code == 0
    assert (home.work / "kept.txt").read_text() == "original\n"


@pytest.mark.slow
def test_an_edit_between_two_calls_is_not_lost(home: Home) -> None:
    run(home)
    (home.work / "kept.txt").write_text("changed\nby me\n")
    run(home, "-c")
    done = home.run("undo", "--all", "--yes")
    assert done.code == 1
    assert "between two calls" in done.err
    assert (home.work / "kept.txt").read_text() == "changed\nby me\nmore\n"
    assert home.run("undo", "--yes").code in (0, 1)


@pytest.mark.slow
def test_runs_are_undone_one_after_another(home: Home) -> None:
    before = picture(home.work)
    run(home)
    middle = picture(home.work)
    run(home, "-c")
    assert home.run("undo", "--yes").code == 0
    assert picture(home.work) == middle
    assert home.run("undo", "--yes").code == 0
    assert picture(home.work) == before
    assert home.run("undo", "--redo", "--yes").code == 0
    assert picture(home.work) == middle


def test_without_checkpoints_nothing_is_kept(home: Home) -> None:
    run(home, "--no-checkpoints")
    assert not (home.state / "checkpoints").exists()
    done = home.run("undo", "--yes")
    assert done.code == 64
    assert "checkpoints are off" in done.err


def test_the_store_is_private(home: Home) -> None:
    run(home)
    store = home.state / "checkpoints"
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in [store, *store.rglob("*")] if path.is_dir()}
    assert modes == {0o700}
    assert {stat.S_IMODE(path.lstat().st_mode) for path in store.rglob("*") if path.is_file()} == {0o600}


@pytest.mark.slow
def test_undo_asks_first_on_a_terminal(home: Home) -> None:
    run(home)
    after = picture(home.work)
    assert home.run("undo").code == 64
    with home.terminal("undo") as terminal:
        terminal.wait_for("Restore 9 files?")
        terminal.type("n\r")
        assert terminal.finish() == 0
    assert picture(home.work) == after
    assert os.listdir(home.work)  # noqa: PTH208 - plain names


@pytest.mark.slow
def test_files_are_shown_as_they_were_after_an_event(home: Home) -> None:
    run(home)
    run(home, "-c")
    lines = home.run("session", "export", "last").out.splitlines()
    ends = [event["seq"] for event in map(json.loads, lines) if event["type"] == "run_complete"]
    then = home.run("session", "show", "last", "--at", str(ends[0]))
    assert then.code == 0
    assert f"Files as of event {ends[0]}:" in then.out
    assert "new/deep/file" in then.out
    assert home.run("session", "show", "last", "--at", str(ends[0]), "--file", "kept.txt").out == "changed\n"
    assert home.run("session", "show", "last", "--at", str(ends[1]), "--file", "kept.txt").out == "changed\nmore\n"
    assert "No file had changed" in home.run("session", "show", "last", "--at", "1").out
    assert home.run("session", "show", "last", "--at", str(ends[0]), "--file", "gone.txt").code == 64


@pytest.mark.slow
def test_undos_are_taken_back_one_after_another(home: Home) -> None:
    """Also those that left a conflict alone, and those that forced it."""
    before = picture(home.work)
    run(home)
    run(home, "-c")
    after = picture(home.work)
    assert home.run("undo", "--yes").code == 0
    (home.work / "kept.txt").write_text("mine\n")
    assert home.run("undo", "--yes").code == 1
    assert home.run("undo", "--force", "kept.txt", "--yes").code == 0
    assert picture(home.work) == before
    assert home.run("undo", "--redo", "--yes").code == 0
    assert (home.work / "kept.txt").read_text() == "mine\n"
    (home.work / "kept.txt").write_text("changed\n")
    assert home.run("undo", "--redo", "--yes").code == 0
    assert home.run("undo", "--redo", "--yes").code == 0
    assert picture(home.work) == after
    assert "nothing to redo" in home.run("undo", "--redo", "--yes").err


def test_a_dry_run_shows_what_would_be_restored_also_with_yes(home: Home) -> None:
    run(home)
    shown = home.run("undo", "--dry-run")
    both = home.run("undo", "--dry-run", "--yes", "--force", "mispelt.txt")
    assert (both.code, both.out) == (shown.code, shown.out)
    assert "kept.txt" in both.out
    assert "warning: --force names what would not be restored: mispelt.txt" in both.err
    assert (home.work / "kept.txt").read_text() == "changed\n"

"""`buddy undo` and `buddy changes` by run, call and turn; the user's repository; what leaves the store, and when."""

import json
import os
from pathlib import Path

import pytest

from tests.checkpoints.trees import git, make_repository, repository_state
from tests.harness.home import Home
from tests.harness.scripts import shell

STEPS = (
    *(shell("echo one > one"), shell("echo two > two"), {"text": "done"}),
    *(shell("echo three > three; echo changed > kept"), {"text": "done"}),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home").script(*STEPS)
    (home.work / "kept").write_text("precious content\n")
    return home


def run_both(home: Home) -> list[dict[str, str]]:
    """Two runs; returns what each call changed, by file, call and run."""
    for more in (("--sandbox", "host"), ("-c",)):
        done = home.run("exec", "--approve", "all", *more, "go")
        assert done.code == 0, done.err
    events = map(json.loads, home.run("session", "export", "last").out.splitlines())
    changed = [event for event in events if event["type"] == "files_changed"]
    return [{"call": one["payload"]["callId"], "run": one["runId"]} for one in changed]


def there(home: Home) -> list[str]:
    return sorted(path.name for path in home.work.iterdir() if path.name != ".git")


def test_a_run_or_a_call_is_shown_and_undone_by_itself(home: Home) -> None:
    first, second, third = run_both(home)
    assert home.run("changes", "--run", first["run"]).out.split()[::4] == ["one", "two"]
    assert home.run("changes", "--run", first["run"], "--turn", "2").out.split()[::4] == ["two"]
    assert home.run("changes", "--call", third["call"]).out.split()[::4] == ["kept", "three"]
    assert home.run("undo", "--call", first["call"], "--yes").code == 0
    assert there(home) == ["kept", "three", "two"]
    assert home.run("undo", "--run", first["run"], "--yes").code == 0
    assert there(home) == ["kept", "three"]
    assert (home.work / "kept").read_text() == "changed\n"
    assert home.run("undo", "--run", second["run"], "--yes").err.startswith("nothing to undo")
    assert home.run("undo", "--redo", "--yes").code == 0
    assert there(home) == ["kept", "three", "two"]


def test_a_run_or_a_call_that_does_not_exist_is_an_error(home: Home) -> None:
    run_both(home)
    for command in (("undo", "--dry-run"), ("undo", "--yes"), ("changes",)):
        for flag, kind in (("--run", "run"), ("--call", "call")):
            done = home.run(*command, flag, "nothing_like_it")
            assert done.code != 0
            assert f"no {kind} 'nothing_like_it' in this session" in done.err


def test_the_users_repository_is_bit_identical(home: Home) -> None:
    """With something staged, something stashed, hooks that would show, and no identity."""
    make_repository(home.work)
    (home.work / "kept").write_text("stashed\n")
    git(home.work, "stash")
    (home.work / "staged").write_text("staged\n")
    git(home.work, "add", "staged")
    (home.work / "kept").write_text("not committed\n")
    before = everything_in(home.work / ".git")
    state = repository_state(home.work)
    run_both(home)
    assert home.run("changes", "--all", "--diff").code == 0
    assert home.run("undo", "--all", "--yes").code == 0
    assert (home.work / "kept").read_text() == "not committed\n"
    assert home.run("undo", "--redo", "--yes").code == 0
    assert everything_in(home.work / ".git") == before
    assert repository_state(home.work) == state


def everything_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Each file with its content and the time of its last change."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_nothing_of_the_store_is_exported(home: Home) -> None:
    run_both(home)
    exported = home.run("session", "export", "last").out
    assert "files_changed" in exported
    assert "precious content" not in exported


@pytest.mark.slow
def test_a_deleted_session_takes_its_checkpoints_with_it(home: Home) -> None:
    run_both(home)
    assert b"precious content" in stored(home)
    assert home.run("session", "delete", "last").code == 0
    checks = json.loads(home.run("doctor", "--json").out)["checks"]
    assert "; 0 checkpoints in " in next(one["text"] for one in checks if one["name"] == "checkpoints")


def stored(home: Home) -> bytes:
    store = home.state / "checkpoints"
    return b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())


@pytest.mark.slow
def test_checkpoints_are_turned_off_in_the_configuration(home: Home) -> None:
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text() + "\n[checkpoints]\nenabled = false\n")
    assert home.run("exec", "--approve", "all", "--sandbox", "host", "go").code == 0
    assert not (home.state / "checkpoints").exists()
    done = home.run("undo", "--yes")
    assert (done.code, "checkpoints are off" in done.err) == (64, True)
    checks = json.loads(home.run("doctor", "--json").out)["checks"]
    assert next(one["status"] for one in checks if one["name"] == "checkpoints") == "info"


def test_calls_that_only_read_do_not_even_open_the_store(tmp_path: Path) -> None:
    read = {"calls": [{"name": "read_file", "args": {"path": "kept"}}]}
    home = Home(tmp_path / "home").script(read, {"text": "read"})
    (home.work / "kept").write_text("text\n")
    assert home.run("exec", "go").code == 0
    assert not (home.state / "checkpoints").exists()
    assert os.path.lexists(home.work / "kept")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("undo", "--dry-run", "--to", "99999"), "no event 99999 in this session"),
        (("changes", "--to", "99999"), "no event 99999 in this session"),
        (("changes", "--turn", "99"), "no turn 99 in this session"),
        (("changes", "--turn", "0"), "0 must be 1 or more"),
        (("undo", "--dry-run", "--to=-1"), "-1 must be 0 or more"),
        (("attach", "last", "--after=-1"), "-1 must be 0 or more"),
    ],
)
def test_what_a_session_does_not_have_is_refused(home: Home, arguments: tuple[str, ...], problem: str) -> None:
    home.script({"text": "hi"}).run("exec", "go")
    refused = home.run(*arguments)
    assert (refused.code, problem in refused.err) == (64, True), refused.err

"""`buddy changes`: what a session did to the files."""

import json
from pathlib import Path

import pytest

from tests.harness.home import Home

WRITE = {"calls": [{"name": "write_file", "args": {"path": "new.txt", "content": "one\ntwo\n"}}]}
EDIT = {"calls": [{"name": "edit_file", "args": {"path": "new.txt", "old": "two", "new": "\x1b[31m2"}}]}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home").script(WRITE, {"text": "written"}, EDIT, {"text": "changed"}, {"text": "nothing"})
    for prompt in (["write it"], ["-c", "change it"], ["-c", "do nothing"]):
        assert home.run("exec", "--approve", "all", *prompt).code == 0
    return home


def test_the_last_run_that_changed_files_is_shown(home: Home) -> None:
    done = home.run("changes")
    assert (done.code, done.out.split()) == (0, ["new.txt", "modified", "+1", "-1"])
    assert "shell" in done.err
    assert home.run("changes", "--stat").out == done.out


@pytest.mark.slow
def test_everything_and_its_diff(home: Home) -> None:
    assert home.run("changes", "last", "--all").out.split() == ["new.txt", "added", "+2", "-0"]
    diff = home.run("changes", "--diff").out
    assert "-two\n" in diff
    assert "+\\x1b[31m2\n" in diff
    assert "\x1b" not in diff


@pytest.mark.slow
def test_a_script_gets_json(home: Home) -> None:
    found = json.loads(home.run("changes", "--json", "--to", "0").out)
    assert [file["path"] for file in found["files"]] == ["new.txt"]
    assert found["sessionId"].startswith("sess_")
    assert found["uncovered"]
    for unknown in (["changes", "--run", "run_none"], ["changes", "sess_none"]):
        refused = home.run(*unknown)
        assert (refused.code, refused.out) == (64, ""), refused.err

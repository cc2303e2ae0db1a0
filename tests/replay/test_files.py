"""A session whose calls changed files, and whose changes were undone, replays identically."""

import json
from pathlib import Path

from tests.harness.home import Home
from tests.harness.scripts import shell


def test_changes_and_an_undo_are_replayed_and_forked(tmp_path: Path) -> None:
    replies = (shell("echo one > made.txt"), {"text": "made"}, shell("echo two > other.txt"), {"text": "again"})
    home = Home(tmp_path / "home").script(*replies)
    assert home.run("exec", "--approve", "all", "--sandbox", "host", "--no-tmux", "make it").code == 0
    assert home.run("undo", "--yes").code == 0
    assert home.run("exec", "-c", "--approve", "all", "and another").code == 0
    events = [json.loads(line) for line in home.run("session", "export", "last").out.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds.count("files_changed") == 2
    assert kinds.count("files_restored") == 1
    done = home.run("replay", "last", "--verify")
    assert done.code == 0, done.out + done.err
    fork = home.run("session", "fork", "last")
    assert fork.code == 0
    assert (home.work / "other.txt").exists()
    assert home.run("undo", "last", "--yes").code == 0
    assert not (home.work / "other.txt").exists()

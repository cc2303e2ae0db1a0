"""Undo in the terminal: /changes, /undo, /redo, and going back in the conversation, the files, or both."""

import pytest

from tests.harness.home import Home
from tests.harness.processes import wait_until
from tests.harness.scripts import Reply, shell
from tests.harness.terminal import Tmux

MESS = "printf 'by the run\\n' > kept.txt; echo new > new.txt"
REPLIES: tuple[Reply, ...] = (shell(MESS), {"text": "changed it"}, {"text": "again"})


def begin(home: Home, terminal: Tmux) -> None:
    terminal.wait_for("(shift-tab)")
    terminal.enter("make a mess")
    terminal.wait_for("✓ done", history=True)
    assert (home.work / "kept.txt").read_text() == "by the run\n"


def test_changes_are_shown_undone_and_redone(home: Home) -> None:
    home.script(*REPLIES)
    kept, new = home.work / "kept.txt", home.work / "new.txt"
    kept.write_text("mine\n")
    with Tmux(home, "--approve", "all", "--no-tmux", columns=110, rows=50) as terminal:
        begin(home, terminal)
        terminal.enter("/changes")
        screen = terminal.wait_for("Not included")
        assert "~ kept.txt  +1 -1" in screen
        assert "+ new.txt" in screen
        terminal.enter("/undo")
        terminal.wait_for("Restore 2 files?")
        terminal.keys("y")
        terminal.wait_for("↩ Restored 2 files")
        assert (kept.read_text(), new.exists()) == ("mine\n", False)
        terminal.enter("/redo")
        terminal.wait_for("Change 2 files again?")
        terminal.keys("y")
        terminal.wait_for("↪ Changed 2 files again")
        assert new.exists()
        kept.write_text("edited by hand\n")
        terminal.enter("/undo")
        terminal.wait_for("kept.txt: it was changed since")


@pytest.mark.slow
def test_going_back_asks_whether_the_files_go_back_too(home: Home) -> None:
    home.script(*REPLIES)
    kept = home.work / "kept.txt"
    kept.write_text("mine\n")
    with Tmux(home, "--approve", "all", "--no-tmux", columns=110, rows=50) as terminal:
        begin(home, terminal)
        terminal.keys("Escape", "Escape")
        terminal.wait_for("Go back to")
        terminal.keys("Enter")
        terminal.wait_for("2 files changed since. Go back in")
        terminal.keys("Enter")
        terminal.wait_for("Restore 2 files?")
        terminal.keys("y")
        terminal.wait_for("Forked from")
        wait_until(lambda: kept.read_text() == "mine\n", "the file to be restored")
        assert "make a mess" in terminal.screen()


@pytest.mark.slow
def test_going_back_in_the_files_alone_keeps_the_conversation(home: Home) -> None:
    home.script(*REPLIES)
    kept = home.work / "kept.txt"
    kept.write_text("mine\n")
    with Tmux(home, "--approve", "all", "--no-tmux", columns=110, rows=50) as terminal:
        begin(home, terminal)
        terminal.keys("Escape", "Escape")
        terminal.wait_for("Go back to")
        terminal.keys("Enter")
        terminal.wait_for("2 files changed since. Go back in")
        terminal.keys("3")
        terminal.wait_for("Restore 2 files?")
        terminal.keys("y")
        terminal.wait_for("↩ Restored 2 files")
        assert kept.read_text() == "mine\n"
        assert "Forked" not in terminal.screen()

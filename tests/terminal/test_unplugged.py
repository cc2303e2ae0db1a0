"""Terminals and daemons that die during a run, and what is left afterwards."""

import json
import os
import re
import signal
import subprocess

import pytest

from tests.harness.home import Home
from tests.harness.scripts import Reply, shell
from tests.harness.terminal import Tmux

# Streams a few words, and then runs until a file `gate` exists.
GATED: Reply = {
    "text": "the quick brown fox jumps over the lazy dog and runs away. " * 3,
    "delay": 0.05,
    "calls": [{"name": "run_shell", "args": {"command": "until [ -e gate ]; do sleep 0.05; done"}}],
}


def begun(terminal: Tmux) -> None:
    terminal.wait_for("(shift-tab)")


def daemon_pid(home: Home) -> int:
    return int((home.state / "daemon.lock").read_text())


@pytest.mark.slow
def test_quitting_during_a_run_stops_nothing_and_resume_shows_it_all(home: Home) -> None:
    with home.script(GATED, {"text": "over"}) and Tmux(home, "--approve", "all") as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for("the quick")
        terminal.keys("C-d")
        screen = terminal.wait_for("[ended 0]")
    assert "The run continues in the background." in screen
    found = re.search(r"buddy resume (sess_\w+)", screen)
    assert found
    with Tmux(home, "resume", found[1]) as terminal:
        terminal.wait_for("the quick")
        (home.work / "gate").touch()
        screen = terminal.wait_for("✓ done")
        assert screen.count("> go") == 1
        assert screen.count("runs away.") == 3
        terminal.enter("and again")
        terminal.wait_until(lambda screen: screen.count("✓ done") == 2)


@pytest.mark.slow
def test_a_closed_terminal_loses_nothing(home: Home) -> None:
    with home.script(shell("echo ran > ran"), {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for("1 Yes")
    with Tmux(home, "resume", "--last") as terminal:
        screen = terminal.wait_for("1 Yes")
        assert "│ $ echo ran > ran" in screen
        terminal.keys("1")
        terminal.wait_for("✓ done")
    assert (home.work / "ran").read_text() == "ran\n"


@pytest.mark.slow
def test_two_terminals_on_one_session_show_the_same(home: Home) -> None:
    with home.script(shell("echo ran > ran"), {"text": "over"}) and Tmux(home) as one:
        begun(one)
        one.enter("go")
        one.wait_for("1 Yes")
        with Tmux(home, "resume", "--last") as two:
            two.wait_for("1 Yes")
            two.keys("1")
            two.wait_for("✓ done")
        screen = one.wait_for("✓ done")
        assert "1 Yes" not in screen
        assert "over" in screen


def test_the_terminal_reconnects_to_a_restarted_daemon(home: Home) -> None:
    with home.script(shell("echo ran > ran"), {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for("1 Yes")
        os.kill(daemon_pid(home), signal.SIGKILL)
        terminal.wait_for("Lost connection to the daemon")
        home.run("daemon", "start")
        terminal.wait_until(lambda screen: "Lost connection" not in screen)
        terminal.keys("1")
        terminal.wait_for("✓ done")
    assert (home.work / "ran").read_text() == "ran\n"


@pytest.mark.slow
def test_the_terminal_goes_on_in_a_session_that_lost_its_end(home: Home) -> None:
    home.script({"text": "one"}, {"text": "two"}, {"text": "three"}, shell("echo ran > ran"), {"text": "over"})
    assert home.run("exec", "first", "--sandbox", "host").code == 0
    assert home.run("backup", str(home.directory / "copy")).code == 0
    with Tmux(home, "resume", "--last", rows=60) as terminal:
        begun(terminal)
        for number, text in enumerate(("second", "third"), 2):
            terminal.enter(text)
            terminal.wait_until(lambda screen, number=number: screen.count("✓ done") == number)
        assert home.run("daemon", "stop").code == 0
        terminal.wait_for("Lost connection to the daemon")
        assert home.run("restore", str(home.directory / "copy"), "--replace").code == 0
        home.run("daemon", "start")
        terminal.wait_for("The log no longer has events that a client has seen")
        for number, text in enumerate(("second again", "third again"), 4):
            terminal.enter(text)
            terminal.wait_until(lambda screen, number=number: screen.count("✓ done") == number)
        terminal.enter("/approve ask")
        terminal.wait_for("approvals: ask")
        terminal.enter("fourth")
        terminal.wait_for("1 Yes")
        terminal.keys("1")
        terminal.wait_for("over")
    assert (home.work / "ran").read_text() == "ran\n"


@pytest.mark.slow
def test_reconnecting_ignores_a_session_that_was_left_and_deleted(home: Home) -> None:
    with home.script({"text": "one"}, {"text": "two"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("in the first")
        terminal.wait_for("✓ done")
        terminal.enter("/new")
        terminal.wait_for("A new session")
        terminal.enter("in the second")
        terminal.wait_until(lambda screen: screen.count("✓ done") == 2)
        assert home.run("session", "delete", session_of(home, "in the first")).code == 0
        os.kill(daemon_pid(home), signal.SIGKILL)
        terminal.wait_for("Lost connection to the daemon")
        terminal.keys("Enter")
        terminal.wait_until(lambda screen: "Lost connection to the daemon" not in screen)
        terminal.enter("still here")
        terminal.wait_until(lambda screen: screen.count("✓ done") == 3)


def session_of(home: Home, prompt: str) -> str:
    listed = json.loads(home.run("session", "list", "--json").out)["sessions"]
    return next(session["sessionId"] for session in listed if session["prompt"] == prompt)


@pytest.mark.slow
def test_enter_restarts_a_daemon_that_died(home: Home) -> None:
    with home.script({"text": "one"}, {"text": "two"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("first")
        terminal.wait_for("✓ done")
        os.kill(daemon_pid(home), signal.SIGKILL)
        terminal.wait_for("Lost connection to the daemon")
        terminal.enter("second")
        terminal.wait_until(lambda screen: screen.count("✓ done") == 2)


@pytest.mark.slow
def test_a_hangup_ends_the_editor_and_not_the_run(home: Home) -> None:
    with home.script(GATED, {"text": "over"}) and Tmux(home, "--approve", "all") as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for("the quick")
        listing = ["tmux", "-S", terminal.socket, "list-panes", "-F", "#{pane_pid}"]
        shown = subprocess.run(listing, capture_output=True, check=True)
        os.killpg(int(shown.stdout), signal.SIGHUP)
        with Tmux(home, "resume", "--last") as again:
            again.wait_for("the quick")
            (home.work / "gate").touch()
            again.wait_for("✓ done")


@pytest.mark.slow
def test_an_approval_of_a_killed_run_is_asked_again(home: Home) -> None:
    with home.script(shell("echo ran > ran"), {"text": "over"}).terminal("exec", "go", "--sandbox", "host") as killed:
        killed.wait_for("approve? [y/N] ")
    with Tmux(home, "resume", "--last") as terminal:
        terminal.wait_for("1 Yes")
        assert not (home.work / "ran").exists()
        terminal.keys("1")
        terminal.wait_for("✓ done")
    assert (home.work / "ran").read_text() == "ran\n"
    assert home.run("session", "show", "last").out.count("approval  ") == 1

"""A question waits: through the death of the daemon, without its terminal, and until it expires where it does."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.harness.home import Home
from tests.harness.scripts import shell
from tests.harness.terminal import Tmux


def begun(terminal: Tmux) -> None:
    terminal.wait_for("(shift-tab)")


def asked(home: Home, terminal: Tmux) -> str:
    begun(terminal)
    terminal.enter("go")
    terminal.wait_for("1 Yes")
    return pending(home)


def pending(home: Home) -> str:
    listed = home.run("approvals", "list").out
    found = re.search(r"pending  (appr_\w+)", listed)
    assert found, listed
    return found[1]


@pytest.mark.slow
def test_enter_restarts_a_killed_daemon_with_a_question_open_and_the_question_stays(home: Home) -> None:
    with home.script(shell("echo ran > ran"), {"text": "over"}) and Tmux(home) as terminal:
        before = asked(home, terminal)
        os.kill(int((home.state / "daemon.lock").read_text()), signal.SIGKILL)
        terminal.wait_for("Press Enter to restart it.")
        terminal.keys("Enter")
        terminal.wait_until(lambda screen: "Press Enter" not in screen and "1 Yes" in screen)
        assert pending(home) == before
        assert not (home.work / "ran").exists()
        terminal.keys("1")
        terminal.wait_for("✓ done")
    assert (home.work / "ran").read_text() == "ran\n"


@pytest.mark.slow
def test_quitting_at_a_question_says_how_to_answer_it_later(home: Home) -> None:
    with home.script(shell("echo ran > ran"), {"text": "over"}) and Tmux(home, columns=100) as terminal:
        approval_id = asked(home, terminal)
        terminal.keys("C-d")
        screen = terminal.wait_for("[ended 0]")
    assert "The run waits for your approval." in screen
    assert f"Answer it with: buddy approvals approve {approval_id}" in screen
    done = home.run("approvals", "approve", approval_id)
    assert done.code == 0, done
    assert home.run("resume", "--last").out == "over\n"
    assert (home.work / "ran").read_text() == "ran\n"


@pytest.mark.slow
def test_a_window_that_is_over_is_no_longer_shown(home: Home) -> None:
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("hello")
        terminal.wait_for("✓ done")
        terminal.enter("/approve 4s")
        terminal.wait_until(lambda screen: re.search(r"everything for \ds \(shift-tab\)", screen) is not None)
        terminal.wait_for("approvals: ask (shift-tab)")  # without a key
        terminal.enter("/status")
        terminal.wait_until(lambda screen: re.search(r"approvals +ask$", screen, re.MULTILINE) is not None)


@pytest.mark.slow
def test_a_question_with_a_deadline_counts_down_and_ends_the_run(home: Home) -> None:
    home.script(shell("echo ran > ran"), {"text": "over"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text().replace("[agent]\n", "[agent]\napproval_timeout_seconds = 4\n"))
    with Tmux(home, columns=120) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for("expires in 2s")
        screen = terminal.wait_for("nobody decided in time")
        assert "✓ done" not in screen
    assert not (home.work / "ran").exists()


def redraws(path: Path) -> int:
    """Each drawing hides the cursor first."""
    return path.read_bytes().count(b"\x1b[?25l") if path.exists() else 0


def clock(screen: str) -> int:
    found = re.search(r"(\d+)s total", screen)
    return int(found[1]) if found else 0


@pytest.mark.slow
def test_a_terminal_that_waits_for_a_decision_hardly_draws(home: Home) -> None:
    drawn = home.directory / "drawn"
    with home.script(shell("echo ran > ran"), {"text": "over"}) and Tmux(home, columns=100) as terminal:
        asked(home, terminal)
        began = clock(terminal.screen())
        terminal.record(drawn)
        ended = clock(terminal.wait_until(lambda screen: clock(screen) >= began + 6))
        assert redraws(drawn) <= ended - began  # at ten a second it would be many times as many
        assert redraws(drawn) > 0


def test_an_idle_terminal_draws_only_what_changes(home: Home) -> None:
    drawn = home.directory / "drawn"
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("hello")
        terminal.wait_for("✓ done")
        time.sleep(0.5)  # the last drawing of the run
        terminal.record(drawn)
        time.sleep(2)  # nothing signals that nothing happens
        assert redraws(drawn) == 0
        terminal.type("x")
        terminal.wait_for("> x")
        assert redraws(drawn) > 0

"""What the keys do, in the real program."""

import json
import shlex
import sys

import pytest

from tests.harness.home import Home
from tests.harness.scripts import shell
from tests.harness.terminal import ENDLESS, Tmux

CTRL_ENTER = "\x1b[13;5u"


@pytest.mark.slow
def test_esc_at_an_approval_interrupts_the_run(home: Home) -> None:
    with home.script(shell("touch ran")) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("1 Yes")
        terminal.keys("Escape")
        screen = terminal.wait_for("■ cancelled")
        assert "1 Yes" not in screen
    assert not (home.work / "ran").exists()


@pytest.mark.slow
def test_an_approval_waits_after_quitting(home: Home) -> None:
    with home.script(shell("touch ran"), {"text": "over"}) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("1 Yes")
        terminal.keys("C-d")
        assert "The run waits for your approval." in terminal.wait_for("[ended 0]")
    with Tmux(home, "resume", "--last") as terminal:
        terminal.wait_for("1 Yes")
        terminal.keys("y", "Enter")
        terminal.wait_for("✓ done")
    assert (home.work / "ran").exists()


def test_ctrl_c_clears_the_input_and_then_interrupts(home: Home) -> None:
    with home.script(ENDLESS) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("the quick")
        terminal.type("half a thought")
        terminal.wait_for("> half a thought")
        terminal.keys("C-c")
        terminal.wait_until(lambda screen: "> half a thought" not in screen)
        assert "■" not in terminal.screen()
        terminal.keys("C-c")
        terminal.wait_for("■ cancelled")
        assert "Press Ctrl-C again to quit" in terminal.screen()
        terminal.keys("Up")
        terminal.wait_for("> half a thought")


def test_ctrl_c_twice_quits(home: Home) -> None:
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.keys("C-c")
        terminal.wait_for("Press Ctrl-C again to quit")
        terminal.keys("C-c")
        terminal.wait_for("[ended 0]")


@pytest.mark.slow
def test_ctrl_c_twice_during_a_run_cancels_and_quits(home: Home) -> None:
    with home.script(ENDLESS) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("the quick")
        terminal.keys("C-c", "C-c")
        terminal.wait_for("[ended 0]")
    assert "cancelled" in home.run("resume", "--last").err


@pytest.mark.slow
def test_ctrl_enter_steers_the_active_run(home: Home) -> None:
    with home.script(ENDLESS) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("the quick")
        terminal.type("to the left")
        terminal.wait_for("> to the left")
        terminal.type(CTRL_ENTER)
        terminal.wait_for("Will be delivered at the next turn: to the left")


@pytest.mark.slow
def test_esc_esc_forks_before_an_earlier_message_and_puts_it_into_the_input(home: Home) -> None:
    with home.script({"text": "one"}, {"text": "two"}) and Tmux(home, rows=40) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("the first")
        terminal.wait_for("✓ done")
        terminal.enter("the second")
        terminal.wait_until(lambda screen: screen.count("✓ done") == 2)
        terminal.keys("Escape", "Escape")
        terminal.wait_for("▸ 2  the second")
        terminal.keys("Enter")
        terminal.wait_for("Forked from sess_")
        terminal.wait_until(lambda screen: screen.rstrip().splitlines()[-2] == "> the second")
        terminal.type(" again")
        terminal.wait_for("> the second again")
        terminal.keys("Enter")
        terminal.wait_until(lambda screen: "two" in screen.rpartition("> the second again")[2])
    assert len(home.run("session", "list").out.splitlines()) == 3


@pytest.mark.slow
def test_a_rule_can_be_granted_for_ten_minutes(home: Home) -> None:
    home.script(shell("git --version"), shell("git --version"), {"text": "over"})
    with Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("t For 10 min")
        terminal.keys("t")
        terminal.wait_for("Press Enter to answer: For 10 min")
        terminal.keys("Enter")
        screen = terminal.wait_for("✓ done")
    assert "approved by you for 10 minutes" in screen
    assert "allowed by rule " in screen
    listed = json.loads(home.run("approvals", "list", "--json").out)
    assert listed["rules"] == []  # it is granted, but no rule was stored
    assert [(grant["scope"], "git" in grant["summary"]) for grant in listed["grants"]] == [("until", True)]


@pytest.mark.slow
def test_history_is_searched(home: Home) -> None:
    home.script({"text": "hi"})
    home.state.mkdir(mode=0o700)
    (home.state / "history").write_text("\n# 2026-01-01\n+find the needle\n\n# 2026-01-02\n+something else\n")
    with Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.keys("C-r")
        terminal.type("needle")
        terminal.wait_for("find the needle")
        terminal.keys("Enter")
        terminal.wait_for("> find the needle")


@pytest.mark.slow
def test_ctrl_z_suspends_and_fg_resumes(home: Home) -> None:
    with home.script(shell("touch ran")) and Tmux(home, program="bash --norc") as terminal:
        terminal.enter(f"{shlex.quote(sys.executable)} -m buddy --sandbox host")
        terminal.wait_for("(shift-tab)")
        terminal.keys("C-z")
        terminal.wait_for("Stopped")
        terminal.enter("echo still $((40 + 2))")
        terminal.wait_for("still 42")
        terminal.enter("fg")
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("1 Yes")
        terminal.keys("C-z")
        terminal.wait_until(lambda screen: screen.count("Stopped") == 2)
        terminal.enter("fg")
        terminal.wait_for("1 Yes")
        terminal.keys("1")
        terminal.wait_for("✓ done")
    assert (home.work / "ran").exists()


@pytest.mark.slow
def test_text_typed_before_the_prompt_appears_is_sent(home: Home) -> None:
    with home.script({"text": "one"}, {"text": "two"}) and Tmux(home) as terminal:
        terminal.type("the first")
        terminal.keys("Enter")
        terminal.type("half of the second")
        terminal.wait_for("✓ done")
        terminal.wait_for("> half of the second")
        lines = terminal.screen().splitlines()
    assert "> the first" in lines
    assert lines[-2] == "> half of the second"

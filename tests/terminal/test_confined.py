"""The terminal without flags: commands are confined, and the first lines say so."""

import pytest

from buddy.targets.confine.probe import probe
from buddy.targets.confine.verdict import Verdict, write_verdict
from tests.harness.home import Home
from tests.harness.scripts import Reply, shell
from tests.harness.terminal import Tmux


@pytest.fixture(autouse=True)
def proven() -> None:
    proof = probe()
    if not proof.method:
        pytest.skip(proof.reason)


def online(command: str) -> Reply:
    return {"calls": [{"name": "run_shell", "args": {"command": command, "network": True}}]}


@pytest.mark.slow
def test_what_stays_inside_runs_and_anything_more_is_asked(home: Home) -> None:
    home.script(shell("touch offline"), online("touch online"), {"text": "over"})
    with Tmux(home, sandbox=None, columns=100, rows=40) as terminal:
        terminal.wait_for("commands run confined; Buddy asks for anything more")
        terminal.wait_for("approvals: automatic in the sandbox")
        terminal.enter("go")
        terminal.wait_for("run a shell command with network")
        terminal.wait_for("1 Yes")
        assert (home.work / "offline").exists()
        assert not (home.work / "online").exists()
        terminal.keys("1")
        terminal.wait_for("over")
        assert (home.work / "online").exists()
        terminal.enter("/status")
        terminal.wait_for("confined")
        assert "To watch" not in terminal.screen(history=True)


@pytest.mark.slow
def test_where_nothing_is_proven_it_says_that_it_asks(home: Home) -> None:
    home.state.mkdir(mode=0o700)
    write_verdict(str(home.state), Verdict("", "not on this machine"))
    with home.script(shell("touch made"), {"text": "over"}) and Tmux(home, sandbox=None, columns=100) as terminal:
        terminal.wait_for("commands run as your user; Buddy asks first")
        terminal.enter("go")
        terminal.wait_for("run a shell command")
        assert not (home.work / "made").exists()


@pytest.mark.slow
def test_a_pane_that_was_asked_for_is_there_and_its_commands_are_asked(home: Home) -> None:
    with home.script(shell("touch made"), {"text": "over"}) and Tmux(home, "--tmux", sandbox=None) as terminal:
        terminal.wait_for("Buddy asks first")
        terminal.enter("go")
        terminal.wait_for("run a shell command")
        assert "To watch" in terminal.screen(history=True)


def test_the_policy_changes_to_auto_and_back(home: Home) -> None:
    with home.script({"text": "hi"}) and Tmux(home, sandbox=None, columns=100) as terminal:
        terminal.wait_for("approvals: automatic in the sandbox")
        terminal.enter("/approve 10m")
        terminal.wait_for("auto-approving everything for")
        terminal.keys("BTab")
        terminal.wait_for("approvals: automatic in the sandbox (shift-tab)")
        terminal.enter("/approve ask")
        terminal.wait_for("approvals: ask (shift-tab)")
        terminal.keys("BTab")
        terminal.wait_for("approvals: automatic in the sandbox (shift-tab)")

"""Commands of an interactive session run in a shared tmux pane if tmux is available."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from buddy.terminal.phrases import watch_command
from tests.harness.home import Home
from tests.harness.scripts import shell
from tests.harness.terminal import Tmux


def panes(home: Home) -> list[str]:
    """The windows of the managed sessions, as tmux lists them."""
    listing = ["tmux", "list-windows", "-a", "-F", "#{session_name}:#{window_name}"]
    return subprocess.run(listing, env=home.env, capture_output=True, text=True, check=False).stdout.split()


def pane_text(home: Home, session: str) -> str:
    command = ["tmux", "capture-pane", "-p", "-J", "-t", session]
    return subprocess.run(command, env=home.env, capture_output=True, text=True, check=True).stdout


def test_a_command_runs_in_a_pane_that_the_screen_names(home: Home) -> None:
    command = "echo from; echo the pane"
    with home.script(shell(command), {"text": "over"}) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        assert panes(home) == []
        terminal.enter("go")
        screen = terminal.wait_until(lambda screen: "1 Yes" in screen)
        (window,) = panes(home)
        session, _, name = window.partition(":")
        assert name == "buddy-shared"
        assert f"Commands run in a shared pane. To watch: tmux attach -t {session}" in screen
        terminal.keys("1")
        assert "    from\n    the pane" in terminal.wait_for("✓ done")
        assert "from\nthe pane" in pane_text(home, session)
        terminal.enter("/status")
        screen = terminal.wait_for("daemon  ")
        assert f"tmux attach -t {session}" in screen
        assert "send-keys" in screen


@pytest.mark.slow
def test_a_command_in_the_pane_outlives_the_daemon(home: Home) -> None:
    command = "echo early; while ! [ -e go ]; do sleep 0.05; done; echo late"
    with home.script(shell(command), {"text": "over"}) and Tmux(home, "--approve", "all") as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("    early")
        os.kill(int((home.state / "daemon.lock").read_text()), signal.SIGKILL)
        terminal.wait_for("Lost connection to the daemon")
        (home.work / "go").touch()
        home.run("daemon", "start")
        screen = terminal.wait_for("✓ done")
    assert "Resuming the interrupted run" in screen
    assert "    late" in screen
    assert "Unknown whether" not in screen


@pytest.mark.slow
def test_the_pane_can_be_turned_off(home: Home) -> None:
    with home.script(shell("echo plain"), {"text": "over"}) and Tmux(home, "--no-tmux", "--approve", "all") as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        assert "To watch: " not in terminal.wait_for("✓ done")
    assert panes(home) == []


@pytest.mark.slow
def test_without_tmux_everything_works_and_nothing_mentions_it(home: Home) -> None:
    programs = home.directory / "programs"
    programs.mkdir()
    for name in ("sh", "bash", "env", "cat", "git"):
        (programs / name).symlink_to(str(shutil.which(name)))
    home.env["PATH"] = str(programs)
    with home.script(shell("echo plain"), {"text": "over"}).terminal("--approve", "all") as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.type("go\r")
        terminal.wait_for("done")
        terminal.type("\x04")
        assert terminal.finish() == 0
    assert b"plain" in terminal.shown
    assert b"tmux" not in terminal.shown


def test_the_pane_itself_is_refused(home: Home) -> None:
    program = f"tmux rename-window buddy-shared; {sys.executable} -m buddy"
    with home.script({"text": "hi"}) and Tmux(home, program=program) as terminal:
        screen = terminal.wait_for("[ended 64]")
    assert "error: commands run in this pane" in screen
    assert "hint: start buddy in another terminal, or with --no-tmux" in screen


def test_inside_the_same_tmux_the_hint_switches_the_client() -> None:
    default = f"/tmp/tmux-{os.getuid()}/default"  # noqa: S108 - where tmux has it
    assert watch_command("tmux attach -t b", {}) == "tmux attach -t b"
    assert watch_command("tmux attach -t b", {"TMUX": f"{default},7,0"}) == "tmux switch-client -t b"
    assert watch_command("tmux attach -t b", {"TMUX": "/run/other,7,0"}) == "tmux attach -t b"
    assert watch_command("ssh -t h 'tmux attach -t b'", {"TMUX": f"{default},7,0"}) == "ssh -t h 'tmux attach -t b'"


@pytest.mark.slow
def test_a_pane_is_removed_with_the_daemon_unless_it_is_used(home: Home) -> None:
    home.script(shell("echo hello"), {"text": "over"})
    assert home.run("exec", "--tmux", "--approve", "all", "go").code == 0
    assert panes(home) == []  # no daemon: it ends with the command
    own = ["tmux", "new-session", "-d", "-s", "mine"]
    subprocess.run(own, env=home.env, check=True)
    home.run("daemon", "start")
    home.script(shell("echo hello"), {"text": "over"})
    assert home.run("exec", "--tmux", "--approve", "all", "go").code == 0
    assert home.run("exec", "--tmux", "mine", "--approve", "all", "go").code == 0
    assert len(panes(home)) == 3
    home.run("daemon", "stop")
    assert sorted({window.partition(":")[0] for window in panes(home)}) == ["mine"]

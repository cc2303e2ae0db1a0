"""`buddy resume` in a script: it follows a run, and answers no question that is put to somebody else."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_mcp import add
from tests.harness.home import Home
from tests.harness.processes import RunningCommand
from tests.harness.scripts import shell

QUESTION = "approve? [y/N]"
ASKING = ("--approve", "ask", "--sandbox", "host")


@pytest.fixture
def stopped(home: Home) -> Iterator[Home]:
    """A daemon that the test starts does not outlive it."""
    yield home.script(shell("touch made"), {"text": "made it"})
    home.run("daemon", "stop")


def configure(home: Home, line: str) -> None:
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text().replace("[agent]\n", f"[agent]\n{line}\n"))


def made(home: Home) -> Path:
    return home.work / "made"


def wait_for_error(running: RunningCommand, text: str) -> bytes:
    """Read stderr up to the line with a text."""
    stderr = running.process.stderr
    assert stderr is not None
    while line := stderr.readline():
        if text.encode() in line:
            return line
    raise AssertionError(f"it ended without {text!r}")


def approval_in(text: str) -> str:
    return text.partition("show|approve|deny ")[2].split()[0].rstrip(";")


def test_a_question_at_another_terminal_is_waited_for(stopped: Home) -> None:
    assert stopped.run("daemon", "start").code == 0
    with stopped.terminal("exec", "go", *ASKING) as terminal:
        terminal.wait_for(QUESTION)
        with stopped.start("resume", "last") as script:
            told = wait_for_error(script, "waiting for somebody to decide with buddy approvals show|approve|deny appr_")
            assert b"(expires in 4m" in told
            terminal.type("y\n")
            done = script.finish()
        assert (done.code, done.out) == (0, "made it\n"), done.err
        assert terminal.finish() == 0
    assert b"denied by" not in terminal.shown
    assert made(stopped).exists()


@pytest.mark.slow
def test_a_question_that_nobody_answers_ends_the_wait(stopped: Home) -> None:
    configure(stopped, "approval_timeout_seconds = 3")
    assert stopped.run("daemon", "start").code == 0
    with stopped.terminal("exec", "go", *ASKING) as terminal:
        terminal.wait_for(QUESTION)
        done = stopped.run("resume", "last")
        assert done.code == 3
        assert "approval timed out; denied" in done.err
        assert terminal.finish() == 3


@pytest.mark.parametrize("with_daemon", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_parked_question_stays_open(stopped: Home, with_daemon: bool) -> None:
    configure(stopped, 'approval_timeout = "park"')
    if with_daemon:
        assert stopped.run("daemon", "start").code == 0
    parked = stopped.run("exec", "go", *ASKING)
    assert parked.code == 75, parked.err
    followed = stopped.run("resume", "last")
    assert (followed.code, followed.out) == (75, ""), followed.err
    assert "denied" not in followed.err
    assert "waiting for approval to run a shell command" in followed.err
    assert approval_in(followed.err) == approval_in(parked.err)
    assert stopped.run("approvals", "approve", approval_in(parked.err)).code == 0
    done = stopped.run("resume", "last")
    assert (done.code, done.out) == (0, "made it\n"), done.err
    assert made(stopped).exists()


def test_a_question_of_a_run_that_was_killed_stays_open(stopped: Home) -> None:
    with stopped.terminal("exec", "go", *ASKING, "--max-time", "10m") as terminal:
        terminal.wait_for(QUESTION)
    first = stopped.run("resume", "last")
    assert first.code == 75, first.err
    assert "denied" not in first.err
    again = stopped.run("resume", "last")
    assert (again.code, approval_in(again.err)) == (75, approval_in(first.err))
    assert stopped.run("approvals", "approve", approval_in(first.err)).code == 0
    done = stopped.run("resume", "last")
    assert (done.code, done.out) == (0, "made it\n"), done.err
    assert made(stopped).exists()


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_question_of_an_interactive_session_stays_open(stopped: Home, is_killed: bool) -> None:
    with stopped.terminal("--no-tmux", "--sandbox", "host", size=(100, 30)) as terminal:
        terminal.wait_for("approvals: ask")
        terminal.type("go\r")
        terminal.wait_for("touch made")
        if is_killed:
            os.kill(json.loads(stopped.run("daemon", "status", "--json").out)["pid"], signal.SIGKILL)
        done = stopped.run("resume", "last")
        assert done.code == 75, done.err
        assert "error: waiting for approval to run a shell command" in done.err
    assert stopped.run("approvals", "approve", approval_in(done.err)).code == 0
    assert stopped.run("resume", "last").out == "made it\n"


@pytest.mark.slow
def test_a_servers_question_at_another_terminal_is_not_declined(stopped: Home) -> None:
    stopped.script({"calls": [{"name": "mcp__one__order", "args": {}}]}, {"text": "ordered"})
    add(stopped)
    assert stopped.run("daemon", "start").code == 0
    with stopped.terminal("exec", "go", "--approve", "ask") as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("y\n")
        terminal.wait_for("answer (size=… colour=…")
        done = stopped.run("resume", "last")
        assert done.code == 75
        assert "hint: answer it in: buddy attach sess_" in done.err
        terminal.type("colour=red\n")
        terminal.wait_for("ordered")

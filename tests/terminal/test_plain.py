"""The REPL without a terminal: lines in, replies out."""

import signal

import pytest

from tests.harness.home import Home
from tests.harness.scripts import shell


def test_every_line_is_a_prompt_and_replies_go_to_stdout(home: Home) -> None:
    done = home.script({"text": "**one**"}, {"text": "two\x1b[2J"}).run(stdin="first\n\nsecond\n")
    assert done.code == 0, done.err
    assert done.out == "**one**\ntwo\x1b[2J\n"
    assert "✓ done" in done.err
    assert "\x1b" not in done.err


def test_commands_work_and_approvals_are_not_asked(home: Home) -> None:
    done = home.script(shell("touch ran"), {"text": "Then not."}).run(
        "--sandbox", "host", stdin="go\n/status\n/nope\n/model\n/quit\nnever\n"
    )
    assert done.out == "Then not.\n"
    assert "denied by policy" in done.err
    assert "workspace" in done.err
    assert "✗ unknown command /nope" in done.err
    assert "1  script" in done.err
    assert "never" not in done.err
    assert not (home.work / "ran").exists()


def test_a_misspelt_command_is_not_a_prompt(home: Home) -> None:
    done = home.run("sesion", stdin="")
    assert done.code == 64
    assert "did you mean session?" in done.err


def test_exec_loads_no_editor(home: Home) -> None:
    home.script({"text": "hi"})
    home.env["PYTHONPROFILEIMPORTTIME"] = "1"
    done = home.run("exec", "go")
    assert done.code == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.err.splitlines() if line.startswith("import time:")}
    assert loaded
    assert not loaded & {"prompt_toolkit", "rich"}


@pytest.mark.slow
def test_a_dumb_terminal_gets_plain_lines(home: Home) -> None:
    home.env["TERM"] = "dumb"
    home.script(shell("touch ran"), {"text": "**Done** \x1b[2J"}, shell("sleep 60"), shell("sleep 61"))
    with home.terminal("--sandbox", "host") as terminal:
        terminal.wait_for("> ")
        terminal.type("go\n")
        terminal.wait_for("$ touch ran")
        terminal.wait_for("approve? [y/N] ")
        assert not (home.work / "ran").exists()
        terminal.type("y\n")
        terminal.wait_for("✓ done")
        terminal.type("!echo $((40 + 2))\n")
        terminal.wait_for("42\r\n")
        terminal.type("more\n")
        terminal.wait_for("approve? [y/N] ", times=2)
        terminal.type("yes\n")
        terminal.wait_for("✓ approved", times=2)
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("■ cancelled")
        terminal.type("again\n")
        terminal.wait_for("approve? [y/N] ", times=3)
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("■ cancelled", times=2)
        terminal.type("/cost\n")
        terminal.wait_for("tokens in")
        terminal.type("\x04")
        terminal.wait_for("Resume with: buddy resume sess_")
        assert terminal.finish() == 0
    assert (home.work / "ran").exists()
    assert b"\x1b" not in terminal.shown
    assert rb"**Done** \x1b[2J" in terminal.shown


@pytest.mark.slow
def test_text_at_a_question_on_a_dumb_terminal_decides_nothing(home: Home) -> None:
    home.env["TERM"] = "dumb"
    home.script(shell("touch ran"), {"text": "After it."})
    with home.terminal("--sandbox", "host") as terminal:
        terminal.wait_for("> ")
        terminal.type("go\n")
        terminal.wait_for("approve? [y/N] ")
        terminal.type("yes, but in src\n")
        terminal.wait_for("(that is no answer) approve? [y/N] ")
        assert b"denied by" not in terminal.shown
        terminal.type("y\n")
        terminal.wait_for("After it.")
        assert terminal.process.poll() is None
    assert (home.work / "ran").exists()


@pytest.mark.slow
def test_lines_typed_before_a_question_come_after_it(home: Home) -> None:
    home.env["TERM"] = "dumb"
    home.script({"text": "slow", "calls": [SLOW]}, shell("touch ran"), {"text": "Then not."}, {"text": "The next."})
    with home.terminal("--approve", "ask", "--sandbox", "host") as terminal:
        terminal.wait_for("> ")
        terminal.type("go\n")
        terminal.wait_for("approve? [y/N] ")
        terminal.type("y\n")
        terminal.wait_for("✓ approved")
        terminal.type("y\n")  # while the first command runs
        (home.work / "typed").mkdir()  # a file of that name would be part of what is approved
        terminal.wait_for("approve? [y/N] ", times=2)
        terminal.type("\x04")
        terminal.wait_for("the input ended, so this is denied")
        terminal.wait_for("Then not.")
        terminal.wait_for("The next.")
    assert not (home.work / "ran").exists()


SLOW = {"name": "run_shell", "args": {"command": "while ! test -d typed; do sleep 0.05; done"}}


@pytest.mark.slow
def test_an_interrupt_ends_it_while_it_waits_for_a_line(home: Home) -> None:
    with home.script({"text": "one"}).start() as running:
        running.feed(b"go\n")
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == b"one\n"
        running.signal(signal.SIGINT)
        assert running.finish().code == 130

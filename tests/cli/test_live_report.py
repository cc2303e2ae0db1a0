"""`buddy exec` on a terminal: what a person sees while it works, and that nothing of it reaches a pipe."""

import os
import pty
import re
import subprocess

import pytest

from buddy.cli import live_report
from buddy.cli.commands import parse
from buddy.cli.live_report import LiveReport
from tests.harness.home import Home
from tests.harness.processes import BUDDY
from tests.harness.scripts import shell, write_config, write_script

TALKATIVE = (shell("echo from the tool", "I look first."), {"text": "Here it is."})


def lines_of(shown: bytes) -> list[str]:
    """The lines of a terminal: a carriage return writes over what was there, colours take no room."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    shown_lines: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        cells: list[str] = []
        for part in line.split("\r"):
            cells[: len(part)] = part
        shown_lines.append("".join(cells).rstrip())
    return [line for line in shown_lines if line]


def test_words_and_tools_are_shown_in_order_and_the_answer_once(home: Home) -> None:
    with home.script(*TALKATIVE).terminal("exec", "go", "--approve", "all") as terminal:
        assert terminal.finish() == 0
    lines = [line for line in lines_of(terminal.shown) if not line.startswith("session ")]
    said = [line for line in lines if line in ("I look first.", "Here it is.")]
    assert said == ["I look first.", "Here it is."]
    at = lines.index("I look first.")
    assert lines[at + 1].startswith("▶ run_shell")
    assert lines[-1] == "Here it is."
    assert b"\x1b[36m" in terminal.shown


def test_the_answer_alone_is_on_a_redirected_stdout(home: Home) -> None:
    home.script(*TALKATIVE)
    master, slave = pty.openpty()
    command = [*BUDDY, "exec", "go", "--approve", "all"]
    done = subprocess.run(command, cwd=home.work, env=home.env, stdout=subprocess.PIPE, stderr=slave, check=True)
    os.close(slave)
    shown = os.read(master, 65536)
    os.close(master)
    assert done.stdout == b"Here it is.\n"
    assert {"I look first.", "Here it is."} <= set(lines_of(shown))


def test_words_are_shown_while_they_come(home: Home) -> None:
    with home.script({"text": "first second third", "delay": 3.0}).terminal("exec", "go") as terminal:
        terminal.wait_for("first ")
        assert b"third" not in terminal.shown
        terminal.wait_for("third")


def test_a_silent_run_shows_that_it_is_alive(home: Home) -> None:
    with home.script(shell("sleep 60")).terminal("exec", "go", "--approve", "all") as terminal:
        terminal.wait_for("Running run_shell · ")
        terminal.wait_for("· 2s")
        terminal.process.terminate()
        assert terminal.finish() == 2
    assert not [line for line in lines_of(terminal.shown) if "· 2s" in line], "it is erased before the next line"


def test_no_colour_means_no_animation_either(home: Home) -> None:
    home.env["NO_COLOR"] = "1"
    with home.script({"text": "one two", "delay": 0.6}).terminal("exec", "go") as terminal:
        assert terminal.finish() == 0
    assert b"\x1b" not in terminal.shown
    assert b"\r" not in terminal.shown.replace(b"\r\n", b"\n")
    assert lines_of(terminal.shown)[-1] == "one two"


def test_a_terminal_for_lines_gets_a_line_after_a_long_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(live_report.time, "monotonic", lambda: now[0])
    report = LiveReport(parse(["exec", "go"]))
    report.draw()
    assert capsys.readouterr().err == ""
    now[0] += 20
    report.draw()
    report.draw()
    assert capsys.readouterr().err == "Starting… · 20s\n"


def test_the_display_settings_apply(home: Home) -> None:
    script = write_script(home.directory, TALKATIVE)
    display = {"color": False, "show_tool_calls": False, "show_tokens": True}
    write_config(home.directory / ".config" / "buddy" / "buddy.toml", script, display=display)
    with home.terminal("exec", "go", "--approve", "all") as terminal:
        assert terminal.finish() == 0
    assert b"\x1b" not in terminal.shown
    assert not [line for line in lines_of(terminal.shown) if "run_shell" in line and "Running" not in line]
    assert [line for line in lines_of(terminal.shown) if "tokens in" in line]


def test_an_error_starts_a_line_of_its_own(home: Home) -> None:
    with home.script({"text": "half", "error": {"message": "gone"}}).terminal("exec", "go") as terminal:
        assert terminal.finish() == 1
    lines = lines_of(terminal.shown)
    assert "half" in lines
    assert [line for line in lines if line.startswith("error: ")]

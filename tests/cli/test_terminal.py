"""What a person sees and types: `buddy` on a terminal."""

import re
import signal
from itertools import count

import pytest

from tests.harness.home import Home
from tests.harness.pseudo_terminal import PseudoTerminal
from tests.harness.scripts import shell

NASTY = "a\x1b]0;owned\x07b\x9b31mc\u202ed\re"
QUESTION = "approve? [y/N] "
ON_HOST = ("exec", "go", "--sandbox", "host")
ASKED = re.compile(
    "└\r\n(?:[0-9:]+ left, )?(approve\\? \\[y/N\\] |Enter for page [0-9]+ of [0-9]+, n to deny: )".encode()
)


def test_yes_at_the_terminal_lets_the_command_run(home: Home) -> None:
    with home.script(shell("echo ran > ran"), {"text": "fine"}).terminal(*ON_HOST, size=(200, 24)) as terminal:
        terminal.wait_for(QUESTION)
        assert not (home.work / "ran").exists()
        terminal.type("y\n")
        assert terminal.finish() == 0
    assert (home.work / "ran").read_text() == "ran\n"
    for shown in (b"$ echo ran > ran", str(home.work).encode(), b"target: local", b"sandbox: host", b"approved by cli"):
        assert shown in terminal.shown


def page_through(terminal: PseudoTerminal, first: int = 1) -> int:
    """Turn pages until the question comes; returns how many there were."""
    for pages in count(first):
        terminal.wait_until(lambda shown, number=pages: len(ASKED.findall(shown)) == number)
        if ASKED.findall(terminal.shown)[-1] == QUESTION.encode():
            return pages
        terminal.type("\n")
    raise AssertionError


def rows_of(shown: bytes) -> list[str]:
    return shown.decode().split("\r\n")


def test_a_long_command_is_shown_to_its_end(home: Home) -> None:
    command = f"echo {'x' * 40_000} > ran # the end"
    with home.script(shell(command), {"text": "fine"}).terminal(*ON_HOST, size=(200, 50)) as terminal:
        pages = page_through(terminal)
        last = terminal.shown.decode().rpartition("┌ ")[2]
        terminal.type("n\n")
        assert terminal.finish() == 0
    assert pages > 3
    assert terminal.shown.count(b"x") >= 40_000
    assert "$ echo xxx" in last  # the beginning and the end are on the screen with the question
    assert "> ran # the end" in last


@pytest.mark.parametrize("typed", ["y\n", "yes\n"])
def test_yes_before_the_last_page_only_turns_it(home: Home, typed: str) -> None:
    command = "\n".join([*(f": line {number}" for number in range(50)), "touch ran"])
    with home.script(shell(command), {"text": "fine"}).terminal(*ON_HOST) as terminal:
        terminal.wait_for(", n to deny: ")
        terminal.type(typed)
        terminal.wait_for(", n to deny: ", times=2)
        assert not (home.work / "ran").exists()
        page_through(terminal, first=2)
        terminal.type(typed)
        assert terminal.finish() == 0
    assert (home.work / "ran").exists()


@pytest.mark.parametrize("typed", ["n\n", "NO\n", "\x04"])
def test_a_command_can_be_denied_on_its_first_page(home: Home, typed: str) -> None:
    command = "\n".join([*(f": line {number}" for number in range(50)), "touch ran"])
    with home.script(shell(command), {"text": "fine"}).terminal(*ON_HOST) as terminal:
        terminal.wait_for(", n to deny: ")
        terminal.type(typed)
        assert terminal.finish() == 0
    assert b"denied by cli" in terminal.shown
    assert not (home.work / "ran").exists()


PADDING = {
    "blank lines": "\n" * 300,
    "a forged prompt": "\n" * 24 + "root@vm$ git status\n  target: local\n  sandbox: host\napprove? [y/N] y",
    "a forged frame": "\n└\n" + "\n" * 30 + "┌ run a shell command\n│ $ git status\n└",
    "blanks": " " * 4000,
    "tabs": "\t" * 600,
    "other blanks": "\u3000" * 2000,
    "fillers": "\u3164\n" * 100,
    "marks": "e" + "\u0301" * 3000,
}


@pytest.mark.parametrize("padding", PADDING.values(), ids=PADDING.keys())
def test_padding_does_not_hide_a_command(home: Home, padding: str) -> None:
    with home.script(shell(f"touch ran; : #{padding}x"), {"text": "fine"}).terminal(*ON_HOST) as terminal:
        page_through(terminal)
        screen = rows_of(terminal.shown)[-24:]
        terminal.type("n\n")
        assert terminal.finish() == 0
    first = next(at for at, row in enumerate(screen) if row.startswith("┌ run a shell command"))
    assert "$ touch ran; : #" in screen[first + 1]
    assert screen[-2] == "└"
    assert all(row.startswith("│ ") and len(row) <= 80 for row in screen[first + 1 : -2])


def test_a_file_is_shown_as_a_diff(home: Home) -> None:
    write = {"name": "write_file", "args": {"path": "a.txt", "content": "one\n" + "long " * 10_000 + "\nlast\n"}}
    with home.script({"calls": [write]}, {"text": "fine"}).terminal(*ON_HOST, size=(250, 50)) as terminal:
        page_through(terminal)
        terminal.type("y\n")
        assert terminal.finish() == 0
    shown = terminal.shown.decode()
    assert "┌ write a file" in shown
    assert f"{home.work}/a.txt" in shown
    assert "\r\n│ +one\r\n" in shown
    assert "\r\n│ +last\r\n" in shown
    assert "alwaysRule" not in shown
    assert "sha256" not in shown


@pytest.mark.parametrize("typed", ["n\n", "no \n", "\n", "\x04"])
def test_after_a_no_the_run_continues(home: Home, typed: str) -> None:
    with home.script(shell("echo ran > ran"), {"text": "Then not."}).terminal(*ON_HOST) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type(typed)
        assert terminal.finish() == 0
    assert not (home.work / "ran").exists()
    assert b"Then not." in terminal.shown
    assert b"denied by cli" in terminal.shown
    assert (b"the input ended, so this is denied" in terminal.shown) == (typed == "\x04")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["maybe\n", "yes, but only in src\n", "1\n", "no tests yet\n", "first\ny\n", "y\nn\n"])
@pytest.mark.parametrize("lines", [1, 50])
def test_a_text_at_the_question_decides_nothing_and_is_asked_again(home: Home, text: str, lines: int) -> None:
    command = "\n".join([*(f": line {number}" for number in range(lines)), "echo ran > ran"])
    with home.script(shell(command), {"text": "fine"}).terminal(*ON_HOST) as terminal:
        terminal.wait_for(QUESTION if lines == 1 else ", n to deny: ")
        terminal.type(text)
        terminal.wait_for("(that is no answer) ")
        assert b"denied by" not in terminal.shown
        assert not (home.work / "ran").exists()
        terminal.type("n\n")
        assert terminal.finish() == 0
    assert b"denied by cli" in terminal.shown
    assert not (home.work / "ran").exists()


def test_what_was_typed_before_the_question_does_not_answer_it(home: Home) -> None:
    with home.script(shell("echo ran > ran"), {"text": "fine"}).terminal(*ON_HOST, typed="y\n") as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("n\n")
        assert terminal.finish() == 0
    assert not (home.work / "ran").exists()


def test_an_interrupt_at_the_question_cancels_the_run_at_once(home: Home) -> None:
    with home.script(shell("echo ran > ran")).terminal(*ON_HOST) as terminal:
        terminal.wait_for(QUESTION)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.finish() == 2
    assert not (home.work / "ran").exists()


def test_the_end_of_the_input_does_not_grant_trust(home: Home) -> None:
    home.script({"text": "hi"})
    (home.work / "buddy.toml").write_text('[[permissions.rules]]\ndecision = "deny"\nargv = ["rm", "**"]\n')
    home.env["TERM"] = "dumb"
    try:
        for _ in range(2):
            with home.terminal() as terminal:
                terminal.wait_for("Trust these files as they are now? [y/N] ")
                terminal.type("\x04")
                terminal.wait_for("\r\nbuddy ")
                terminal.wait_for("> ")
                terminal.type("\x04")
                assert terminal.finish() == 0
    finally:
        home.run("daemon", "stop")


def test_two_questions_are_asked_one_after_the_other(home: Home) -> None:
    script = home.script(shell("echo one >> ran"), shell("echo two >> ran"), {"text": "fine"})
    with script.terminal(*ON_HOST) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("yes\n")
        terminal.wait_for(QUESTION, times=2)
        assert b"$ echo two >> ran" in terminal.shown
        terminal.type("y\n")
        assert terminal.finish() == 0
    assert (home.work / "ran").read_text() == "one\ntwo\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["exec", NASTY.replace("\r", "")],
        ["exec", "go", "--json"],
        ["exec", "go", "--stream-json"],
        ["session", "show", "last"],
        ["session", "export", "last"],
        ["session", "list"],
        ["session", "list", "--json"],
    ],
)
def test_what_comes_from_outside_is_only_text_on_a_terminal(home: Home, arguments: list[str]) -> None:
    home.env["NO_COLOR"] = "1"
    home.script(shell(f"printf '{NASTY}'", NASTY), {"text": NASTY}, {"text": NASTY}).run(
        "exec", NASTY, "--approve", "all"
    )
    with home.script({"text": NASTY}).terminal(*arguments) as terminal:
        assert terminal.finish() == 0
    plain = terminal.shown.decode().replace("\r\n", "\n")
    for character in ("\x1b", "\x07", "\x9b", "\u202e", "\r"):
        assert character not in plain
    assert "owned" in plain


def test_colour_is_ours_and_can_be_turned_off(home: Home) -> None:
    home.script({"text": "hi"}).run("exec", "go")
    with home.terminal("session", "show", "last") as terminal:
        terminal.finish()
    assert b"\x1b[" in terminal.shown
    home.env["NO_COLOR"] = "1"
    with home.terminal("session", "show", "last") as terminal:
        terminal.finish()
    assert b"\x1b" not in terminal.shown


def test_a_question_counts_down_and_its_expiry_ends_the_run_as_denied(home: Home) -> None:
    home.script(shell("echo ran > ran"), {"text": "fine"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text().replace("[agent]\n", "[agent]\napproval_timeout_seconds = 3\n"))
    with home.terminal(*ON_HOST) as terminal:
        terminal.wait_for(f"00:03 left, {QUESTION}")
        terminal.wait_for("\x1b7\r00:02\x1b8")
        assert terminal.finish() == 3
    shown = terminal.shown.decode()
    assert "denied: nobody decided in time whether run_shell may run" in shown
    assert not (home.work / "ran").exists()

"""Text from outside that would control the terminal: in replies, commands, output, names and diffs.

The bytes that reach the terminal are recorded, and searched for anything but our own styling and the editor's drawing.
"""

import os
import re
import unicodedata

import pytest

from buddy.terminal.key_bindings import safe_text
from tests.harness.home import Home
from tests.harness.scripts import shell
from tests.harness.terminal import Tmux

# Sequences that clear, retitle, write the clipboard, link; string terminators; characters that reorder, hide or join.
NASTY = (
    "a\x1b[2Jb\x1b]0;owned\x07c\x1b]52;c;aGk=\x07d\x1bPq\x1b\\e\x9b31mf\x9d0;x\x9cg\u202eh\u2066i\u200bj\x08k\x7fl"
    "\x1b[201~m 漢字 e\u0301 \ufeffn\x1b]8;;http://x.test\x1b\\o\x1b]8;;\x1b\\p\u061cq\u00adr\U000e0041s\x0bt\x85u"
)
RETURNS = "safe\rrm -rf /\rsafe"
# What the editor draws with: colours, cursor moves, erasing, modes. None of these can carry text.
OURS = re.compile(r"\x1b[78]|\x1b\[(?:[0-9;]*m|[0-9]*[ABCDJK]|\?(?:1|7|12|25|1004|2004)[hl]|[0-9]+;[0-9]+H|0? q|2 q)")


def checked(shown: bytes) -> None:
    text = OURS.sub("", shown.decode())
    assert "\x1b" not in text, re.findall(r".{0,10}\x1b.{0,10}", text)[:5]
    # The bell is our own, and so are the line ends.
    hidden = {character for character in text if unicodedata.category(character) in ("Cc", "Cf", "Cs")}
    assert hidden <= {"\r", "\n", "\a"}, hidden
    assert b"\x1b]" not in shown
    assert b"\x1b[2J" not in shown


@pytest.mark.parametrize("policy", ["ask", "all"])
def test_no_control_byte_from_outside_reaches_the_terminal(home: Home, policy: str) -> None:
    (home.work / "made\x1b[2J\u202e.txt").write_text("")
    diff = {
        "text": "",
        "calls": [{"name": "write_file", "args": {"path": "a.txt", "content": f"{NASTY}\n{RETURNS}\n"}}],
    }
    reply = {"text": f"{NASTY}\n\n```sh\n{NASTY}\n```\n\n{RETURNS}\n", "thinking": NASTY}
    call = shell(f"printf '%s' '{NASTY}{RETURNS}'; ls", f"# {NASTY}\n\n| {NASTY} |\n|---|\n| x |\n")
    home.script(call, diff, {"text": "", "calls": [{"name": f"no{NASTY}", "args": {NASTY: NASTY}}]}, reply)
    recorded = home.directory / "recorded"
    with Tmux(home, "--approve", policy, columns=100, rows=50) as terminal:
        terminal.record(recorded)
        terminal.wait_for("(shift-tab)")
        terminal.paste(NASTY)
        terminal.wait_for("owned")
        terminal.keys("Enter")
        for question in ("$ printf", "+++") if policy == "ask" else ():
            terminal.wait_until(lambda screen, text=question: text in screen and "1 Yes" in screen)
            terminal.keys("1")
        terminal.wait_for("✓ done")
        terminal.enter("/session")
        terminal.wait_for("sess_")
        terminal.keys("C-d")
        terminal.wait_for("[ended 0]")
    shown = recorded.read_bytes()
    checked(shown)
    assert rb"\x1b[2J" in shown
    assert rb"\u202e" in shown
    assert rb"safe\x0drm -rf /\x0dsafe" in shown


@pytest.mark.slow
def test_a_replayed_session_is_just_as_harmless(home: Home) -> None:
    home.script(shell(f"printf '%s' '{NASTY}'", NASTY), {"text": NASTY}).run("exec", NASTY, "--approve", "all")
    recorded = home.directory / "recorded"
    with Tmux(home, "resume", "--last", rows=50) as terminal:
        terminal.record(recorded)
        terminal.wait_for("✓ done")
    checked(recorded.read_bytes())


@pytest.mark.slow
def test_names_and_errors_are_just_as_harmless(home: Home) -> None:
    home.script({"text": "", "error": {"message": NASTY}})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    spelt = "".join(f"\\U{ord(character):08X}" for character in NASTY)
    config.write_text(config.read_text() + f'model = "{spelt}"\n')
    recorded = home.directory / "recorded"
    with Tmux(home, columns=100, rows=50) as terminal:
        terminal.record(recorded)
        terminal.wait_for("(shift-tab)")
        terminal.paste(NASTY)
        terminal.wait_for("owned")
        terminal.keys("Enter")
        terminal.wait_for("✗ failed")
        terminal.enter("/status")
        terminal.wait_for("daemon ")
        terminal.enter("/session")
        terminal.wait_for("ago · ")
        for command in ("/model", "/resume"):
            terminal.enter(command)
            terminal.wait_for("Esc to cancel")
            terminal.keys("q")
            terminal.wait_until(lambda screen: "Esc to cancel" not in screen)
        terminal.keys("C-d")
        terminal.wait_for("[ended 0]")
        terminal.keys("C-d")
    shown = recorded.read_bytes()
    checked(shown)
    assert shown.count(rb"\x1b]0;owned") > 3


def test_control_characters_are_removed_from_pasted_text() -> None:
    assert safe_text("a\x1b[2Jb\r\nc\u202ed") == "a[2Jb\ncd"


def test_the_check_notices_control_sequences() -> None:
    for bad in (b"\x1b]0;x\x07", b"\x1b[2J", "\u202e".encode(), b"\x1bPq"):
        with pytest.raises(AssertionError):
            checked(b"x" + bad)
    assert os.linesep == "\n"

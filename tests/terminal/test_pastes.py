"""Long pasted texts in the real program: a label in the input, the whole text for the model."""

import pytest
from prompt_toolkit.buffer import Buffer

from buddy.terminal.paste_input import is_paste, may_be_paste
from buddy.terminal.pastes import PastedTexts
from tests.harness.home import Home
from tests.harness.terminal import ENDLESS, Tmux

LINES = "\n".join(f"pasted {number}" for number in range(1, 13))


def test_a_long_paste_is_a_label_and_is_sent_whole(home: Home) -> None:
    with home.script({"text": "hi"}) and Tmux(home, rows=40) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.type("look at ")
        terminal.paste(LINES)
        terminal.wait_for("> look at [Pasted ~12 lines]")
        terminal.type(" please")
        screen = terminal.wait_for("[Pasted ~12 lines] please")
        assert "pasted 7" not in screen
        terminal.keys("Enter")
        screen = terminal.wait_for("✓ done")
        assert "> look at pasted 1\n  pasted 2\n" in screen
        assert "pasted 12 please" in screen
        assert "[Pasted" not in screen
        terminal.keys("Up")  # history has the whole text, too
        terminal.wait_until(lambda screen: screen.count("pasted 12 please") == 2)


@pytest.mark.slow
def test_a_long_line_is_a_label_and_a_short_text_is_not(home: Home) -> None:
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.paste("one\ntwo")
        terminal.wait_for("> one\n  two")
        terminal.paste("y" * 1001)
        terminal.wait_for("  two[Pasted ~1 line]")


def test_backspace_removes_a_pasted_text_as_one(home: Home) -> None:
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.type("before ")
        terminal.paste(LINES)
        terminal.paste(LINES)
        terminal.wait_for("> before [Pasted ~12 lines][Pasted ~12 lines #2]")
        terminal.keys("BSpace")
        terminal.wait_until(lambda screen: "> before [Pasted ~12 lines]\n" in screen)
        terminal.keys("C-w")
        terminal.wait_until(lambda screen: "> before\n" in screen)


@pytest.mark.slow
def test_the_external_editor_gets_the_whole_text(home: Home) -> None:
    editor = home.directory / "editor"
    editor.write_text('#!/bin/sh\ncount=$(wc -w < "$1")\necho $count words > "$1"\n')
    editor.chmod(0o755)
    home.env["EDITOR"] = home.env["VISUAL"] = str(editor)
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.paste(LINES)
        terminal.wait_for("> [Pasted ~12 lines]")
        terminal.keys("C-g")
        terminal.wait_for("> 24 words")


@pytest.mark.slow
def test_a_long_message_that_comes_back_from_the_queue_is_a_label(home: Home) -> None:
    with home.script(ENDLESS) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("the quick")
        terminal.paste(LINES)
        terminal.wait_for("> [Pasted ~12 lines]")
        terminal.keys("Enter")
        terminal.wait_for("  queued: pasted 1 pasted 2")
        terminal.keys("Escape")
        terminal.wait_for("■ cancelled")
        terminal.wait_for("> [Pasted ~12 lines]")


@pytest.mark.slow
def test_a_paste_that_the_terminal_does_not_mark_is_not_sent_line_by_line(home: Home) -> None:
    text = "\n".join(f"line {number} of a text that is too long to be typed" for number in range(1, 101))
    with home.script({"text": "hi"}) and Tmux(home, rows=40) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.paste(text + "\n", marked=False)
        terminal.wait_for("> [Pasted ~100 lines]")
        terminal.keys("Enter")
        screen = terminal.wait_for("✓ done", history=True)
        assert "  line 2 of a text that is too long to be typed" in screen
        assert screen.count("✓ done") == 1


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        ("one line that is rather long\r" * 4, True),
        ("one line that is rather long\r" * 4 + "and a last one", True),
        ("one line that is rather long\n" * 4, False),  # newlines do not submit
        ("hello\rthere\ragain\rand more\r", False),  # somebody types fast, or a script does
        ("a long message that a script sends " * 3 + "\r/status\r/cost\r/quit\r", False),
        ("a long message that a script sends " * 4 + "\r", False),
        ("one line that is rather long\r" * 4 + "\x03", False),
    ],
)
def test_only_what_nobody_types_counts_as_a_paste(data: str, is_one: bool) -> None:
    assert (may_be_paste(data) and is_paste(data)) is is_one


def test_a_pasted_label_is_not_expanded_again() -> None:
    buffer = Buffer()
    pastes = PastedTexts(buffer)
    first, second = "[Pasted ~12 lines #2]\n" + "a\n" * 11, "b\n" * 12
    pastes.insert(first)
    pastes.insert(second)
    assert buffer.text == "[Pasted ~12 lines][Pasted ~12 lines #2]"
    pastes.expand()
    assert buffer.text == first + second

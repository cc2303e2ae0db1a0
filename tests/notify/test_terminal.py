"""How a terminal calls its person, by the language it understands."""

import base64

import pytest

from buddy.terminal.attention import IDLE_SECONDS, Attention, notification, style_for


@pytest.mark.parametrize(
    ("env", "style"),
    [
        ({"TERM": "xterm-kitty"}, "osc99"),
        ({"TERM": "xterm-ghostty"}, "osc9"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "osc9"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "osc9"),
        ({"TERM": "foot"}, "osc777"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, "osc777"),
        ({"TERM": "xterm-256color"}, "bell"),
    ],
)
def test_the_language_is_chosen_by_the_terminal(env: dict[str, str], style: str) -> None:
    assert style_for(True, env) == style
    assert style_for("osc9", env) == "osc9" and style_for(False, env) == ""


def test_in_tmux_a_notification_is_passed_through_and_the_bell_is_not() -> None:
    found = notification("osc9", "Buddy", "done", in_tmux=True)
    assert found == "\a\x1bPtmux;\x1b\x1b]9;Buddy: done\x1b\x1b\\\x1b\\"


def test_text_of_a_model_cannot_leave_its_notification() -> None:
    found = notification("osc9", "Buddy", "x\x1b\\\x1b]0;evil\a\x9c", in_tmux=False)
    assert found.count("\x1b") == 2 and found.count("\a") == 1 and "\x9c" not in found
    kitty = notification("osc99", "t", "a;b\x1b", in_tmux=False)
    assert base64.b64encode(b"a;b ").decode() in kitty
    assert notification("osc777", "a;b", "c", in_tmux=False).count(";") == 3


def test_a_terminal_without_focus_reports_is_looked_at_for_a_while_after_each_key() -> None:
    now, changes = [0.0], list[bool]()
    attention = Attention(changes.append, lambda: now[0])
    now[0] = IDLE_SECONDS - 1
    attention.tick()
    assert attention.is_looking
    now[0] = IDLE_SECONDS + 1
    attention.tick()
    attention.note_key()
    now[0] = 2 * IDLE_SECONDS + 3
    attention.tick()
    assert changes == [False, True, False]


def test_a_focus_report_is_believed() -> None:
    now, changes = [0.0], list[bool]()
    attention = Attention(changes.append, lambda: now[0])
    attention.note_focus(True)
    now[0] = 10 * IDLE_SECONDS
    attention.tick()
    assert attention.is_looking and changes == []
    attention.note_focus(False)
    assert changes == [False]

"""Whether a person looks at this terminal, and how it calls them if not.

Invariants: a terminal that reports its focus is believed; one that does not counts as looked at for a while after each
key. Text of models reaches a notification without control characters.
"""

import base64
import os
import subprocess
import time
from collections.abc import Callable, Mapping

from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired, QuestionAsked, RunComplete

BELL = "\a"
IDLE_SECONDS = 30.0
MAX_TEXT = 300
TMUX_SECONDS = 2.0
_ST = "\x1b\\"
# By the name of the terminal, the notifications that it understands; everything else gets the bell alone.
_BY_TERM = {
    "kitty": "osc99",
    **dict.fromkeys(("ghostty", "wezterm", "iterm"), "osc9"),
    **dict.fromkeys(("foot", "rxvt", "vte", "contour"), "osc777"),
}


class Attention:
    def __init__(self, changed: Callable[[bool], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`changed` is called whenever somebody starts or stops looking."""
        self.is_looking = True
        self._changed = changed
        self._clock = clock
        self._has_focus_reports = False
        self._last_key = clock()

    def note_key(self) -> None:
        self._last_key = self._clock()
        if not self._has_focus_reports:
            self._set(True)

    def note_focus(self, has_focus: bool) -> None:
        self._has_focus_reports = True
        self._set(has_focus)

    def tick(self) -> None:
        """Some time has passed."""
        if not self._has_focus_reports and self._clock() - self._last_key > IDLE_SECONDS:
            self._set(False)

    def _set(self, looking: bool) -> None:
        if looking != self.is_looking:
            self.is_looking = looking
            self._changed(looking)


class TerminalNotifier:
    """Calls the person of a terminal that nobody looks at."""

    def __init__(self, attention: Attention, setting: bool | str, send: Callable[[str], None]) -> None:
        self._attention = attention
        self.style = style_for(setting, os.environ)
        self._send = send
        self._in_tmux = bool(os.environ.get("TMUX"))

    def note(self, event: Event) -> None:
        """Something happened in the session that the terminal shows."""
        if self._attention.is_looking or not self.style:
            return
        match event.body():
            case ApprovalRequired() as asked:
                self._call("Buddy needs you", f"{asked.title}: {asked.summary}")
            case QuestionAsked() as asked:
                self._call("Buddy needs you", f"{asked.source} asks: {asked.message}")
            case RunComplete() as complete:
                self._call("Buddy has finished", complete.summary or complete.outcome)
            case _:
                pass

    def _call(self, title: str, text: str) -> None:
        self._send(notification(self.style, title, text[:MAX_TEXT], in_tmux=self._in_tmux))


def notification(style: str, title: str, text: str, *, in_tmux: bool) -> str:
    """What to write to the terminal: the bell, and a notification in its language."""
    title, text = _plain(title), _plain(text)
    match style:
        case "osc9":
            sequence = f"\x1b]9;{title}: {text}{_ST}"
        case "osc777":
            sequence = f"\x1b]777;notify;{title.replace(';', ',')};{text}{_ST}"
        case "osc99":
            sequence = (
                f"\x1b]99;i=buddy:d=0:e=1;{_encode(title)}{_ST}\x1b]99;i=buddy:d=1:e=1:p=body;{_encode(text)}{_ST}"
            )
        case _:
            return BELL
    return BELL + (f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}{_ST}" if in_tmux else sequence)


def style_for(setting: bool | str, env: Mapping[str, str]) -> str:
    """`bell`, `osc9`, `osc777`, `osc99`, or empty for nothing."""
    if isinstance(setting, str):
        return setting
    if not setting:
        return ""
    name = _outer_terminal() if env.get("TMUX") else f"{env.get('TERM', '')} {env.get('TERM_PROGRAM', '')}"
    name = f"{name} vte" if env.get("VTE_VERSION") and not env.get("TMUX") else name
    return next((style for known, style in _BY_TERM.items() if known in name.lower()), "bell")


def _outer_terminal() -> str:
    """The terminal that tmux runs in: variables of the environment may be those of another one."""
    command = ["tmux", "display-message", "-p", "#{client_termname} #{client_termtype}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TMUX_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

"""What a headless run shows on a terminal: the words as they come, what the run does, and that it is alive.

Everything here goes to stderr. The answer goes to stdout as always, except where both are the same terminal and it has
just been shown.

Invariants: the activity line is drawn only where no other line is open, and erased before anything else is written; a
terminal that only shows lines, or wants no colour, gets a line after a long silence instead.
"""

import os
import sys
import time
from typing import TYPE_CHECKING, cast

from buddy.cli.options import Options
from buddy.cli.report import Report
from buddy.config.paths import config_path
from buddy.terminal.escape import escape, one_line
from buddy.terminal.phrases import format_duration, format_tokens
from buddy.terminal.style import Style, style_of

if TYPE_CHECKING:
    from buddy.protocol.json_events import JsonEvent, Progress

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS = 0.25
SILENT_SECONDS = 15.0


class LiveReport(Report):
    def __init__(self, options: Options) -> None:
        super().__init__(json=options.json, stream_json=False)
        display = _read_display(options)
        self._show_tokens = display.get("show_tokens") is True
        self._show_calls = display.get("show_tool_calls") is not False
        self._can_draw = style_of(sys.stderr, os.environ).on
        self._style = Style(on=self._can_draw and display.get("color") is not False)
        self._shares_terminal = _is_same_terminal()
        self._step = "Starting…"
        self._started = time.monotonic()
        self._drawn_at = self._started  # when anything was written last
        self._drawn = 0  # the width of the activity line on the screen
        self._is_open = False  # whether the cursor is in the middle of a line
        self._reply = ""  # the reply that is being shown
        self._shown = ""  # the last complete reply that was shown
        self._questions: set[str] = set()

    def event(self, event: "JsonEvent", line: bytes) -> bool:
        if event["type"] == "progress":
            self._step = _describe(event["payload"])
        elif event["type"] == "assistant_token":
            self._end_thought()
            self._write(event["payload"]["text"])
        elif event["type"] != "thinking_token":
            self._follow_reply(event)
            self._follow_questions(event)
        is_shown = super().event(event, line)
        if time.monotonic() - self._drawn_at >= FRAME_SECONDS and event["type"] != "run_complete":
            self.draw()
        return is_shown

    def draw(self) -> None:
        """Show that the run is alive: what it does, and for how long it has been running."""
        now = time.monotonic()
        if self._questions and self._can_draw:
            self.while_asking()
        if self._is_open or self._questions or now - self._drawn_at < (0 if self._can_draw else SILENT_SECONDS):
            return
        text = one_line(f"{self._step} · {format_duration(now - self._started)}", _columns() - 3)
        if not self._can_draw:
            self._print_line(text)
            return
        self._erase()
        self._drawn, self._drawn_at = len(text) + 2, now
        frame = FRAMES[int(now / FRAME_SECONDS) % len(FRAMES)]
        print(f"{self._style.cyan(frame)} {self._style.dim(text)}", end="", file=sys.stderr, flush=True)

    def pause(self) -> None:
        """Leave the cursor at the beginning of an empty line."""
        self._erase()
        if self._is_open:
            print(file=sys.stderr, flush=True)
        self._is_open = False

    def _line_of(self, event: "JsonEvent") -> str | None:
        match event["type"]:
            case "tool_call" | "tool_result" if not self._show_calls:
                return None
            case "usage" if self._show_tokens:
                usage = event["payload"]
                text = f"{format_tokens(usage['inputTokens'])} tokens in, {format_tokens(usage['outputTokens'])} out"
                return self._style.dim(text)
            case _:
                text = super()._line_of(event)
        return text if text is None else self._paint(event["type"], text)

    def _print_line(self, text: str) -> None:
        self.pause()
        self._drawn_at = time.monotonic()
        super()._print_line(text)

    def _print_answer(self, text: str) -> None:
        self.pause()
        if not (self._shares_terminal and text == self._shown):
            super()._print_answer(text)

    def _follow_reply(self, event: "JsonEvent") -> None:
        match event["type"]:
            case "assistant_restart":
                self.pause()
                self._reply = ""
            case "assistant_message":
                self._end_thought()
                if not self._reply:  # it came in one piece
                    self._write(event["payload"]["text"])
                self._shown, self._reply = self._reply, ""
                self.pause()
            case "run_complete":
                self.pause()
            case _:
                pass

    def _follow_questions(self, event: "JsonEvent") -> None:
        match event["type"]:
            case "approval_required":
                self.pause()
                self._questions.add(event["payload"]["approvalId"])
            case "approval_received" | "approval_expired":
                self._questions.discard(event["payload"]["approvalId"])
            case "run_started" | "run_complete":
                self._questions.clear()
            case _:
                pass

    def _write(self, text: str) -> None:
        if not text:
            return
        self._erase()
        self._drawn_at = time.monotonic()
        self._reply += text
        self._is_open = not text.endswith("\n")
        print(escape(text), end="", file=sys.stderr, flush=True)

    def _erase(self) -> None:
        if self._drawn:
            print("\r" + " " * self._drawn + "\r", end="", file=sys.stderr, flush=True)
        self._drawn = 0

    def _paint(self, kind: str, text: str) -> str:
        match kind:
            case "tool_call":
                return self._style.cyan(text)
            case "error":
                return self._style.red(text)
            case "warning" | "approval_expired" | "recovery" | "hook_finished":
                return self._style.yellow(text)
            case _:
                return self._style.dim(text)


def _describe(progress: "Progress") -> str:
    match progress["kind"]:
        case "provider_call":
            return "Thinking…"
        case "tool_execution":
            return f"Running {', '.join(progress.get('toolNames') or ['tools'])}"
        case "rolling_summary":
            return "Summarizing older messages…"


def _columns() -> int:
    try:
        return max(10, os.get_terminal_size(sys.stderr.fileno()).columns or 80)
    except OSError:
        return 80


def _is_same_terminal() -> bool:
    if not sys.stdout.isatty():
        return False
    ours, theirs = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)


def _read_display(options: Options) -> dict[str, object]:
    """The table [display]. The whole configuration is not loaded for it: that takes longer than a warm start."""
    named = options.config or os.environ.get("BUDDY_CONFIG") or f"{config_path(os.environ)}/buddy.toml"
    try:
        with open(os.path.expanduser(named), "rb") as file:  # noqa: PTH111, PTH123 - avoids importing pathlib
            content = file.read()
    except OSError:
        return {}  # a missing file is reported where it is needed
    if b"display" not in content:
        return {}
    import tomllib

    try:
        table = tomllib.loads(content.decode()).get("display")
    except ValueError:
        return {}
    return cast("dict[str, object]", table) if isinstance(table, dict) else {}

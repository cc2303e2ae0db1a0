"""What is under way, in one line above the input: how long, what, how much of it.

What always holds: it fits into one line of any width, and it is drawn by the editor, never written over its input.
"""

import time
from collections.abc import Callable

from buddy.client.view import RunView
from buddy.terminal.escape import one_line
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN = "|/-\\"
FRAME_SECONDS = 0.1


class Liveness:
    def __init__(self, style: Style, now: Callable[[], float] = time.time) -> None:
        self._style = style
        self._now = now
        self.message = ""
        self.started_ts = 0
        self.deadline: float | None = None

    def end_in(self, seconds: float) -> None:
        self.deadline = self._now() + seconds

    def line(self, run: RunView, columns: int, *, waiting: bool) -> str:
        """The line for an active run."""
        began = run.started_ts or self.started_ts
        seconds = max(0.0, self._now() - began / 1000) if began else 0.0
        parts = [duration(seconds)]
        parts.append("waiting for your decision" if waiting else one_line(self.message or "starting", 200))
        if run.input_tokens or run.output_tokens:
            parts.append(f"{amount(run.input_tokens)} in, {amount(run.output_tokens)} out")
        if self.deadline is not None:
            parts.append(f"{duration(max(0.0, self.deadline - self._now()))} left")
        parts.append("esc interrupts")
        text = cut(" · ".join(parts), max(10, columns - 3))
        return f"{self._style.cyan(self._frame())} {self._style.dim(text)}"

    def _frame(self) -> str:
        frames = FRAMES if self._style.on else PLAIN
        return frames[int(self._now() / FRAME_SECONDS) % len(frames)]


def duration(seconds: float) -> str:
    """`4s`, `2m 05s`, `1h 02m`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def amount(tokens: int) -> str:
    """`812`, `4.1k`, `1.2M`."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"

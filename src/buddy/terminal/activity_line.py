"""What the active run is doing, in one line above the input.

Invariants: it fits on one line of any width; the editor draws it, so it is never written over the input.
"""

import time
from collections.abc import Callable, Sequence

from buddy.client.view import RunView
from buddy.protocol.basics import NO_EXPIRY
from buddy.protocol.events import Progress
from buddy.terminal.escape import one_line
from buddy.terminal.phrases import format_deadline, format_duration, format_tokens, plural
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"
FRAME_SECONDS = 0.1


class ActivityLine:
    def __init__(self, style: Style, now: Callable[[], float] = time.time) -> None:
        self._style = style
        self._now = now
        self._started_ts = 0
        self._progress: Progress | None = None
        self._progress_ts = 0
        self._is_stopping = False
        self._deadline: float | None = None

    def start_run(self, ts: int) -> None:
        self._started_ts, self._progress, self._is_stopping = ts, None, False

    def update(self, progress: Progress, ts: int) -> None:
        """Apply a progress event. Repeated events of one step do not restart that step's clock."""
        before = self._progress
        if before is None or (before.kind, before.turn) != (progress.kind, progress.turn):
            self._progress_ts = ts
        self._progress = progress

    def restart_step(self, ts: int) -> None:
        """Restart the step's clock: waiting for an approval does not count."""
        self._progress_ts = ts

    def stop_run(self) -> None:
        self._is_stopping = True

    def end_run(self) -> None:
        self._deadline = None

    def set_deadline(self, at: float) -> None:
        self._deadline = at

    def line(
        self,
        run: RunView,
        columns: int,
        *,
        is_waiting: bool,
        expires_at: int = NO_EXPIRY,
        agents: Sequence[str] = (),
    ) -> str:
        """The line for an active run; `expires_at` is when the approval does that it waits for.

        `agents` are the sub-agents that work for it.
        """
        parts = [*self._step(is_waiting=is_waiting)]
        if agents and not (is_waiting or self._is_stopping):
            parts[0] = f"Waiting for {plural(len(agents), 'sub-agent')}: {one_line(', '.join(agents), 100)}"
        if is_waiting and (left := format_deadline(expires_at, self._now())):
            parts.insert(1, left)
        if started := run.started_ts or self._started_ts:
            parts.append(f"{self._since(started)} total")
        if run.input_tokens or run.output_tokens:
            parts.append(f"{format_tokens(run.input_tokens)} in, {format_tokens(run.output_tokens)} out")
        if self._deadline is not None:
            parts.append(f"{format_duration(max(0.0, self._deadline - self._now()))} left")
        parts.append("Esc to interrupt")
        text = cut(" · ".join(parts), max(10, columns - 3))
        return f"{self._style.cyan(self._frame(is_waiting=is_waiting))} {self._style.dim(text)}"

    def _step(self, *, is_waiting: bool) -> list[str]:
        progress = self._progress
        if self._is_stopping:
            return ["Stopping…"]
        if progress is None:
            return ["Waiting for your approval" if is_waiting else "Starting…"]
        turn = f"turn {progress.turn}/{progress.max_turns}"
        if is_waiting:
            return ["Waiting for your approval", turn]
        match progress.kind:
            case "provider_call":
                return ["Thinking…", turn]
            case "tool_execution":
                names = one_line(", ".join(progress.tool_names or ("tools",)), 100)
                return [f"Running {names}", self._since(self._progress_ts), turn]
            case "rolling_summary":
                return ["Summarizing older messages…", turn]

    def _since(self, ts: int) -> str:
        return format_duration(max(0.0, self._now() - ts / 1000))

    def _frame(self, *, is_waiting: bool) -> str:
        """Waiting for a person, it stands still: a terminal left open must not use the processor."""
        frames = FRAMES if self._style.on else PLAIN_FRAMES
        return frames[0 if is_waiting else int(self._now() / FRAME_SECONDS) % len(frames)]

"""The screen: finished text goes above the input and becomes the terminal's own scrollback.

Invariants: erasing the input, writing above it and redrawing it is one write, so nothing flickers; many small texts
become few writes; while another program has the terminal, nothing is written.
"""

import asyncio
import contextlib
import os
from collections.abc import Generator
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import CPR_Support, Renderer

INTERVAL = 0.04
FOCUS_ON, FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"


class BatchedOutput(Vt100_Output):
    """Writes to the terminal; inside `batch()`, everything goes out in one write."""

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        def size() -> Size:
            # A terminal that does not know its size reports 0.
            found = os.get_terminal_size(stream.fileno())
            return Size(rows=found.lines or 24, columns=found.columns or 80)

        depth = None if colour else ColorDepth.DEPTH_1_BIT
        # No cursor position requests: some terminals never answer them.
        super().__init__(stream, size, default_color_depth=depth, enable_cpr=False)
        self._is_batching = False

    @contextlib.contextmanager
    def batch(self) -> Generator[None, None, None]:
        """Write everything in one piece at the end."""
        with self.hold():
            yield
        self.flush()

    @contextlib.contextmanager
    def hold(self) -> Generator[None, None, None]:
        """Leave it to the next flush after this to write."""
        self._is_batching = True
        try:
            yield
        finally:
            self._is_batching = False

    def flush(self) -> None:
        if not self._is_batching:
            super().flush()


class ReflowRenderer(Renderer):
    """Also erases rows that a narrower window has wrapped: the terminal splits a row that no longer fits."""

    def render(self, app: "Application[Any]", layout: Layout, is_done: bool = False) -> None:
        # A redraw between the resize and its signal would otherwise land below the old drawing.
        if self._last_size is not None and self._last_size != self.output.get_size():
            self.erase(leave_alternate_screen=False)
        super().render(app, layout, is_done)

    def has_shrunk(self, layout: Layout) -> bool:
        """Whether fewer rows are needed than were drawn: the editor would leave the rest empty above the toolbar."""
        size, drawn = self.output.get_size(), self.last_rendered_screen
        if drawn is None or self._last_size != size:
            return False
        return layout.container.preferred_height(size.columns, size.rows).preferred < drawn.height

    def erase(self, leave_alternate_screen: bool = True) -> None:
        self.output.cursor_up(self._added_rows())
        if self.last_rendered_screen is not None and self.last_rendered_screen.height > 1:
            self._erase_top_row_first()
        super().erase(leave_alternate_screen)

    def _erase_top_row_first(self) -> None:
        """The top row, then the rest: some terminals move a screen that is cleared at once into their scrollback."""
        self.output.cursor_backward(self._cursor_pos.x)
        self.output.cursor_up(self._cursor_pos.y)
        self.output.erase_end_of_line()
        self.output.cursor_down(1)
        self.output.erase_down()
        self.output.cursor_up(1)
        self._cursor_pos = Point(x=0, y=0)

    def _added_rows(self) -> int:
        """How many rows a resize has added above the cursor since the last drawing."""
        columns, drawn = self.output.get_size().columns, self.last_rendered_screen
        if drawn is None or self._last_size is None or columns >= self._last_size.columns:
            return 0
        rows = (drawn.data_buffer[row] for row in range(self._cursor_pos.y))
        # Trailing blanks are not written, so they do not wrap.
        ends = (max((at for at, cell in row.items() if cell.char.strip()), default=0) for row in rows)
        return sum(end // columns for end in ends) + self._cursor_pos.x // columns


class Screen:
    """Writes above the input of an application; plainly, while none is running."""

    def __init__(self, output: BatchedOutput) -> None:
        self.output = output
        self._app: Application[str] | None = None
        self._pending: list[str] = []
        self._flush_timer: asyncio.TimerHandle | None = None
        self._redraw_timer: asyncio.TimerHandle | None = None
        self._flushed_at = 0.0
        self._suspensions = 0
        self._reports_focus = False

    def attach(self, app: "Application[str]") -> None:
        self._app = app
        renderer = app.renderer = ReflowRenderer(app.renderer.style, self.output)

        def prepare(_: object) -> None:
            if renderer.has_shrunk(app.layout):
                with self.output.hold():
                    renderer.erase(leave_alternate_screen=False)
            self._place(app)

        app.before_render += prepare

    @property
    def columns(self) -> int:
        return self.output.get_size().columns

    @property
    def rows(self) -> int:
        return self.output.get_size().rows

    def print_above(self, text: str) -> None:
        """Write lines into the scrollback, with the next flush."""
        self._pending.append(text + "\n")
        if self._flush_timer is None and not self._suspensions:
            loop = asyncio.get_running_loop()
            self._flush_timer = loop.call_later(max(0.0, self._flushed_at + INTERVAL - loop.time()), self.flush)

    def redraw(self) -> None:
        """Redraw the input soon; not at once, so that streaming does not delay the echo of keys."""
        if self._redraw_timer is None:
            self._redraw_timer = asyncio.get_running_loop().call_later(INTERVAL, self._redraw)

    def _redraw(self) -> None:
        self._redraw_timer = None
        if self._app is not None and not self._suspensions:
            self._app.invalidate()

    def flush(self) -> None:
        """Write what is pending, now."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._suspensions or not self._pending:
            return
        text = "".join(self._pending)
        self._pending.clear()
        self._flushed_at = asyncio.get_running_loop().time()
        app = self._app
        if app is not None and app.is_running and app.context is not None:
            app.context.copy().run(self._draw, app, text)
        else:
            self.output.write_raw(text)
            self.output.flush()

    def send(self, sequence: str) -> None:
        """Send a sequence that moves and draws nothing."""
        self.output.write_raw(sequence)
        self.output.flush()

    def report_focus(self, *, on: bool) -> None:
        """Have the terminal report whether it has the focus, except while another program has it."""
        self._reports_focus = on
        self.send(FOCUS_ON if on else FOCUS_OFF)

    def clear(self) -> None:
        """Empty the screen; the scrollback stays."""
        self.flush()
        if self._app is not None and self._app.is_running and not self._suspensions:
            self._app.renderer.clear()
            self._place(self._app)
            self.redraw()

    @contextlib.contextmanager
    def suspended(self) -> Generator[None, None, None]:
        """Another program has the terminal."""
        self._suspensions += 1
        if self._reports_focus:
            self.send(FOCUS_OFF)
        try:
            yield
        finally:
            self._suspensions -= 1
            if self._reports_focus:
                self.send(FOCUS_ON)
            self.flush()

    def _draw(self, app: "Application[str]", text: str) -> None:
        with self.output.batch():
            app.renderer.erase(leave_alternate_screen=False)
            self.output.write_raw(text)
            self._place(app)
            app.renderer.render(app, app.layout)

    def _place(self, app: "Application[str]") -> None:
        """Claim that the input is at the bottom, so that the editor draws its toolbar directly below it."""
        if not app.renderer.height_is_known:
            app.renderer.report_absolute_cursor_row(self.rows)
            # Once it knows a row, the editor would request the cursor position after the next resize.
            app.renderer.cpr_support = CPR_Support.NOT_SUPPORTED

"""The one screen: what is finished goes above the input and becomes the terminal's own scrollback.

What always holds: erasing the input, writing above it and drawing it again is one write, so nothing flickers; many
small texts become few writes; while another program has the terminal, nothing is written.
"""

import asyncio
import contextlib
from collections.abc import Generator
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import CPR_Support, Renderer

INTERVAL = 0.04


class HeldOutput(Vt100_Output):
    """Writes to the terminal; what is written while it is held leaves in one piece."""

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        import os

        def size() -> Size:
            # A terminal that does not know its size says 0.
            found = os.get_terminal_size(stream.fileno())
            return Size(rows=found.lines or 24, columns=found.columns or 80)

        depth = None if colour else ColorDepth.DEPTH_1_BIT
        # Asking the terminal where its cursor is would need an answer, and some never give one.
        super().__init__(stream, size, default_color_depth=depth, enable_cpr=False)
        self._held = False

    @contextlib.contextmanager
    def held(self) -> Generator[None, None, None]:
        self._held = True
        try:
            yield
        finally:
            self._held = False
            self.flush()

    def flush(self) -> None:
        if not self._held:
            super().flush()


class Reflowing(Renderer):
    """Erases what a narrower window has wrapped: a terminal makes two rows of one that no longer fits."""

    def render(self, app: "Application[Any]", layout: Layout, is_done: bool = False) -> None:
        # A drawing that comes between the new size and the signal that tells of it would be put under the old one.
        if self._last_size is not None and self._last_size != self.output.get_size():
            self.erase(leave_alternate_screen=False)
        super().render(app, layout, is_done)

    def erase(self, leave_alternate_screen: bool = True) -> None:
        self.output.cursor_up(self._added_rows())
        if self.last_rendered_screen is not None and self.last_rendered_screen.height > 1:
            self._erase_in_two()
        super().erase(leave_alternate_screen)

    def _erase_in_two(self) -> None:
        """The row on top, then those below: what clears a whole screen at once goes into some terminals' scrollback."""
        self.output.cursor_backward(self._cursor_pos.x)
        self.output.cursor_up(self._cursor_pos.y)
        self.output.erase_end_of_line()
        self.output.cursor_down(1)
        self.output.erase_down()
        self.output.cursor_up(1)
        self._cursor_pos = Point(x=0, y=0)

    def _added_rows(self) -> int:
        """How many rows the last drawing got above the cursor since it was drawn."""
        columns, drawn = self.output.get_size().columns, self.last_rendered_screen
        if drawn is None or self._last_size is None or columns >= self._last_size.columns:
            return 0
        rows = (drawn.data_buffer[row] for row in range(self._cursor_pos.y))
        # Blanks at the end of a row are not written, so they do not wrap.
        ends = (max((at for at, cell in row.items() if cell.char.strip()), default=0) for row in rows)
        return sum(end // columns for end in ends) + self._cursor_pos.x // columns


class Screen:
    """Writes above the input of an application, or simply writes where none is running."""

    def __init__(self, output: HeldOutput) -> None:
        self.output = output
        self._app: Application[str] | None = None
        self._waiting: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._drawing: asyncio.TimerHandle | None = None
        self._last = 0.0
        self._away = 0

    def show(self, app: "Application[str]") -> None:
        self._app = app
        app.renderer = Reflowing(app.renderer.style, self.output)

        def place(_: object) -> None:
            self._place(app)

        app.before_render += place

    @property
    def columns(self) -> int:
        return self.output.get_size().columns

    @property
    def rows(self) -> int:
        return self.output.get_size().rows

    def above(self, text: str) -> None:
        """Write lines into the scrollback, very soon."""
        self._waiting.append(text + "\n")
        if self._timer is None and not self._away:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, self._last + INTERVAL - loop.time()), self.flush)

    def redraw(self) -> None:
        """Draw the input again, soon: what streams in must not be in the way of a key's echo."""
        if self._drawing is None:
            self._drawing = asyncio.get_running_loop().call_later(INTERVAL, self._redraw)

    def _redraw(self) -> None:
        self._drawing = None
        if self._app is not None and not self._away:
            self._app.invalidate()

    def flush(self) -> None:
        """Write what waits, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._away or not self._waiting:
            return
        text = "".join(self._waiting)
        self._waiting.clear()
        self._last = asyncio.get_running_loop().time()
        app = self._app
        if app is not None and app.is_running and app.context is not None:
            app.context.copy().run(self._draw, app, text)
        else:
            self.output.write_raw(text)
            self.output.flush()

    @contextlib.contextmanager
    def away(self) -> Generator[None, None, None]:
        """Another program has the terminal."""
        self._away += 1
        try:
            yield
        finally:
            self._away -= 1
            self.flush()

    def _draw(self, app: "Application[str]", text: str) -> None:
        with self.output.held():
            app.renderer.erase(leave_alternate_screen=False)
            self.output.write_raw(text)
            self._place(app)
            app.renderer.render(app, app.layout)

    def _place(self, app: "Application[str]") -> None:
        """Say that below the input there may be nothing: the editor then draws its toolbar right there."""
        if not app.renderer.height_is_known:
            app.renderer.report_absolute_cursor_row(self.rows)
            # Being told a row, the editor would ask the terminal for it the next time, as after a resize.
            app.renderer.cpr_support = CPR_Support.NOT_SUPPORTED

"""The one screen: what is finished goes above the input and becomes the terminal's own scrollback.

What always holds: erasing the input, writing above it and drawing it again is one write, so nothing flickers; many
small texts become few writes; while another program has the terminal, nothing is written.
"""

import asyncio
import contextlib
from collections.abc import Generator
from typing import TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import CPR_Support

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

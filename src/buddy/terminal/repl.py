"""The REPL: an editor at the bottom, finished text above it, and a session in the daemon behind both.

Invariants: the editor is never blocked by what happens; quitting stops nothing that the daemon runs; a request that
fails is shown and ends nothing.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Sequence

from buddy.errors import ProtocolError
from buddy.protocol.attention_requests import SetAttention
from buddy.protocol.requests import AcceptedReply
from buddy.terminal.attention import Attention, TerminalNotifier
from buddy.terminal.blocks import error_block
from buddy.terminal.completion import InputCompleter, WorkspaceFiles
from buddy.terminal.current_session import CurrentSession
from buddy.terminal.dialogs import Dialogs
from buddy.terminal.editor import Editor
from buddy.terminal.escape import one_line
from buddy.terminal.event_feed import EventFeed, FullEvents
from buddy.terminal.event_renderer import EventRenderer
from buddy.terminal.history import ScrubbedHistory
from buddy.terminal.key_actions import KeyActions
from buddy.terminal.key_bindings import create_bindings, safe_text
from buddy.terminal.line_runner import InputLine, LineRunner
from buddy.terminal.local_programs import LocalPrograms
from buddy.terminal.markdown import load_renderer
from buddy.terminal.prompt_area import PromptArea
from buddy.terminal.repl_ui import ReplUI
from buddy.terminal.run_control import RunControl
from buddy.terminal.screen import Screen
from buddy.terminal.settings import TerminalSettings
from buddy.terminal.slash import listed_commands
from buddy.terminal.style import Style
from buddy.terminal.tasks import BackgroundTasks
from buddy.terminal.wrap import fold

# A spinner turns; clocks and countdowns show seconds.
SPINNER_SECONDS = 0.1
CLOCK_SECONDS = 1.0
LISTED_SECONDS = 3.0
"""How old the list of commands may be before it is asked for again."""


class Repl:
    """Puts the parts together, and runs them until the person quits."""

    def __init__(
        self,
        session: CurrentSession,
        settings: TerminalSettings,
        screen: Screen,
        style: Style,
        history: ScrubbedHistory,
        answer: Callable[[str], None] | None = None,
    ) -> None:
        """With `answer`, the model's replies go there unrendered: stdout is not the terminal."""
        self._session = session
        self._screen = screen
        self._style = style
        self._queue: asyncio.Queue[InputLine] = asyncio.Queue()
        self._tasks = BackgroundTasks(lambda error: screen.print_above(self._fold(error_block(error, style))))
        programs = LocalPrograms(screen, style)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listed_at = 0.0
        full_events = FullEvents(session)
        renderer = EventRenderer(
            session, settings.display, style, lambda: screen.columns, screen.print_above, answer, self._fold
        )
        self._control = RunControl(session, programs, self._tasks, self._give_back)
        self._editor = Editor(screen, history, InputCompleter(self._commands, WorkspaceFiles(session.initial.root)))
        dialogs = Dialogs(
            screen,
            style,
            self._editor.buffer,
            self._control.decide,
            full_events.read_approval,
        )
        self._area = PromptArea(session, renderer, dialogs, programs, screen, style)
        self._attention = self._editor.listen(Attention(self._tell_attention))
        notifier = self._notifier = TerminalNotifier(self._attention, settings.notify, screen.send)
        self._feed = EventFeed(session, full_events, renderer, dialogs, screen, notifier.note)
        ui = ReplUI(
            session,
            settings,
            style,
            screen,
            self._editor,
            dialogs,
            renderer,
            self._control,
            programs,
            self._queue,
        )
        self._lines = LineRunner(ui, self._queue, self._tasks, self._is_connection_lost)
        keys = KeyActions(
            ui,
            self._editor,
            dialogs,
            self._control,
            programs,
            self._tasks,
            self._is_connection_lost,
            self._area.notify,
        )
        bindings = create_bindings(keys, self._editor.pastes)
        self._editor.configure(bindings, dialogs.input.cancel_key, self._area.message, self._area.toolbar)

    def _fold(self, text: str) -> str:
        return fold(text, self._screen.columns)

    def _give_back(self, texts: Sequence[str]) -> None:
        """Put texts into the input, before what is there."""
        if texts:
            self._editor.prepend(safe_text("\n".join(texts)))
            self._screen.redraw()

    def set_connection_lost(self, is_lost: bool) -> None:
        self._area.is_connection_lost = is_lost
        self._screen.redraw()
        if not is_lost:
            self._tell_attention(self._attention.is_looking)

    def _tell_attention(self, looking: bool) -> None:
        async def tell() -> None:
            with contextlib.suppress(ProtocolError, ConnectionError):  # an older daemon does not ask
                await self._session.client.request(SetAttention(looking), AcceptedReply)

        self._tasks.start(tell())

    async def run(self, first: str | None = None) -> None:
        """Run until the person quits or the terminal is closed."""
        if first:
            self._editor.remember(first)
            self._queue.put_nowait(InputLine(first))
        loop = self._loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._editor.quit)
        self._tell_attention(True)
        for work in (self._follow(), self._lines.run(), self._tick(), self._load_commands()):
            self._tasks.start(work)
        try:
            with contextlib.suppress(EOFError, KeyboardInterrupt):
                await self._editor.run(self._load_renderer)
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            if self._notifier.style:
                self._screen.report_focus(on=False)
            await self._tasks.close()
            self._screen.flush()

    async def _load_commands(self) -> None:
        self._listed_at = time.monotonic()
        with contextlib.suppress(ConnectionError):
            await self._session.list_commands()

    def _commands(self) -> list[tuple[str, str]]:
        """What can be completed: the built-in commands, those from files and the prompts of servers as last listed.

        They are listed again meanwhile: servers come and go. The completer may run in a thread.
        """
        if self._loop is not None and time.monotonic() - self._listed_at > LISTED_SECONDS:
            self._listed_at = time.monotonic()
            self._loop.call_soon_threadsafe(lambda: self._tasks.start(self._load_commands()))
        prepared = [(f"/{one.name}", one_line(one.description, 80)) for one in self._session.prepared]
        return [*listed_commands(), *prepared]

    async def _follow(self) -> None:
        await self._feed.run()
        self._screen.print_above(self._style.red("The daemon closed the connection"))
        self._editor.quit()

    async def _tick(self) -> None:
        """Keep the spinner, the clocks and the countdowns current; what has not changed is not drawn again."""
        while True:
            if self._area.is_spinning:
                await asyncio.sleep(SPINNER_SECONDS)
            else:
                await self._area.wait_spinning(CLOCK_SECONDS)
            self._attention.tick()
            if self._area.has_changed():
                self._screen.redraw()

    def _load_renderer(self) -> None:
        """The prompt is up: load what the first reply needs while nobody is waiting."""
        if self._notifier.style:
            self._screen.report_focus(on=True)
        self._tasks.start(asyncio.to_thread(load_renderer))

    def _is_connection_lost(self) -> bool:
        return self._area.is_connection_lost

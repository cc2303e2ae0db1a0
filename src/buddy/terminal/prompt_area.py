"""What is drawn around the input: text still streaming in, the activity line, a dialog, the prompt, the toolbar."""

import asyncio
import time
from contextlib import suppress

from prompt_toolkit.formatted_text import ANSI

from buddy.protocol.basics import NO_EXPIRY
from buddy.terminal.current_session import CurrentSession
from buddy.terminal.dialogs import Dialogs
from buddy.terminal.escape import one_line
from buddy.terminal.event_renderer import EventRenderer
from buddy.terminal.local_programs import LocalPrograms
from buddy.terminal.screen import Screen
from buddy.terminal.status_line import Branch, prompt_text, toolbar_text
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut

PROGRAM_RUNNING = "Running your command; messages are held until it finishes (Esc to stop)"
MOST_QUEUED = 3
# Beside an approval that waits, the clock moves this often; every second when it is about to expire.
CALM_SECONDS = 5.0
SOON_SECONDS = 60.0
CONNECTION_LOST = "Lost connection to the daemon. Press Enter to restart it."


class PromptArea:
    def __init__(
        self,
        session: CurrentSession,
        renderer: EventRenderer,
        dialogs: Dialogs,
        programs: LocalPrograms,
        screen: Screen,
        style: Style,
    ) -> None:
        self._session = session
        self._spins = asyncio.Event()
        self._renderer = renderer
        self._dialogs = dialogs
        self._programs = programs
        self._screen = screen
        self._style = style
        self.is_connection_lost = False
        self._notice = ""
        self._branch = Branch()
        self._drawn_at = 0.0
        self._activity_drawn: list[str] = []
        self._toolbar_drawn = ""
        self._message_drawn = ""
        self._parsed = ANSI("")

    @property
    def is_spinning(self) -> bool:
        """Whether something moves all the time; not while the run waits for the person."""
        return self._session.active is not None and not (self._dialogs.is_approval_open or self.is_connection_lost)

    async def wait_spinning(self, seconds: float) -> None:
        """Wait until something moves, at most for `seconds`: a process that only waits wakes once a second."""
        self._spins.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._spins.wait()

    @property
    def _is_calm(self) -> bool:
        """Whether an approval waits and does not expire soon: then the clock need not show every second."""
        expires_at = min((one["expiresAt"] for one in self._session.view.approvals.values()), default=NO_EXPIRY)
        return self._dialogs.is_approval_open and expires_at / 1000 - time.time() > SOON_SECONDS

    def has_changed(self) -> bool:
        """Whether time alone has changed what is shown."""
        if self._is_calm and time.monotonic() - self._drawn_at < CALM_SECONDS:
            return False
        is_same = self._activity(self._screen.columns) == self._activity_drawn
        return not is_same or self._toolbar_text() != self._toolbar_drawn

    def message(self) -> ANSI:
        columns, rows = self._screen.columns, self._screen.rows
        prompt = prompt_text(self._session.facts.target)
        self._drawn_at = time.monotonic()
        if self.is_spinning:
            self._spins.set()
        self._activity_drawn = self._activity(columns)
        activity = [*self._activity_drawn, *self._queued(columns)]
        tail = [] if self._dialogs.is_approval_open else self._renderer.tail(columns, rows)
        # The toolbar and the input take the rest: an approval must not be pushed off the screen by either.
        dialog = self._dialogs.lines(columns, rows - len(activity) - self._dialogs.input_rows(columns, prompt) - 1)
        text = "\n".join([*tail, *activity, *dialog, self._style.green(self._style.bold(prompt))])
        if text != self._message_drawn:  # the editor asks several times for each drawing, and parsing is most of it
            self._message_drawn, self._parsed = text, ANSI(text)
        return self._parsed

    def _activity(self, columns: int) -> list[str]:
        run = self._session.view.runs.get(self._session.active or "")
        if self.is_connection_lost:
            return [self._style.yellow(cut(CONNECTION_LOST, columns - 1))]
        if self._programs.is_running:
            return [self._style.dim(cut(PROGRAM_RUNNING, columns - 1))]
        if run is not None:
            asked = next(iter(self._session.view.approvals.values()), None)
            expires_at = asked["expiresAt"] if asked is not None else NO_EXPIRY
            is_waiting = self._dialogs.is_approval_open
            agents = [child["agent"] for child in self._session.view.children.values()]
            line = self._renderer.activity.line
            return [line(run, columns, is_waiting=is_waiting, expires_at=expires_at, agents=agents)]
        return []

    def _queued(self, columns: int) -> list[str]:
        """The messages that wait, the latest last."""
        waiting = self._session.queued
        rows = [f"  {'next turn' if one.steers else 'queued'}: {one_line(one.text, columns)}" for one in waiting]
        if len(rows) > MOST_QUEUED:
            rows = [f"  … {len(rows) - MOST_QUEUED} more", *rows[-MOST_QUEUED:]]
        hint = [f"{rows.pop()} (Up to edit)"] if rows else []
        return [self._style.dim(cut(row, columns - 1)) for row in (*rows, *hint)]

    def notify(self, text: str, seconds: float) -> None:
        """Show a text in the toolbar for a while."""
        self._notice = text
        asyncio.get_running_loop().call_later(seconds, self._clear_notice, text)
        self._screen.redraw()

    def _clear_notice(self, text: str) -> None:
        if self._notice == text:
            self._notice = ""
            self._screen.redraw()

    def toolbar(self) -> ANSI:
        self._toolbar_drawn = self._toolbar_text()
        return ANSI(self._toolbar_drawn)

    def _toolbar_text(self) -> str:
        facts, room = self._session.facts, self._screen.columns - 1
        return toolbar_text(facts, self._style, room, self._notice, self._branch.name(facts))

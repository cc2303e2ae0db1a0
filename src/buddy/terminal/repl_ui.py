"""The REPL as its slash commands see it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from buddy.terminal.current_session import CurrentSession
from buddy.terminal.dialogs import Dialogs
from buddy.terminal.editor import Editor
from buddy.terminal.event_renderer import EventRenderer
from buddy.terminal.key_bindings import safe_text
from buddy.terminal.line_runner import InputLine
from buddy.terminal.local_programs import LocalPrograms
from buddy.terminal.picker import Confirmation, Picker
from buddy.terminal.run_control import RunControl
from buddy.terminal.screen import Screen
from buddy.terminal.settings import TerminalSettings
from buddy.terminal.style import Style


class ReplUI:
    """Implements `command_ui.CommandUI`."""

    def __init__(
        self,
        session: CurrentSession,
        settings: TerminalSettings,
        style: Style,
        screen: Screen,
        editor: Editor,
        dialogs: Dialogs,
        renderer: EventRenderer,
        control: RunControl,
        programs: LocalPrograms,
        queue: "asyncio.Queue[InputLine]",
    ) -> None:
        self.session = session
        self.settings = settings
        self.style = style
        self.screen: Screen | None = screen
        self._screen = screen
        self._editor = editor
        self._dialogs = dialogs
        self._renderer = renderer
        self._control = control
        self._programs = programs
        self._queue = queue

    def show(self, text: str) -> None:
        self._screen.print_above(text)

    def choose(
        self,
        title: str,
        choices: Sequence[str],
        on_choice: Callable[[int], None],
        start: int = 0,
        *,
        found_by: Sequence[str] | None = None,
    ) -> None:
        self._dialogs.open_picker(Picker(title, choices, self.style, on_choice, start, found_by))

    async def confirm(self, question: str) -> bool:
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def answer(is_yes: bool) -> None:
            if not answered.done():
                answered.set_result(is_yes)

        self._dialogs.open_picker(Confirmation(question, self.style, answer), lambda: answer(False))
        return await answered

    def enqueue(self, line: str, *, steer: bool = False) -> None:
        self._queue.put_nowait(InputLine(line, steer))

    def set_input(self, text: str) -> None:
        self._dialogs.set_input(safe_text(text))

    def quit(self) -> None:
        self._editor.quit()

    async def switch_session(self, session_id: str | None) -> None:
        if self.session.active is not None and self.session.session_id != session_id:
            left = f"  The run of {self.session.session_id} continues in the background; /resume returns to it"
            self.show(self.style.yellow(left))
        self._dialogs.reset()
        self._renderer.reset()
        if session_id is None:
            self.session.leave()
            self.show(self.style.dim("── A new session starts with your next message"))
        else:
            self.show(self.style.dim(f"── session {session_id}"))
            await self.session.open(session_id)

    async def run_program(self, command: Sequence[str] | str, environment: Mapping[str, str] | None = None) -> int:
        return await self._programs.run(command, self.session.facts.root, environment)

    async def lend_terminal(self, command: Sequence[str]) -> None:
        await self._programs.lend(command)

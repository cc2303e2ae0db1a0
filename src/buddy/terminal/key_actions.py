"""What the keys do in the REPL."""

import asyncio
from collections.abc import Callable

from buddy.terminal import change_commands
from buddy.terminal.dialogs import Dialogs
from buddy.terminal.editor import Editor
from buddy.terminal.escape import one_line
from buddy.terminal.local_programs import LocalPrograms
from buddy.terminal.repl_ui import ReplUI
from buddy.terminal.run_control import RunControl
from buddy.terminal.tasks import BackgroundTasks

TWICE_SECONDS = 0.8


class KeyActions:
    """Implements `key_bindings.KeyHandler`."""

    def __init__(
        self,
        ui: ReplUI,
        editor: Editor,
        dialogs: Dialogs,
        control: RunControl,
        programs: LocalPrograms,
        tasks: BackgroundTasks,
        is_connection_lost: Callable[[], bool],
    ) -> None:
        self._ui = ui
        self._editor = editor
        self._dialogs = dialogs
        self._control = control
        self._programs = programs
        self._tasks = tasks
        self._is_connection_lost = is_connection_lost
        self._escaped_at = 0.0

    @property
    def is_locked(self) -> bool:
        return self._dialogs.is_locked

    def press(self, key: str) -> None:
        self._dialogs.press(key)

    def note_typing(self) -> None:
        self._dialogs.note_typing()

    def submit(self, text: str, *, steer: bool) -> None:
        if self._dialogs.is_commenting:
            self._dialogs.submit_comment(text)
        elif text.strip():
            if text.startswith("/"):
                self.show("\n" + self._ui.style.dim(f"> {one_line(text, 200)}"))
            self._ui.enqueue(text.strip(), steer=steer)
        elif self._is_connection_lost():
            self._tasks.request(self._ui.settings.buddy.restart_daemon())

    def escape(self) -> None:
        now = asyncio.get_running_loop().time()
        is_twice = now - self._escaped_at < TWICE_SECONDS
        self._escaped_at = now
        if self._dialogs.is_commenting:
            self._dialogs.close_comment()
        elif not self.interrupt() and is_twice:
            self.go_back()

    def go_back(self) -> None:
        if self._ui.session.active is None:
            self._tasks.request(change_commands.choose_message(self._ui))
        else:
            self.interrupt()

    def interrupt(self) -> bool:
        return self._control.interrupt()

    def quit(self) -> None:
        self._editor.quit()

    def cycle_policy(self) -> None:
        self._tasks.request(change_commands.cycle_policy(self._ui))

    def open_editor(self) -> None:
        self._tasks.start(self._edit_externally())

    async def _edit_externally(self) -> None:
        self._ui.set_input(await self._editor.open_external())

    def suspend(self) -> None:
        self._tasks.start(self._programs.suspend())

    def show(self, text: str) -> None:
        self._ui.show(text)

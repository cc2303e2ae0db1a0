"""What the keys do in the REPL."""

import asyncio
from collections.abc import Callable

from buddy.terminal import file_commands, show_commands
from buddy.terminal.dialogs import Dialogs
from buddy.terminal.editor import Editor
from buddy.terminal.escape import one_line
from buddy.terminal.key_bindings import safe_text
from buddy.terminal.local_programs import LocalPrograms
from buddy.terminal.mode_switch import ModeSwitch
from buddy.terminal.repl_ui import ReplUI
from buddy.terminal.run_control import RunControl
from buddy.terminal.slash import names_prepared, show_keys
from buddy.terminal.tasks import BackgroundTasks

TWICE_SECONDS = 0.8
ALONE_SECONDS = 0.3
QUITTING = ("/quit", "/exit", "/q")
QUIT_SECONDS = 3.0
QUIT_HINT = "Press Ctrl-C again to quit"


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
        notify: Callable[[str, float], None],
    ) -> None:
        self._ui = ui
        self._editor = editor
        self._dialogs = dialogs
        self._control = control
        self._programs = programs
        self._tasks = tasks
        self._is_connection_lost = is_connection_lost
        self._notify = notify
        self._escaped_at = 0.0
        self._stopped_at = 0.0
        self._mode = ModeSwitch(ui.session)

    @property
    def is_locked(self) -> bool:
        return self._dialogs.is_locked

    def press(self, key: str) -> None:
        self._dialogs.press(key)

    def note_typing(self, key: str) -> None:
        self._dialogs.input.note_typing(key)

    def note_paste(self) -> None:
        self._dialogs.input.note_paste()

    def answer(self, text: str) -> bool:
        """Whether Enter answers an approval with this input."""
        is_restart = not text.strip() and self._is_connection_lost()
        return not is_restart and self._dialogs.input.submit(text)

    def submit(self, text: str, *, steer: bool) -> None:
        if text.strip():
            if text.strip() in QUITTING:
                self.quit()  # at once: a command of the user may still be running
                return
            if text.startswith("/") and not names_prepared(self._ui.session.prepared, text):
                self._ui.show("\n" + self._ui.style.dim(f"> {one_line(text, 200)}"))
            self._ui.enqueue(text.strip(), steer=steer)
        elif self._is_connection_lost():
            self._tasks.request(self._ui.settings.buddy.restart_daemon())

    def escape(self) -> None:
        now = asyncio.get_running_loop().time()
        is_twice = now - self._escaped_at < TWICE_SECONDS
        self._escaped_at = now
        if self._dialogs.input.is_commenting:
            self._dialogs.input.close_comment()
        elif not self._control.interrupt() and is_twice:
            self.go_back()

    def go_back(self) -> None:
        if self._ui.session.active is None:
            self._tasks.request(file_commands.choose_message(self._ui))
        else:
            self._control.interrupt()

    def stop(self, *, cleared: bool) -> None:
        """Ctrl-C: clear the input, else interrupt; again, with nothing left to stop, quit."""
        if self._programs.is_lent:
            return
        now = asyncio.get_running_loop().time()
        is_again = now - self._stopped_at < QUIT_SECONDS
        self._stopped_at = now
        if not cleared and not self._control.interrupt() and is_again:
            self.quit()
        else:
            self._notify(QUIT_HINT, QUIT_SECONDS)

    def quit(self) -> None:
        self._editor.quit()

    def cycle_policy(self) -> None:
        self._tasks.request(self._mode.send(plan=self._mode.press()))

    @property
    def can_take_back(self) -> bool:
        return bool(self._ui.session.queued) and not self._editor.buffer.text

    def take_back(self) -> None:
        """Edit the message that was queued last."""

        async def work() -> None:
            self._editor.prepend(safe_text(await self._ui.session.take_back()))

        self._tasks.request(work())

    def open_editor(self) -> None:
        self._tasks.start(self._edit_externally())

    async def _edit_externally(self) -> None:
        self._ui.set_input(await self._editor.open_external())

    def type_question_mark(self) -> None:
        """Show the keys, unless the question mark begins a text."""
        if not self._dialogs.is_approval_open:
            asyncio.get_running_loop().call_later(ALONE_SECONDS, self._show_keys)

    def _show_keys(self) -> None:
        if self._editor.buffer.text == "?":
            self._editor.buffer.reset()
            self._tasks.request(show_keys(self._ui))

    def show_output(self) -> None:
        self._tasks.request(show_commands.show_output(self._ui, ""))

    def suspend(self) -> None:
        self._tasks.start(self._programs.suspend())

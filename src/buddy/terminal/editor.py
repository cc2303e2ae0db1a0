"""The line editor at the bottom of the screen."""

import sys
from collections.abc import Callable

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.styles import Style as EditorStyle

from buddy.terminal.attention import Attention
from buddy.terminal.completion import MENU_ROWS, InputCompleter, wants_menu
from buddy.terminal.history import ScrubbedHistory
from buddy.terminal.key_bindings import ESCAPE_SECONDS
from buddy.terminal.paste_input import PasteInput
from buddy.terminal.pastes import PastedTexts
from buddy.terminal.screen import Screen
from buddy.terminal.typeahead import drain

PLAIN_TOOLBAR = EditorStyle.from_dict({"bottom-toolbar": "noreverse"})


class Editor:
    def __init__(self, screen: Screen, history: ScrubbedHistory, completer: InputCompleter) -> None:
        self._screen = screen
        self._input = PasteInput(sys.stdin)
        self._prompt: PromptSession[str] = PromptSession(
            multiline=True,
            history=history,
            completer=completer,
            complete_in_thread=True,
            complete_while_typing=Condition(self._wants_menu),
            reserve_space_for_menu=MENU_ROWS,
            prompt_continuation="  ",
            erase_when_done=True,
            input=self._input,
            output=screen.output,
            style=PLAIN_TOOLBAR,
            tempfile_suffix=".md",
        )
        # A signal reports a new size; asking twice a second as well would wake a process that only waits.
        self._prompt.app.terminal_size_polling_interval = None
        self.pastes = PastedTexts(self.buffer)
        app = self._prompt.app
        app.timeoutlen = app.ttimeoutlen = ESCAPE_SECONDS
        screen.attach(app)

    @property
    def buffer(self) -> Buffer:
        return self._prompt.default_buffer

    def listen(self, attention: Attention) -> Attention:
        """Report every key, and whether the terminal has the focus."""

        def note_key(_: object) -> None:
            attention.note_key()

        self._input.on_focus = attention.note_focus
        self._prompt.app.key_processor.before_key_press += note_key
        return attention

    def configure(
        self,
        keys: KeyBindings,
        on_key: Callable[[], None],
        message: Callable[[], ANSI],
        toolbar: Callable[[], ANSI],
    ) -> None:
        """Set what keys do, what is called before each of them, and what is drawn before and below the input."""

        def notify(_: object) -> None:
            on_key()

        self._prompt.app.key_processor.before_key_press += notify
        self._prompt.key_bindings = keys
        self._prompt.message = message
        self._prompt.bottom_toolbar = toolbar

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Edit until `quit`; `on_ready` is called once, after the first drawing."""
        app = self._prompt.app

        def once(_: object) -> None:
            app.after_render -= once
            on_ready()

        app.after_render += once
        drain(app.input)
        await self._prompt.prompt_async()

    def prepend(self, text: str) -> None:
        """Put a text, or its label if it is long, before what is in the input."""
        joined = "\n".join(filter(None, (self.pastes.shorten(text), self.buffer.text)))
        self.buffer.document = Document(joined, len(joined))

    def remember(self, line: str) -> None:
        self._prompt.history.append_string(line)

    async def open_external(self) -> str:
        """Edit the input in `$VISUAL` or `$EDITOR`; returns the new text."""
        self.pastes.expand()
        with self._screen.suspended():
            await self.buffer.open_in_editor()
        return self.buffer.text

    def quit(self) -> None:
        app = self._prompt.app
        if app.is_running and app.future is not None and not app.future.done():
            app.exit(result="")

    def _wants_menu(self) -> bool:
        return wants_menu(self.buffer.document)

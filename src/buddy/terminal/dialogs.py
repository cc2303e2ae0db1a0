"""Dialogs above the input: a pending approval, or a list to choose from.

Invariants: one is shown, an approval before a list that was open when it came; an approval decided elsewhere is closed;
only a list takes the keys, and beside an approval everything typed is text (see `approval_input`).
"""

from collections.abc import Awaitable, Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from buddy.client.view import View
from buddy.protocol.events import ApprovalRequired
from buddy.terminal.approval_input import ApprovalInput
from buddy.terminal.approval_prompt import ApprovalAnswer, ApprovalPrompt
from buddy.terminal.completion import MENU_ROWS, wants_menu
from buddy.terminal.picker import Picker
from buddy.terminal.screen import Screen
from buddy.terminal.style import Style
from buddy.terminal.wrap import width_of


class Dialogs:
    def __init__(
        self,
        screen: Screen,
        style: Style,
        buffer: Buffer,
        decide: Callable[[str, ApprovalAnswer], None],
        read_approval: Callable[[str], Awaitable[ApprovalRequired | None]],
    ) -> None:
        """`buffer` is the editor's input; `read_approval` loads an approval request by its id."""
        self._screen = screen
        self._style = style
        self._buffer = buffer
        self._decide = decide
        self._read_approval = read_approval
        self._asked: set[str] = set()
        self._picker: Picker | None = None
        self._is_picker_first = False
        self._on_close: Callable[[], None] = lambda: None
        self.input = ApprovalInput(screen, style, buffer)

    @property
    def is_locked(self) -> bool:
        """Whether keys are answers rather than text."""
        return self._picker is not None and (self._is_picker_first or not self.is_approval_open)

    @property
    def is_approval_open(self) -> bool:
        return self.input.approval is not None

    def lines(self, columns: int, rows: int) -> list[str]:
        """The lines right above the input, which leaves them `rows` rows."""
        if self.is_approval_open and not (self._picker and self._is_picker_first):
            return self.input.lines(columns, rows)
        return self._picker.lines(columns) if self._picker is not None else []

    def input_rows(self, columns: int, prompt: str) -> int:
        """How many rows the input takes after its prompt, with its menu of completions."""
        document = self._buffer.document
        rows = sum(1 + width_of(prompt + line) // columns for line in document.text.split("\n"))
        return max(rows, MENU_ROWS) if wants_menu(document) else rows

    def press(self, key: str) -> None:
        """A key for the list."""
        if self._picker is not None:
            self._picker.press(key)
            if self._picker.is_closed:
                self._close_picker()
        self._screen.redraw()

    def open_picker(self, picker: Picker, on_close: Callable[[], None] = lambda: None) -> None:
        """Open a list; beside an approval it comes first, because the person just asked for it."""
        self._close_picker()
        self._picker, self._on_close = picker, on_close
        self._is_picker_first = self.is_approval_open
        self._screen.redraw()

    def _close_picker(self) -> None:
        if self._picker is not None:
            self._picker = None
            self._on_close()

    def set_input(self, text: str) -> None:
        self._buffer.document = Document(text, len(text))

    def reset(self) -> None:
        """Close everything: another session has its own approvals."""
        self.input.close()
        self._close_picker()

    def withdraw(self, view: View) -> None:
        """Close an approval that was decided; what it asked stays in the scrollback."""
        approval = self.input.approval
        if approval is not None and approval.request.approval_id not in view.approvals:
            self._screen.print_above("\n" + approval.block(self._screen.columns))
            self.input.close()

    async def update(self, view: View) -> None:
        """Open the next approval that waits."""
        approval_id = next(iter(view.approvals), None)
        if approval_id is None or self.is_approval_open or approval_id in self._asked:
            return
        self._asked.add(approval_id)
        waiting = await self._read_approval(approval_id)
        if waiting is None or waiting.blobs:
            self._screen.print_above(
                self._style.red("✗ Can't show this approval request in full. Press Esc to stop the run.")
            )
            return

        def decide(answer: ApprovalAnswer) -> None:
            self._decide(approval_id, answer)

        self._screen.output.bell()
        self.input.open(ApprovalPrompt(waiting, self._style, decide, self.input.begin_comment))

"""Dialogs that take the keys for a while: a pending approval, or a list to choose from.

Invariants: at most one is open, an approval before a list; an approval decided elsewhere is closed; text that was being
typed is restored afterwards.
"""

import asyncio
from collections.abc import Awaitable, Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from buddy.client.view import View
from buddy.protocol.events import ApprovalRequired
from buddy.terminal.approval_prompt import CALM_SECONDS, ApprovalAnswer, ApprovalPrompt
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
        interrupt: Callable[[], object],
    ) -> None:
        """`buffer` is the editor's input; `read_approval` loads an approval request by its id."""
        self._screen = screen
        self._style = style
        self._buffer = buffer
        self._decide = decide
        self._read_approval = read_approval
        self._interrupt = interrupt
        self._asked: set[str] = set()
        self._approval: ApprovalPrompt | None = None
        self._picker: Picker | None = None
        self._stash: str | None = None
        self._typed_at = 0.0

    @property
    def is_locked(self) -> bool:
        """Whether keys are answers rather than text."""
        if self.is_commenting:
            return False
        return self._picker is not None or (self._approval is not None and self._approval.locks)

    @property
    def is_commenting(self) -> bool:
        """Whether the input is the comment of a denial."""
        return self._stash is not None

    @property
    def is_approval_open(self) -> bool:
        return self._approval is not None

    def lines(self, columns: int, rows: int) -> list[str]:
        """The lines right above the input, which leaves them `rows` rows."""
        if self.is_commenting:
            return [self._style.yellow("What should Buddy do instead? (Enter to send, Esc to go back)")]
        if self._approval is not None:
            return self._approval.lines(columns, rows)
        return self._picker.lines(columns) if self._picker is not None else []

    def input_rows(self, columns: int, prompt: str) -> int:
        """How many rows the input takes after its prompt, with its menu of completions."""
        document = self._buffer.document
        rows = sum(1 + width_of(prompt + line) // columns for line in document.text.split("\n"))
        return max(rows, MENU_ROWS) if wants_menu(document) else rows

    def note_typing(self) -> None:
        self._typed_at = asyncio.get_running_loop().time()

    def press(self, key: str) -> None:
        if self._approval is not None and key == "escape":
            self._interrupt()
        elif self._approval is not None:
            self._approval.press(key)
        elif self._picker is not None:
            self._picker.press(key)
            if self._picker.is_closed:
                self._picker = None
        self._screen.redraw()

    def open_picker(self, picker: Picker) -> None:
        self._picker = picker
        self._screen.redraw()

    def submit_comment(self, text: str) -> None:
        """Deny the open approval with a comment."""
        approval = self._approval
        self.close_comment()
        if approval is not None:
            approval.answer(ApprovalAnswer("deny", comment=text.strip() or None))

    def close_comment(self) -> None:
        stash, self._stash = self._stash, None
        if stash is not None:
            self.set_input(stash)

    def set_input(self, text: str) -> None:
        self._buffer.document = Document(text, len(text))

    def reset(self) -> None:
        """Close everything: another session has its own approvals."""
        self._close_approval()
        self._picker = None

    def withdraw(self, view: View) -> None:
        """Close an approval that was decided; what it asked stays in the scrollback."""
        if self._approval is not None and self._approval.request.approval_id not in view.approvals:
            self._screen.print_above("\n" + self._approval.block(self._screen.columns))
            self._close_approval()

    async def update(self, view: View) -> None:
        """Open the next approval that waits."""
        approval_id = next(iter(view.approvals), None)
        if approval_id is None or self._approval is not None or approval_id in self._asked:
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

        self._approval = ApprovalPrompt(waiting, self._style, decide, self._open_comment)
        self._screen.output.bell()
        self._arm(self._approval)

    def _open_comment(self) -> None:
        self._stash = self._buffer.text
        self._buffer.reset()

    def _close_approval(self) -> None:
        self._approval = None
        self.close_comment()

    def _arm(self, approval: ApprovalPrompt) -> None:
        """Accept keys as answers once nothing has been typed for a moment."""
        loop = asyncio.get_running_loop()
        opened_at = loop.time()

        def check() -> None:
            quiet = loop.time() - max(self._typed_at, opened_at)
            if self._approval is not approval:
                return
            if quiet >= CALM_SECONDS:
                approval.armed = True
                self._screen.redraw()
            else:
                loop.call_later(CALM_SECONDS - quiet + 0.01, check)

        loop.call_later(CALM_SECONDS, check)

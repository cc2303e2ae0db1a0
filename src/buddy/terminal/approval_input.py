"""The input line while an approval is open: what is typed there, and what of it answers.

Invariants: everything typed is text first. What decides is a digit that stays alone in the input, or one of the
approval's words and Enter; a sentence never does, nor does text that was begun before the approval appeared, or pasted.
"""

import asyncio

from prompt_toolkit.buffer import Buffer

from buddy.terminal.approval_prompt import CALM_SECONDS, WORDS, ApprovalAnswer, ApprovalPrompt
from buddy.terminal.lone_key import LoneKey
from buddy.terminal.screen import Screen
from buddy.terminal.style import Style

DIGITS = ("1", "2", "3", "4", "5")


class ApprovalInput:
    def __init__(self, screen: Screen, style: Style, buffer: Buffer) -> None:
        self.approval: ApprovalPrompt | None = None
        self.is_commenting = False
        """Whether the input is the comment of a denial."""
        self._screen = screen
        self._style = style
        self._buffer = buffer
        self._key = LoneKey()
        self._typed_at = 0.0
        self._is_message = False
        buffer.on_text_changed += self._on_text_changed

    def open(self, approval: ApprovalPrompt) -> None:
        self.approval = approval
        self._is_message = bool(self._buffer.text)
        self._arm(approval)

    def close(self) -> None:
        """The approval was decided; what is in the input stays there."""
        self.approval = None
        self.is_commenting = False
        self._key.cancel()

    def lines(self, columns: int, rows: int) -> list[str]:
        """The lines right above the input, which leaves them `rows` rows."""
        if self.is_commenting:
            return [self._style.yellow("What should Buddy do instead? (Enter to send, Esc to go back)")]
        typed = "" if self._is_message else self._buffer.text.strip().lower()
        return self.approval.lines(columns, rows, typed) if self.approval is not None else []

    def note_typing(self, key: str) -> None:
        """A key was added to the input; alone there, it may be an answer."""
        self._typed_at = asyncio.get_running_loop().time()
        approval = self.approval
        if approval is None or self.is_commenting or self._buffer.text != key or not approval.offers(key):
            return

        def answer() -> None:
            if self.approval is approval and self._buffer.text == key:
                self._answer(approval, key)

        self._key.wait(answer)

    def note_paste(self) -> None:
        self._typed_at = asyncio.get_running_loop().time()
        self._is_message = True

    def cancel_key(self) -> None:
        """Another key was pressed: what was alone is text."""
        self._key.cancel()

    def submit(self, text: str) -> bool:
        """Whether the input, sent with Enter, is an answer to the open approval."""
        approval, word = self.approval, text.strip().lower()
        if approval is None:
            return False
        if self.is_commenting:
            self._submit_comment(approval, text)
            return True
        if not word and approval.has_next_page:
            word = "e"
        if self._is_message or word not in (*WORDS, *DIGITS):
            return False
        if approval.is_open:  # else it came too early, and stays in the input
            self._answer(approval, word)
        return True

    def begin_comment(self) -> None:
        self.is_commenting = True

    def close_comment(self) -> None:
        """Back to the approval; what was written stays in the input."""
        self.is_commenting = False
        self._is_message = bool(self._buffer.text)

    def _submit_comment(self, approval: ApprovalPrompt, text: str) -> None:
        self.is_commenting = False
        self._buffer.reset()
        approval.answer(ApprovalAnswer("deny", comment=text.strip() or None))

    def _answer(self, approval: ApprovalPrompt, word: str) -> None:
        self._buffer.reset()
        approval.press(word)
        self._screen.redraw()

    def _on_text_changed(self, buffer: Buffer) -> None:
        if not buffer.text:
            self._is_message = False

    def _arm(self, approval: ApprovalPrompt) -> None:
        """Accept answers once nothing has been typed for a moment."""
        loop = asyncio.get_running_loop()
        opened_at = loop.time()

        def check() -> None:
            quiet = loop.time() - max(self._typed_at, opened_at)
            if self.approval is not approval:
                return
            if quiet >= CALM_SECONDS:
                approval.armed = True
                self._screen.redraw()
            else:
                loop.call_later(CALM_SECONDS - quiet + 0.01, check)

        loop.call_later(CALM_SECONDS, check)

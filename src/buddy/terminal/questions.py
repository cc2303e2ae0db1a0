"""What has the keys for a moment: an approval that waits, or a choice to be made.

What always holds: at most one of them is open, an approval before a choice; one that was settled elsewhere is let go; a
text that was begun before is there again after.
"""

import asyncio
from collections.abc import Awaitable, Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from buddy.client.view import View
from buddy.protocol.events import ApprovalRequired
from buddy.terminal.approve import CALM_SECONDS, Answer, Approval
from buddy.terminal.picker import Picker
from buddy.terminal.screen import Screen
from buddy.terminal.style import Style

Decide = Callable[[str, Answer], None]
Whole = Callable[[ApprovalRequired], Awaitable[ApprovalRequired]]


class Questions:
    def __init__(
        self, screen: Screen, style: Style, decide: Decide, whole: Whole, interrupt: Callable[[], object]
    ) -> None:
        self._screen = screen
        self._style = style
        self._decide = decide
        self._whole = whole
        self._interrupt = interrupt
        self._asked: set[str] = set()
        self._approval: Approval | None = None
        self._picker: Picker | None = None
        self._stash: str | None = None
        self._typed_at = 0.0
        self._buffer: Buffer | None = None

    def use(self, buffer: Buffer) -> None:
        self._buffer = buffer

    @property
    def is_locked(self) -> bool:
        """Whether keys are answers, and not text."""
        if self._stash is not None:
            return False
        return self._picker is not None or (self._approval is not None and self._approval.locks)

    @property
    def is_commenting(self) -> bool:
        return self._stash is not None

    @property
    def is_waiting(self) -> bool:
        return self._approval is not None

    def lines(self, columns: int) -> list[str]:
        """What stands right above the input."""
        if self._stash is not None:
            return [self._style.yellow("what should it do instead? (Enter says no with this, Esc goes back)")]
        if self._approval is not None:
            return self._approval.lines(columns)
        return self._picker.lines(columns) if self._picker is not None else []

    def typed(self) -> None:
        self._typed_at = asyncio.get_running_loop().time()

    def press(self, key: str) -> None:
        if self._approval is not None and key == "escape":
            self._interrupt()
        elif self._approval is not None:
            self._approval.press(key)
        elif self._picker is not None:
            self._picker.press(key)
            if self._picker.is_over:
                self._picker = None
        self._screen.redraw()

    def pick(self, picker: Picker) -> None:
        self._picker = picker
        self._screen.redraw()

    def comment(self, text: str) -> None:
        """The answer to "what instead"."""
        approval = self._approval
        self.leave_comment()
        if approval is not None:
            approval.answer(Answer("deny", comment=text.strip() or None))

    def leave_comment(self) -> None:
        stash, self._stash = self._stash, None
        if stash is not None:
            self.put(stash)

    def put(self, text: str) -> None:
        if self._buffer is not None:
            self._buffer.document = Document(text, len(text))

    def reset(self) -> None:
        """Another session: its questions are others."""
        self._close()
        self._picker = None

    async def follow(self, view: View) -> None:
        """Let go of what is settled, ask what waits."""
        if self._approval is not None and self._approval.request.approval_id not in view.approvals:
            self._close()
        waiting = next(iter(view.approvals.values()), None)
        if waiting is None or self._approval is not None or waiting.approval_id in self._asked:
            return
        self._asked.add(waiting.approval_id)
        waiting = await self._whole(waiting) if waiting.blobs else waiting
        if waiting.blobs:
            self._screen.above(self._style.red("✗ a question could not be read to its end; Esc ends the run"))
            return

        def decide(answer: Answer) -> None:
            self._decide(waiting.approval_id, answer)

        self._approval = Approval(waiting, self._style, decide, self._begin_comment, self._screen.above)
        self._screen.above("\n" + self._approval.block(self._screen.columns))
        self._screen.output.bell()
        self._arm(self._approval)

    def _begin_comment(self) -> None:
        if self._buffer is not None:
            self._stash = self._buffer.text
            self._buffer.reset()

    def _close(self) -> None:
        self._approval = None
        self.leave_comment()

    def _arm(self, approval: Approval) -> None:
        """Hear keys as answers once nobody has typed for a moment."""
        loop = asyncio.get_running_loop()
        begun = loop.time()

        def look() -> None:
            quiet = loop.time() - max(self._typed_at, begun)
            if self._approval is not approval:
                return
            if quiet >= CALM_SECONDS:
                approval.armed = True
                self._screen.redraw()
            else:
                loop.call_later(CALM_SECONDS - quiet + 0.01, look)

        loop.call_later(CALM_SECONDS, look)

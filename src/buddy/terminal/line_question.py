"""An approval asked line by line, where no editor draws: in `exec`, and in the REPL on a plain terminal.

Invariants: only an explicit yes approves, only after the last page, and only if the size of the screen is the same;
whatever else is typed denies, but for Enter before the last page.
"""

import os
import time
from collections.abc import Callable
from typing import Literal, TextIO

from buddy.protocol.basics import NO_EXPIRY
from buddy.terminal.approval_screen import Page, Request, approval_text, pages_of

# The row of the question itself, and the one that Enter opens.
QUESTION_ROWS = 2
QUESTION = "approve? [y/N] "
TOO_SMALL = "The terminal is too small to show what is asked. Enlarge it and press Enter, or type n to deny: "
DEFAULT_SIZE = (80, 24)


class LineQuestion:
    def __init__(
        self,
        request: Request,
        measure: Callable[[], tuple[int, int]],
        *,
        prompt: str = "$ ",
        expires_at: int = NO_EXPIRY,
    ) -> None:
        """`measure` gives columns and rows; `prompt` stands before a command, such as `user@host$`."""
        self._request = request
        self._measure = measure
        self._prompt = prompt
        self._expires_at = expires_at
        self._size = (0, 0)
        self._pages: tuple[Page, ...] = ()
        self._page = 0

    def show(self) -> str:
        """The current page, and what to type below it."""
        size = self._measure()
        if size != self._size:
            self._size, self._page = size, 0
            text = approval_text(self._request, size[0], prompt=self._prompt)
            self._pages = pages_of(text, size[1] - QUESTION_ROWS)
        if not self._pages:
            return TOO_SMALL
        lines = "".join(f"{line.framed}\n" for line in self._pages[self._page])
        return lines + (self._last() if self._is_last else self._next())

    def tick(self) -> str:
        """What updates the time that is left on the screen, wherever the cursor is; empty if none is shown."""
        if self._expires_at >= NO_EXPIRY or not self._pages or not self._is_last:
            return ""
        return f"\x1b7\r{self._left()}\x1b8"

    def answer(self, typed: str) -> Literal["approve", "deny"] | None:
        """What was decided; None if the next page is to be shown first."""
        word = typed.strip().lower()
        if not typed or word not in ("", "y", "yes"):
            return "deny"
        if self._measure() != self._size or not self._pages:
            return None
        if self._is_last:
            return "approve" if word else "deny"
        self._page += 1
        return None

    @property
    def _is_last(self) -> bool:
        return self._page == len(self._pages) - 1

    def _last(self) -> str:
        if self._expires_at >= NO_EXPIRY:
            return QUESTION
        return f"{self._left()} left, {QUESTION}"

    def _left(self) -> str:
        """Minutes and seconds, always as long, so that a shorter time leaves nothing of the longer one."""
        left = max(0, round(self._expires_at / 1000 - time.time()))
        return f"{left // 60:02}:{left % 60:02}"

    def _next(self) -> str:
        return f"Enter for page {self._page + 2} of {len(self._pages)}, n to deny: "


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Columns and rows; the usual ones where nothing is known."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return DEFAULT_SIZE
    return columns or DEFAULT_SIZE[0], rows or DEFAULT_SIZE[1]

"""An approval asked line by line, where no editor draws: in `exec`, and in the REPL on a plain terminal.

Invariants: only an explicit yes approves, only after the last page, and only if the size of the screen is the same;
no, Enter at the last page and the end of the input deny; anything else is text, decides nothing and is asked again.
"""

import os
import select
import time
from collections.abc import Callable
from typing import Literal, TextIO

from buddy.protocol.basics import NO_EXPIRY
from buddy.terminal.approval_screen import Page, Request, approval_text, pages_of

# The row of the question itself, and the one that Enter opens.
QUESTION_ROWS = 2
QUESTION = "approve? [y/N] "
YES, NO = ("y", "yes"), ("n", "no")
TOO_SMALL = "The terminal is too small to show what is asked. Enlarge it and press Enter, or type n to deny: "
NO_ANSWER = "(that is no answer) "
END_OF_INPUT = "the input ended, so this is denied"
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
        self._is_unclear = False

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

    def answer(self, typed: str, *, is_alone: bool = True) -> Literal["approve", "deny"] | None:
        """What was decided; None if a page is to be shown first.

        `typed` is one line, "" at the end of the input; a line that is not alone is part of a pasted text.
        """
        word = typed.strip().lower()
        self._is_unclear = bool(typed) and (not is_alone or word not in ("", *YES, *NO))
        if self._is_unclear:
            return None
        if not typed or word in NO:
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
            return self._again() + QUESTION
        return f"{self._left()} left, {self._again()}{QUESTION}"

    def _again(self) -> str:
        return NO_ANSWER if self._is_unclear and self._size[0] >= DEFAULT_SIZE[0] else ""

    def _left(self) -> str:
        """Minutes and seconds, always as long, so that a shorter time leaves nothing of the longer one."""
        left = max(0, round(self._expires_at / 1000 - time.time()))
        return f"{left // 60:02}:{left % 60:02}"

    def _next(self) -> str:
        return f"{self._again()}Enter for page {self._page + 2} of {len(self._pages)}, n to deny: "


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Columns and rows; the usual ones where nothing is known."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return DEFAULT_SIZE
    return columns or DEFAULT_SIZE[0], rows or DEFAULT_SIZE[1]


def is_readable(stream: int) -> bool:
    """Whether more was typed and can be read at once."""
    return bool(select.select([stream], [], [], 0)[0])

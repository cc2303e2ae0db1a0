"""Long work in small steps, so that an event loop serves others in between.

Invariants: one step handles at most `PART` characters or bytes; `take_turns` lets everybody else run whenever its steps
have taken `TURN` seconds, and its result is that of `at_once`. A thread would not do: a single call into C keeps the
interpreter's lock.
"""

import asyncio
import hashlib
from collections.abc import Generator, Iterator
from time import perf_counter
from typing import TypeAlias, TypeVar

PART = 128 * 1024
"""A millisecond or two of encoding or decoding."""
TURN = 0.002

Result = TypeVar("Result")
Content = TypeVar("Content", str, bytes)
Steps: TypeAlias = Generator[None, None, Result]


class Turns:
    """The turns of a task that does one long thing after another."""

    def __init__(self) -> None:
        self._begun = perf_counter()

    async def take(self, work: Steps[Result]) -> Result:
        """Do the work step by step."""
        while True:
            try:
                next(work)
            except StopIteration as done:
                return done.value
            await self.pause()

    async def pause(self) -> None:
        """Let others run, if this task has taken its time."""
        if perf_counter() - self._begun > TURN:
            await asyncio.sleep(0)
            self._begun = perf_counter()


async def take_turns(work: Steps[Result]) -> Result:
    """Do the work step by step; most work is done after the first."""
    try:
        next(work)
    except StopIteration as done:
        return done.value
    return await Turns().take(work)


def at_once(work: Steps[Result]) -> Result:
    """The same without a pause, for what can't wait."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value


def parts(content: Content, size: int = PART) -> Iterator[Content]:
    """The content in parts; itself if it is short."""
    if len(content) <= size:
        yield content
        return
    for start in range(0, len(content), size):
        yield content[start : start + size]


def encode_text(text: str, errors: str = "strict") -> Steps[bytes]:
    """The text in UTF-8; plain ASCII is only copied."""
    if text.isascii() or len(text) <= PART:
        return text.encode(errors=errors)
    encoded: list[bytes] = []
    for part in parts(text):
        encoded.append(part.encode(errors=errors))
        yield
    return b"".join(encoded)


def hash_content(content: bytes) -> Steps[str]:
    """The SHA-256 of the content, in hex."""
    found = hashlib.sha256()
    for part in parts(content, 8 * PART):
        found.update(part)
        yield
    return found.hexdigest()

"""Scrubs long texts bit by bit, so that an event loop serves others in between.

Invariants: the result is that of scrubbing the text at once; it is remembered, so that recording the same text costs
nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

from buddy.scrub.scrubber import Json, Scrubber

SLICE = 4 * 1024
"""Characters at once: some milliseconds of ordinary text, some more of the worst."""


async def slices(text: str) -> AsyncIterator[str]:
    """The text bit by bit; others get their turn in between."""
    yield text[:SLICE]
    for start in range(SLICE, len(text), SLICE):
        await asyncio.sleep(0)
        yield text[start : start + SLICE]


async def scrub_registered_in_slices(scrubber: Scrubber, text: str) -> str:
    """The same for registered values alone."""
    if len(text) <= SLICE:
        return scrubber.registered(text)
    stream = scrubber.registered_stream()
    pieces = [stream.feed(piece) async for piece in slices(text)]
    return "".join([*pieces, stream.finish()])


async def scrub_in_slices(scrubber: Scrubber, text: str) -> str:
    if len(text) <= SLICE:
        return scrubber.text(text)
    if (known := scrubber.scrubbed_ahead(text)) is not None:
        return known
    stream = scrubber.stream()
    pieces = [stream.feed(part) async for part in slices(text)]
    await asyncio.sleep(0)
    masked = "".join([*pieces, stream.finish()])
    if masked == text:
        masked = text
    scrubber.remember(text, masked)
    await asyncio.sleep(0)
    return masked


def long_texts(tree: Json) -> Iterator[str]:
    """The texts of a JSON value that are longer than a slice."""
    pending = [tree]
    while pending:
        match pending.pop():
            case str() as text if len(text) > SLICE:
                yield text
            case dict() as parts:
                pending += parts.values()
            case list() | tuple() as parts:
                pending += parts
            case _:
                pass

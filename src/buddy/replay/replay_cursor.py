"""A recording to be played again: its events, how far the playing is, and whose turn it is.

What always holds: nobody goes on before what was recorded before it has happened again; where something came from
outside at that moment, that comes first.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TypeVar

from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody, Progress
from buddy.sessions.fork import Entry

MOST_NAPS = 24
NAP_SECONDS = 0.5

Body = TypeVar("Body", bound=EventBody)


class ReplayCursor:
    """`reached` is the seq of the last event that was recorded again."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.reached = 0
        self._entries = {event.seq: (event, body) for event, body in entries}
        self._gates: list[int] = []
        self._begun = 0
        self._changed = asyncio.Event()

    def at(self, seq: int) -> Entry | None:
        return self._entries.get(seq)

    def after(self, seq: int) -> Iterator[tuple[Event, EventBody]]:
        """What was recorded after a seq, in order."""
        while (entry := self._entries.get(seq := seq + 1)) is not None:
            if entry[1] is not None:
                yield entry[0], entry[1]

    def next(self, kind: type[Body], after: int | None = None) -> Body | None:
        """The next event of a kind."""
        start = self.reached if after is None else after
        return next((body for _, body in self.after(start) if isinstance(body, kind)), None)

    def clock(self) -> int:
        """When the next event was recorded; after the last one, its time."""
        entry = self.at(self.reached + 1) or self.at(self.reached)
        return entry[0].ts if entry else 0

    # --- whose turn it is ---

    def expect(self, gates: Sequence[int]) -> None:
        """Things that come from outside, each as soon as its seq is reached, in this order."""
        self._gates, self._begun = list(gates), 0

    def begin(self) -> None:
        """The next thing from outside happens now."""
        self._begun += 1
        self.notify()

    def advance(self, seq: int) -> None:
        self.reached = seq
        self.notify()

    async def wait_reached(self, seq: int) -> None:
        while self.reached < seq:
            await self.wait_change()

    async def wait_before(self, seq: int) -> None:
        """Until all before `seq` has happened, and nothing from outside comes first."""
        while self.reached < seq - 1 or self._is_due():
            await self.wait_change()

    async def wait_settled(self) -> None:
        """Until what comes from outside at this moment has begun."""
        while self._is_due():
            await self.wait_change()

    async def wait_heartbeats(self) -> None:
        """Let time pass where it was told then that it passed; not for ever, as it may not be told again."""
        for _ in range(MOST_NAPS):
            entry = self.at(self.reached + 1)
            if entry is None or not isinstance(entry[1], Progress) or not entry[1].message.endswith(" s)"):
                return
            await asyncio.sleep(NAP_SECONDS)

    async def wait_change(self) -> None:
        await self._changed.wait()

    def _is_due(self) -> bool:
        return self._begun < len(self._gates) and self._gates[self._begun] <= self.reached

    def notify(self) -> None:
        """Have everybody who waits look again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def wait_for_ever() -> None:
    """What was under way here was stopped from outside."""
    await asyncio.Event().wait()

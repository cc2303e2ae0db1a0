"""A recording while it is replayed: its events, the position reached, and what may happen next.

Invariants: nothing continues before everything that was recorded before it has happened; an external input that is due
comes first.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import NoReturn, TypeVar

from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody, Progress, RunComplete, ToolClaimed
from buddy.sessions.fork import Entry

MOST_NAPS = 24
NAP_SECONDS = 0.5

Body = TypeVar("Body", bound=EventBody)


class ReplayCursor:
    """`reached` is the seq of the last event that was replayed."""

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

    def had_room(self) -> bool:
        """Whether the disk had room for the next call: where it had not, the run ended without one more claim."""
        ending, claimed = self.next(RunComplete), self.next(ToolClaimed)
        return not (ending and ending.reason == "storage_full" and claimed is None)

    # --- what may happen next ---

    def expect(self, gates: Sequence[int]) -> None:
        """External inputs come, each as soon as its seq is reached, in this order."""
        self._gates, self._begun = list(gates), 0

    def begin(self) -> None:
        """The next external input happens now."""
        self._begun += 1
        self.notify()

    def advance(self, seq: int) -> None:
        self.reached = seq
        self.notify()

    async def wait_reached(self, seq: int) -> None:
        while self.reached < seq:
            await self.wait_change()

    async def wait_before(self, seq: int) -> None:
        """Until everything before `seq` has happened and no external input is due."""
        while self.reached < seq - 1 or self._is_due():
            await self.wait_change()

    async def wait_settled(self) -> None:
        """Until every external input that is due has begun."""
        while self._is_due():
            await self.wait_change()

    async def wait_heartbeats(self) -> None:
        """Let time pass while a heartbeat was recorded next; not forever, as it may not come again."""
        for _ in range(MOST_NAPS):
            entry = self.at(self.reached + 1)
            if entry is None or not isinstance(entry[1], Progress) or entry[1].elapsed_seconds is None:
                return
            await asyncio.sleep(NAP_SECONDS)

    async def wait_change(self) -> None:
        await self._changed.wait()

    def notify(self) -> None:
        """Have every waiter look again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _is_due(self) -> bool:
        return self._begun < len(self._gates) and self._gates[self._begun] <= self.reached


async def wait_for_ever() -> NoReturn:
    """What ran here was stopped from outside."""
    while True:
        await asyncio.Event().wait()

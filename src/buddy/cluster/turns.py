"""Turns that all nodes of a fleet take: what one counts and changes, no other does meanwhile.

Invariants: a turn is a row with a time limit, so a node that is lost holds up nobody for long; every write is one
statement; of one node, one holder at a time.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from buddy.cluster import statements as sql
from buddy.errors import ProtocolError
from buddy.log.postgres.connections import Channel

LONGEST_MS = 10_000
WAIT_SECONDS = 15.0
FIRST_WAIT, LONGEST_WAIT = 0.01, 0.2


class FleetTurns:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @asynccontextmanager
    async def take(self, name: str) -> AsyncGenerator[None]:
        """Have the turn in this context; refused if others take too long."""
        holder = uuid.uuid4().hex
        await self._wait(name, holder)
        try:
            yield
        finally:
            await self._channel.repeat(sql.END_TURN, name, holder)

    async def _wait(self, name: str, holder: str) -> None:
        wait = FIRST_WAIT
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not await self._channel.repeat(sql.TAKE_TURN, name, holder, LONGEST_MS):
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, LONGEST_WAIT)
        except TimeoutError:
            message = "another node is busy with a request of yours; try again"
            raise ProtocolError("OVERLOADED", message, retryable=True) from None

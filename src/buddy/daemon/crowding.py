"""Which peer leaves when all places are taken and the owner wants one; at the end, all do.

Invariants: a peer that follows a session, waits for an answer, or was heard of lately keeps its place; of the others,
those that never said hello leave first, the oldest of them before the rest.
"""

import asyncio
from collections.abc import Iterable, MutableMapping
from typing import Protocol, TypeVar


class Peer(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def is_following(self) -> bool: ...
    @property
    def heard_at(self) -> float: ...
    def close(self) -> None: ...


Key = TypeVar("Key")
AnyPeer = TypeVar("AnyPeer", bound=Peer)


def make_room(peers: MutableMapping[Key, AnyPeer], now: float, idle_seconds: float) -> bool:
    """Disconnect a peer that does nothing, if there is one; they are in order of arrival."""
    longest: tuple[float, Key] | None = None
    for key, peer in peers.items():
        idle = now - peer.heard_at if peer.name else float("inf")
        is_free = not peer.name or (not peer.is_following and idle >= idle_seconds)
        if is_free and (longest is None or idle > longest[0]):
            longest = idle, key
    if longest is None:
        return False
    peers.pop(longest[1]).close()
    return True


async def disconnect_all(connections: Iterable[asyncio.Task[None]]) -> None:
    """End every connection, and wait until each has ended."""
    tasks = list(connections)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)

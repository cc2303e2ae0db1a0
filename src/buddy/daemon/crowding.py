"""Which peer leaves when all places are taken and the owner wants one.

Invariants: a peer that follows a session, waits for an answer, or was heard of lately keeps its place; of the others,
those that never said hello leave first, the oldest of them before the rest.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Peer(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def is_following(self) -> bool: ...
    @property
    def heard_at(self) -> float: ...


Seat = TypeVar("Seat")


def find_idle(seats: Iterable[tuple[Seat, Peer]], now: float, idle_seconds: float) -> Seat | None:
    """The place to give away, in order of arrival; None if all are needed."""
    longest: tuple[float, Seat] | None = None
    for seat, peer in seats:
        if not peer.name:
            return seat
        idle = now - peer.heard_at
        if not peer.is_following and idle >= idle_seconds and (longest is None or idle > longest[0]):
            longest = idle, seat
    return longest[1] if longest else None

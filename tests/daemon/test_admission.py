"""Requests of one user are counted one after the other, and none of them waits for another's slow work."""

import asyncio
from typing import Any

import pytest

from buddy.daemon import admission
from buddy.daemon.admission import Admission
from buddy.daemon.limits import Limits, UserLimits
from buddy.errors import ProtocolError
from buddy.log.contract import UserUsage

PATIENCE = 20.0


class Rows:
    """The part of the log that is counted."""

    def __init__(self) -> None:
        self.runs = 0
        self.sessions = 0

    async def usage_of(self, user: str, day: int) -> UserUsage:
        del user, day
        return UserUsage(self.sessions, self.runs, 0.0)


class IdleSession:
    class fold:  # noqa: N801 - stands for an attribute
        run = None

    user = "ann"


def admit(rows: Any, runs: int) -> Admission:
    limits = Limits(user=UserLimits(runs=runs, sessions=2))
    return Admission(limits, rows, lambda: 0)


async def test_a_run_that_is_slow_to_start_lets_others_start_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "LONGEST_TURN", 0.05)
    door, session, goes_on = admit(Rows(), runs=2), IdleSession(), asyncio.Event()
    begun = asyncio.Event()

    async def start_slowly() -> None:
        async with door.run(session):  # pyright: ignore[reportArgumentType] - the part of a session that counts
            begun.set()
            await goes_on.wait()

    async with asyncio.timeout(PATIENCE):
        slow = asyncio.create_task(start_slowly())
        await begun.wait()
        async with door.run(session):  # pyright: ignore[reportArgumentType] - as above
            pass  # the turn of the slow one has ended
        other = asyncio.create_task(start_slowly())
        await asyncio.sleep(0.2)
        with pytest.raises(ProtocolError, match="2 of 2 runs"):
            async with door.run(session):  # pyright: ignore[reportArgumentType] - as above
                pass
        goes_on.set()
        await asyncio.gather(slow, other)
        async with door.run(session):  # pyright: ignore[reportArgumentType] - as above
            pass


async def test_who_waits_too_long_for_the_turn_may_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "LONGEST_WAIT", 0.05)
    door = admit(Rows(), runs=1)
    async with asyncio.timeout(PATIENCE), door.session("ann"):
        with pytest.raises(ProtocolError, match="try again") as refused:
            async with door.session("ann"):
                pass
        assert (refused.value.code, refused.value.retryable) == ("OVERLOADED", True)
    async with asyncio.timeout(PATIENCE), door.session("ann"):
        pass


async def test_only_the_row_is_created_in_the_turn() -> None:
    rows = Rows()
    door = admit(rows, runs=1)
    await door.check_session("ann")
    async with door.session("ann"):
        rows.sessions += 2
    for refused in (door.check_session("ann"), door.session("ann").__aenter__()):
        with pytest.raises(ProtocolError, match="2 of 2 sessions"):
            await refused
    await door.check_session(None)

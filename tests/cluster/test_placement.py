"""Placement in PostgreSQL: who may take what, by statements alone."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.harness.installed import need_services

need_services("temporalio")

from buddy.cluster.contract import Load
from buddy.cluster.postgres import PostgresPlacement
from buddy.cluster.temporal import Callbacks, TemporalPlacement
from buddy.config.fleet import ClusterSettings, NodeSettings
from buddy.errors import UserError
from buddy.log.contract import Lease
from buddy.log.postgres.postgres import PostgresLog
from tests.harness.postgres import Postgres
from tests.log.records import batch, changed, record

TTL = 3.0
SOON = 0.3


class Nodes:
    """Nodes on one log; they leave at the end."""

    def __init__(self, log: PostgresLog) -> None:
        self.log = log
        self.made: list[PostgresPlacement] = []

    async def join(
        self, name: str, *, owner: str = "", user_runs: int | None = None, waits: bool = False
    ) -> PostgresPlacement:
        cluster = ClusterSettings(lease_seconds=TTL, lost_node="wait" if waits else "fail", lost_node_seconds=TTL)
        settings = NodeSettings(name=name)
        made = PostgresPlacement(self.log, owner or f"owner-{name}", name, settings, cluster, user_runs)
        self.made.append(made)
        await made.join()
        return made


@pytest.fixture
async def nodes(postgres: Postgres) -> AsyncIterator[Nodes]:
    log = await PostgresLog.open(postgres.database(), lambda: 1)
    nodes = Nodes(log)
    yield nodes
    for made in nodes.made:
        await made.leave()
    await log.close()


async def session(nodes: Nodes, session_id: str, owner: str, user: str | None = None, state: str = "running") -> Lease:
    lease = await nodes.log.create(changed(record(session_id), user=user), f"owner-{owner}")
    await nodes.log.append(changed(batch(lease, 0), state=state))
    return lease


async def beat_until_judging(*nodes: PostgresPlacement) -> None:
    """Long enough without a gap that they may judge others."""
    for _ in range(round(TTL / SOON) + 2):
        await asyncio.gather(*(one.beat(Load()) for one in nodes))
        await asyncio.sleep(SOON)


async def test_what_a_living_node_has_is_not_taken(nodes: Nodes) -> None:
    first, second = await nodes.join("a"), await nodes.join("b")
    await session(nodes, "sess_1", "a")
    await beat_until_judging(first, second)
    assert await second.take(10) == []
    assert await second.acquire("sess_1") is None
    lease = await first.acquire("sess_1")
    assert lease is not None
    assert lease.epoch == 2


async def test_what_a_silent_node_had_is_taken_once(nodes: Nodes) -> None:
    first, second, third = [await nodes.join(name) for name in "abc"]
    await session(nodes, "sess_1", "a")
    await session(nodes, "sess_2", "a", state="idle")
    await beat_until_judging(second, third)
    taken = [*await second.take(10), *await third.take(10)]
    assert [(one.lease.session_id, one.lease.epoch, one.reason) for one in taken] == [("sess_1", 2, "lost_node")]
    assert await first.beat(Load()) is not None
    assert await first.acquire("sess_1") is None


async def test_a_node_that_did_not_beat_itself_judges_nobody(nodes: Nodes) -> None:
    await nodes.join("a")
    second = await nodes.join("b")
    await session(nodes, "sess_1", "a")
    await asyncio.sleep(2 * TTL)
    await second.beat(Load())
    assert await second.take(10) == []
    await beat_until_judging(second)
    assert len(await second.take(10)) == 1


async def test_a_released_session_is_due_when_it_says(nodes: Nodes) -> None:
    first, second = await nodes.join("a"), await nodes.join("b")
    lease = await session(nodes, "sess_1", "a", state="awaiting_approval")
    first.looked({"sess_1": 0})
    await first.release(lease, resume=False, due=None)
    assert await second.take(10) == []
    again = await second.acquire("sess_1")
    assert again is not None
    second.looked({"sess_1": 0})
    await second.release(again, resume=False, due=1)
    assert [one.reason for one in await first.take(10)] == ["due"]


async def test_a_request_that_comes_while_a_session_is_let_go_is_not_forgotten(nodes: Nodes) -> None:
    first, second = await nodes.join("a"), await nodes.join("b")
    lease = await session(nodes, "sess_1", "a", state="idle")
    first.looked({"sess_1": 0})
    await nodes.log.put("sess_1", "msg_1", "message:x", b"{}", 10)  # after the last look
    await first.release(lease, resume=False, due=None)
    assert [one.lease.session_id for one in await second.take(10)] == ["sess_1"]


async def test_each_user_gets_a_turn_and_no_more_than_allowed(nodes: Nodes) -> None:
    worker = await nodes.join("w", user_runs=2)
    for number in range(5):
        lease = await session(nodes, f"sess_a{number}", "w", "ann")
        await worker.release(lease, resume=True, due=None)
    lease = await session(nodes, "sess_b0", "w", "bob")
    await worker.release(lease, resume=True, due=None)
    first = [one.lease.session_id for one in await worker.take(2)]
    assert {session_id[5] for session_id in first} == {"a", "b"}
    await worker.take(10)
    await worker.beat(Load())
    held = [one for one in (await worker.beat(Load())).held if one.startswith("sess_a")]
    assert len(held) == 2
    assert await worker.take(10) == []


async def test_a_pinned_session_stays_with_its_node(nodes: Nodes) -> None:
    first, patient = await nodes.join("a"), await nodes.join("b", waits=True)
    third = await nodes.join("c")
    lease = await session(nodes, "sess_1", "a")
    await first.pin(lease)
    assert await third.pinned_to("sess_1") == ("a", True)
    await beat_until_judging(patient, third)
    assert await third.pinned_to("sess_1") == ("a", False)
    assert await patient.take(10) == []
    await asyncio.sleep(TTL)
    await beat_until_judging(patient, third)
    assert await patient.take(10) == []
    assert [one.lease.session_id for one in await third.take(10)] == ["sess_1"]


async def test_a_draining_node_takes_nothing(nodes: Nodes) -> None:
    first, second = await nodes.join("a"), await nodes.join("b")
    lease = await session(nodes, "sess_1", "a")
    await first.release(lease, resume=True, due=None)
    assert await second.set_state("b", "draining")
    assert (await second.beat(Load())).state == "draining"
    assert await second.take(10) == []
    assert not await second.set_state("nobody", "draining")
    assert len(await first.take(10)) == 1


async def test_a_name_is_free_again_once_its_node_is_gone(nodes: Nodes) -> None:
    first = await nodes.join("a")
    with pytest.raises(UserError, match="'a' is in use"):
        await nodes.join("a", owner="owner-2")
    await first.leave()
    other = await nodes.join("a", owner="owner-3")
    assert [(one.owner, one.state) for one in await other.nodes()] == [("owner-3", "ready")]


async def test_an_attempt_that_was_given_up_takes_nothing(nodes: Nodes) -> None:
    first, second = await nodes.join("a"), await nodes.join("b")
    lease = await session(nodes, "sess_1", "a")
    await first.release(lease, resume=True, due=None)
    assert await second.waiting(10) == [("sess_1", 0, None)]
    assert (await second.look("sess_1")).needs_node
    taken = await second.take_attempt("sess_1", 2)
    assert taken is not None
    assert (taken.lease.epoch, taken.reason) == (2, "due")
    assert (await first.look("sess_1")).holder == "b"
    assert await second.waiting(10) == []
    # Another attempt while it is held, and an earlier one once it is free again.
    assert await first.take_attempt("sess_1", 3) is None
    await second.release(taken.lease, resume=True, due=None)
    assert await first.take_attempt("sess_1", 1) is None
    assert await first.take_attempt("sess_1", 2) is None
    assert await first.take_attempt("sess_1", 3) is not None
    assert (await first.look("sess_unknown")).needs_node is False


async def test_a_node_takes_what_belongs_to_it_by_itself(nodes: Nodes) -> None:
    first, second = await nodes.join("a"), await nodes.join("b")
    pinned, free = await session(nodes, "sess_1", "a"), await session(nodes, "sess_2", "a")
    await first.pin(pinned)
    for lease in (pinned, free):
        await first.release(lease, resume=True, due=None)
    assert [session_id for session_id, _, _ in await first.waiting(10)] == ["sess_2"]
    assert await second.take(10, unless_waited=60) == []
    assert [one.lease.session_id for one in await first.take(10, unless_waited=60)] == ["sess_1"]


async def test_what_temporal_gives_nobody_is_taken_after_three_leases(nodes: Nodes) -> None:
    first = await nodes.join("a")
    for number in (1, 2):
        await first.release(await session(nodes, f"sess_{number}", "a"), resume=True, due=None)
    cluster = ClusterSettings(placement="temporal", lease_seconds=TTL)
    placement = TemporalPlacement(first, "a", cluster, Callbacks(lambda: 10, lambda _: None), "1")
    assert await placement.take(10) == []  # it was asked, and answers, and nothing comes of it
    await nodes.log.reads.fetch("UPDATE sessions SET due = due - 9000 WHERE id = 'sess_1'")
    assert [one.lease.session_id for one in await placement.take(10)] == ["sess_1"]
    assert await first.take_attempt("sess_1", 1) is None  # an attempt that comes all the same


async def test_attempts_take_no_more_of_a_user_than_allowed(nodes: Nodes) -> None:
    worker = await nodes.join("w", user_runs=1)
    for number, user in enumerate(("ann", "ann", "bob", None, None)):
        await worker.release(await session(nodes, f"sess_{number}", "w", user), resume=True, due=None)
    taken = [await worker.take_attempt(f"sess_{number}", 1) for number in range(5)]
    assert [one is not None for one in taken] == [True, False, True, True, True]

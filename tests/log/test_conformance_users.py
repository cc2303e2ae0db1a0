"""What every log knows of users: whose a session is, and what counts against their limits."""

from buddy.log.contract import Log, RowFacts, SessionQuery
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import ApprovalExpired
from tests.log.records import batch, changed, record


async def session_of(log: Log, user: str | None, session_id: str, facts: RowFacts | None = None) -> None:
    row = changed(record(session_id), user=user)
    await log.create(changed(row, facts=facts) if facts else row, "owner")


async def test_a_session_keeps_its_user(log: Log) -> None:
    await session_of(log, "ann", "sess_1")
    await session_of(log, None, "sess_2")
    found = {row.session_id: row.user for row in await log.newest(10)}
    assert found == {"sess_1": "ann", "sess_2": None}
    one = await log.get("sess_1")
    assert one is not None
    assert one.user == "ann"


async def test_sessions_are_found_by_user(log: Log) -> None:
    for number, user in enumerate(("ann", "bob", "ann", None)):
        await session_of(log, user, f"sess_{number}")
    assert {row.session_id for row in await log.find(SessionQuery(10, user="ann"))} == {"sess_0", "sess_2"}
    assert {row.session_id for row in await log.find(SessionQuery(10, user="nobody"))} == set()
    assert len(await log.find(SessionQuery(10))) == 4


async def test_usage_counts_sessions_runs_and_the_cost_of_a_day(log: Log) -> None:
    await session_of(log, "ann", "sess_1", RowFacts(day=7, day_cost_usd=1.5))
    await session_of(log, "ann", "sess_2", RowFacts(day=7, day_cost_usd=0.25))
    await session_of(log, "ann", "sess_3", RowFacts(day=6, day_cost_usd=9.0))
    await session_of(log, "bob", "sess_4", RowFacts(day=7, day_cost_usd=4.0))
    lease = await log.acquire("sess_2", "owner")
    assert lease is not None
    await log.append(changed(batch(lease, 0), state="awaiting_approval"))
    used = await log.usage_of("ann", 7)
    assert (used.sessions, used.runs, used.cost_usd) == (3, 1, 1.75)
    assert (await log.usage_of("ann", 8)).cost_usd == 0.0
    none = await log.usage_of("nobody", 7)
    assert (none.sessions, none.runs, none.cost_usd) == (0, 0, 0.0)


async def test_deleting_a_session_gives_no_money_back(log: Log) -> None:
    for number in range(2):
        await session_of(log, "ann", f"sess_{number}", RowFacts(day=7, day_cost_usd=1.5))
        await log.delete(f"sess_{number}")
    used = await log.usage_of("ann", 7)
    assert (used.sessions, used.cost_usd) == (0, 3.0)
    assert (await log.usage_of("ann", 8)).cost_usd == 0.0


async def test_decisions_of_one_user(log: Log) -> None:
    for user, session_id in (("ann", "sess_1"), ("bob", "sess_2")):
        await session_of(log, user, session_id)
        lease = await log.acquire(session_id, "owner")
        assert lease is not None
        event = event_of(ApprovalExpired(approval_id="appr_1"), session_id=session_id, seq=1, ts=5, run_id="run_1")
        await log.append(changed(batch(lease, 0), events=[event]))
    assert [event.session_id for event in await log.decisions(10, user="ann")] == ["sess_1"]
    assert await log.decisions(10, "sess_2", user="ann") == []
    assert len(await log.decisions(10)) == 2


async def test_what_all_sessions_cost_on_a_day_counts_deleted_ones(log: Log) -> None:
    assert await log.cost_of(0) == 0.0
    for number, user in enumerate(("ann", "bob", None, None)):
        await session_of(log, user, f"sess_{number}", RowFacts(day=0, day_cost_usd=1.5))
    await session_of(log, "ann", "sess_9", RowFacts(day=1, day_cost_usd=9.0))
    assert await log.cost_of(0) == 6.0
    for number in range(3):
        await log.delete(f"sess_{number}")
    assert await log.cost_of(0) == 6.0
    assert (await log.usage_of("ann", 0)).cost_usd == 1.5
    assert await log.cost_of(2) == 0.0

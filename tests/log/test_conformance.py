"""What every log does, whatever it is made of."""

import asyncio
from typing import Any

import pytest

from buddy.errors import Fenced, LogError, SeqConflict, UserError
from buddy.log.contract import EVENTS_PER_READ, Batch, Claim, Lease, Log, RowFacts, SessionQuery
from buddy.log.owners import HEARTBEAT_MS
from buddy.protocol.envelopes import event_lines, event_of
from buddy.protocol.events import (
    ApprovalExpired,
    AssistantToken,
)
from buddy.protocol.shapes import ContextState
from tests.harness.clock import ManualClock
from tests.harness.logs import read_all
from tests.log.records import OTHER, SESSION, batch, changed, record, seqs, started, tokens

# --- appending and reading ---


async def test_a_new_session_has_epoch_1_and_an_empty_log(log: Log) -> None:
    lease = await log.create(record(), "owner")
    assert lease == Lease(SESSION, 1, "owner")
    assert await log.get(SESSION) == record()
    assert await log.read(SESSION, 0) == []


async def test_a_session_is_created_once(log: Log) -> None:
    await started(log)
    with pytest.raises(LogError, match="exists already"):
        await started(log)


async def test_what_was_appended_is_read_as_it_was_written(log: Log) -> None:
    lease = await started(log)
    events = tokens(1, 45)
    assert await log.append(Batch(SESSION, lease.epoch, 0, events)) == 45
    found = await log.read(SESSION, 0)
    assert [event.line() for event in found] == [event.line() for event in events]
    assert found[0].body() == AssistantToken(text="héllo 1")


async def test_an_event_without_a_run_stays_without_one(log: Log) -> None:
    lease = await started(log)
    event = event_of(AssistantToken(text="x"), session_id=SESSION, seq=1, ts=5)
    await log.append(Batch(SESSION, lease.epoch, 0, [event]))
    assert [found.run_id for found in await log.read(SESSION, 0)] == [None]


async def test_a_log_is_read_in_pages(log: Log) -> None:
    lease = await started(log)
    await log.append(batch(lease, 0, 10))
    assert seqs(await log.read(SESSION, 0, limit=4)) == [1, 2, 3, 4]
    assert seqs(await log.read(SESSION, 4, limit=4)) == [5, 6, 7, 8]
    assert seqs(await log.read(SESSION, 8, limit=4)) == [9, 10]
    assert await log.read(SESSION, 10) == []
    assert await log.read(SESSION, 2**62) == []
    assert seqs(await log.read(SESSION, -1, limit=1)) == [1]


async def test_events_are_read_by_their_type(log: Log) -> None:
    lease = await started(log)
    expired = event_of(ApprovalExpired(approval_id="appr_1"), session_id=SESSION, seq=6, ts=1)
    await log.append(Batch(SESSION, lease.epoch, 0, [*tokens(1, 5), expired, *tokens(7, 3)]))
    assert await log.read(SESSION, 0, types={"approval_expired", "user_message"}) == [expired]
    assert await log.read(SESSION, 6, types={"approval_expired"}) == []
    assert seqs(await log.read(SESSION, 4, limit=2, types={"assistant_token"})) == [5, 7]
    assert await log.read(SESSION, 0, limit=0, types={"approval_expired"}) == []
    assert seqs(await log.read(SESSION, 3, types={"assistant_token"}, through=7)) == [4, 5, 7]
    assert seqs(await log.read(SESSION, 4, through=7)) == [5, 6, 7]
    assert await log.read(SESSION, 7, through=6) == await log.read(SESSION, 7, types={"usage"}, through=6) == []


async def test_events_are_read_as_the_lines_they_are_on_the_wire(log: Log) -> None:
    lease = await started(log)
    said = [*tokens(1, 4), event_of(ApprovalExpired(approval_id="appr_1"), session_id=SESSION, seq=5, ts=1)]
    await log.append(Batch(SESSION, lease.epoch, 0, said))
    lines = [event.line() for event in said]
    assert await log.read_lines(SESSION, 0, 100_000) == (b"".join(lines), 5)
    assert await log.read_lines(SESSION, 3, 100_000) == (lines[3] + lines[4], 5)
    assert await log.read_lines(SESSION, 5, 100_000) == (b"", 5)
    assert await log.read_lines("sess_none", 7, 100_000) == (b"", 7)


@pytest.mark.parametrize("size", [1, 4_000, 20_000, 100_000])
async def test_lines_are_read_in_portions(log: Log, size: int) -> None:
    lease = await started(log)
    said = tokens(1, 3 * EVENTS_PER_READ + 1)
    await log.append(Batch(SESSION, lease.epoch, 0, said))
    lines, after = list[bytes](), 0
    while (portion := await log.read_lines(SESSION, after, size))[0]:
        enough = event_lines(said[after:], after, size)[1]
        assert enough <= portion[1] < enough + EVENTS_PER_READ
        lines.append(portion[0])
        after = portion[1]
    assert b"".join(lines) == b"".join(event.line() for event in said)


async def test_the_last_event_of_a_type_is_found(log: Log) -> None:
    lease = await started(log)
    expired = event_of(ApprovalExpired(approval_id="appr_1"), session_id=SESSION, seq=6, ts=1)
    await log.append(Batch(SESSION, lease.epoch, 0, [*tokens(1, 5), expired, *tokens(7, 3)]))
    assert await log.last(SESSION, {"approval_expired"}) == expired
    assert await log.last(SESSION, {"approval_expired"}, 6) is None
    assert await log.last(SESSION, {"approval_expired"}, 0, 6) == expired
    assert await log.last(SESSION, {"approval_expired"}, 0, 5) is None
    assert await log.last(SESSION, {"user_message"}) is None
    found = [await log.last(SESSION, {"assistant_token", "approval_expired"}, after) for after in (0, 8, 9)]
    assert seqs([event for event in found if event]) == [9, 9]


async def test_sessions_do_not_see_each_others_events(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    await asyncio.gather(log.append(batch(first, 0, 3)), log.append(batch(second, 0, 2)))
    assert seqs(await read_all(log, SESSION)) == [1, 2, 3]
    assert seqs(await read_all(log, OTHER)) == [1, 2]
    assert await log.read("sess_none", 0) == []


async def test_one_of_several_appends_racing_for_a_seq_wins(log: Log) -> None:
    lease = await started(log)
    outcomes = await asyncio.gather(*(log.append(batch(lease, 0)) for _ in range(20)), return_exceptions=True)
    assert outcomes.count(1) == 1
    assert sum(isinstance(outcome, SeqConflict) for outcome in outcomes) == 19
    assert seqs(await read_all(log, SESSION)) == [1]


async def test_appends_that_follow_each_other_need_not_wait_for_each_other(log: Log) -> None:
    lease = await started(log)
    outcomes = await asyncio.gather(*(log.append(batch(lease, seq, durable=seq % 7 == 0)) for seq in range(50)))
    assert outcomes == list(range(1, 51))
    assert seqs(await read_all(log, SESSION)) == list(range(1, 51))


async def test_a_refused_append_does_not_disturb_its_neighbours(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    good, bad, also_good = await asyncio.gather(
        log.append(batch(first, 0)), log.append(batch(first, 7)), log.append(batch(second, 0)), return_exceptions=True
    )
    assert (good, also_good) == (1, 1)
    assert isinstance(bad, SeqConflict)


async def test_only_the_sessions_whose_append_is_stale_are_refused(log: Log) -> None:
    leases = [await started(log, f"sess_{number}") for number in range(50)]
    batches = [batch(lease, 0, 2) for lease in leases]
    batches[10] = batch(leases[10], 1)
    batches[20] = changed(batches[20], epoch=7)
    batches[30] = changed(batches[30], claim=Claim("call_1", 1, "digest"))
    outcomes = await asyncio.gather(*map(log.append, batches), return_exceptions=True)
    assert isinstance(outcomes.pop(20), Fenced)
    assert isinstance(outcomes.pop(10), SeqConflict)
    assert outcomes == [2] * 48
    for number, lease in enumerate(leases):
        assert seqs(await read_all(log, lease.session_id)) == ([] if number in (10, 20) else [1, 2])


async def test_events_that_would_leave_a_gap_are_refused(log: Log) -> None:
    lease = await started(log)
    with pytest.raises(ValueError, match="expected event sess_1:1, got sess_1:2"):
        await log.append(Batch(SESSION, lease.epoch, 0, tokens(2)))
    with pytest.raises(ValueError, match="got sess_2:1"):
        await log.append(Batch(SESSION, lease.epoch, 0, tokens(1, session_id=OTHER)))


async def test_a_batch_may_change_rows_without_an_event(log: Log) -> None:
    lease = await started(log)
    assert await log.append(Batch(SESSION, lease.epoch, 0, [], title="A title")) == 0
    found = await log.get(SESSION)
    assert found is not None
    assert found.title == "A title"


async def test_an_append_to_a_missing_session_is_fenced(log: Log) -> None:
    with pytest.raises(Fenced):
        await log.append(batch(Lease("sess_none", 1, "owner"), 0))


# --- idempotency ---


async def test_the_same_key_is_appended_once_and_gives_the_same_seq(log: Log) -> None:
    lease = await started(log)
    first = batch(lease, 0, 3, key="message-1")
    assert await log.append(first) == 3
    assert await log.append(batch(lease, 3)) == 4
    assert await log.append(first) == 3
    assert seqs(await read_all(log, SESSION)) == [1, 2, 3, 4]


async def test_a_key_counts_before_epoch_and_seq(log: Log) -> None:
    lease = await started(log)
    first = batch(lease, 0, key="message-1")
    await log.append(first)
    await log.acquire(SESSION, "owner")
    assert await log.append(changed(first, epoch=77, expected_seq=0)) == 1


async def test_a_key_belongs_to_its_session(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    assert await log.append(batch(first, 0, 2, key="same")) == 2
    assert await log.append(batch(second, 0, 1, key="same")) == 1


async def test_a_refused_batch_does_not_use_up_its_key(log: Log) -> None:
    lease = await started(log)
    with pytest.raises(SeqConflict):
        await log.append(batch(lease, 5, key="message-1"))
    assert await log.append(batch(lease, 0, key="message-1")) == 1


# --- leases ---


async def test_a_living_owner_keeps_its_session(log: Log, clock: ManualClock) -> None:
    await started(log)
    clock.now += HEARTBEAT_MS - 1
    assert await log.acquire(SESSION, "rival") is None


async def test_a_silent_owner_loses_its_session_and_is_fenced(log: Log, clock: ManualClock) -> None:
    old = await started(log)
    await log.append(batch(old, 0))
    clock.now += HEARTBEAT_MS
    new = await log.acquire(SESSION, "rival")
    assert new == Lease(SESSION, 2, "rival")
    with pytest.raises(Fenced):
        await log.append(batch(old, 1))
    assert await log.append(batch(Lease(SESSION, 2, "rival"), 1)) == 2


async def test_a_heartbeat_keeps_all_sessions_of_an_owner(log: Log, clock: ManualClock) -> None:
    await started(log)
    await started(log, OTHER)
    clock.now += HEARTBEAT_MS - 1
    await log.renew("owner")
    clock.now += HEARTBEAT_MS - 1
    assert await log.acquire(SESSION, "rival") is None
    assert await log.acquire(OTHER, "rival") is None


async def test_the_same_owner_gets_a_higher_epoch(log: Log) -> None:
    old = await started(log)
    new = await log.acquire(SESSION, "owner")
    assert new == Lease(SESSION, 2, "owner")
    with pytest.raises(Fenced):
        await log.append(batch(old, 0))


async def test_a_released_session_is_free_at_once(log: Log) -> None:
    await log.release(await started(log))
    assert await log.acquire(SESSION, "rival") == Lease(SESSION, 2, "rival")


async def test_a_lease_that_was_lost_cannot_be_released(log: Log, clock: ManualClock) -> None:
    old = await started(log)
    clock.now += HEARTBEAT_MS
    await log.acquire(SESSION, "rival")
    await log.release(old)
    assert await log.acquire(SESSION, "owner") is None


async def test_one_of_several_owners_acquires_a_free_session(log: Log) -> None:
    await log.release(await started(log))
    leases = await asyncio.gather(*(log.acquire(SESSION, f"rival-{number}") for number in range(10)))
    assert [lease.epoch for lease in leases if lease] == [2]


async def test_a_fenced_session_can_still_be_read(log: Log, clock: ManualClock) -> None:
    await log.append(batch(await started(log), 0))
    clock.now += HEARTBEAT_MS
    await log.acquire(SESSION, "rival")
    assert seqs(await log.read(SESSION, 0)) == [1]


async def test_an_unknown_session_cannot_be_acquired(log: Log) -> None:
    with pytest.raises(UserError, match="no session sess_none"):
        await log.acquire("sess_none", "owner")


# --- the session's row ---


async def test_an_append_keeps_the_row_up_to_date(log: Log, clock: ManualClock) -> None:
    lease = await started(log)
    clock.now += 5
    await log.append(changed(batch(lease, 0, 2), state="running", title="A title"))
    await log.append(batch(lease, 2))
    found = await log.get(SESSION)
    assert found is not None
    assert (found.state, found.title, found.last_seq, found.updated_at) == ("running", "A title", 3, clock.now)


async def test_active_sessions_are_those_with_a_run(log: Log) -> None:
    for number, state in enumerate(("idle", "running", "awaiting_approval", "completed")):
        lease = await started(log, f"sess_{number}")
        await log.append(changed(batch(lease, 0), state=state))
    assert [found.session_id for found in await log.active()] == ["sess_1", "sess_2"]


async def test_the_newest_session_is_the_one_used_last(log: Log, clock: ManualClock) -> None:
    leases = [await log.create(record(f"sess_{number}", root=f"/p{number % 2}"), "owner") for number in range(4)]
    for lease in (leases[2], leases[0], leases[1]):
        clock.now += 1
        await log.append(batch(lease, 0))
    assert [found.session_id for found in await log.newest(3)] == ["sess_1", "sess_0", "sess_2"]
    assert [found.session_id for found in await log.newest(9, "/p1")] == ["sess_1", "sess_3"]
    assert await log.newest(9, "/none") == []
    assert await log.get("sess_none") is None


# --- the list of sessions ---


async def test_the_facts_of_a_row_change_with_its_events(log: Log) -> None:
    lease = await started(log)
    facts = RowFacts(True, 0.5, 7, ContextState(3, 9), 1, OTHER)
    await log.append(changed(batch(lease, 0), facts=facts))
    await log.append(batch(lease, 1))
    found = await log.get(SESSION)
    assert found is not None
    assert found.facts == facts
    with pytest.raises(SeqConflict):
        await log.append(changed(batch(lease, 0), facts=RowFacts()))
    assert await log.get(SESSION) == found


async def test_a_batch_that_is_no_use_leaves_the_order_alone(log: Log, clock: ManualClock) -> None:
    lease = await started(log)
    await started(log, OTHER)
    clock.now += 5
    await log.append(changed(batch(lease, 0), is_use=False, title="another"))
    assert [(row.session_id, row.title) for row in await log.newest(5)] == [(OTHER, None), (SESSION, "another")]


async def test_sessions_are_found_by_words_state_and_page(log: Log) -> None:
    for number in range(1, 6):
        lease = await log.create(record(f"sess_{number}", root=f"/p/{number % 2}", created_at=number // 2), "owner")
        facts = RowFacts(archived=number == 4)
        await log.append(changed(batch(lease, 0), title=f"Äpfel {number}", is_use=False, facts=facts))

    async def found(limit: int = 10, **query: Any) -> list[str]:
        return [row.session_id[-1] for row in await log.find(SessionQuery(limit, **query))]

    assert await found() == ["5", "4", "3", "2", "1"]
    assert await found(archived=False) == ["5", "3", "2", "1"]
    assert await found(archived=True, query="äPFEL main") == ["4"]
    assert await found(query="p/1 äpfel") == ["5", "3", "1"]
    assert await found(query="p/1 birnen") == []
    assert await found(root_path="/p/0") == ["4", "2"]
    assert await found(state="running") == []
    assert await found(2, after=(2, "sess_4")) == ["3", "2"]
    assert await found(after=(1, "sess_2")) == ["1"]
    assert await found(query="100%_'\"") == []


async def test_a_session_is_listed_once_it_is_complete(log: Log) -> None:
    lease = await log.create(record(), "owner", is_complete=False)
    await log.append(batch(lease, 0, 2))
    assert await log.get(SESSION) is None
    assert await log.newest(10) == await log.active() == []
    assert await log.incomplete() == [SESSION]
    await log.append(changed(batch(lease, 2), state="idle"))
    assert await log.incomplete() == []
    assert [one.session_id for one in await log.newest(10)] == [SESSION]


async def test_an_incomplete_session_is_deleted(log: Log) -> None:
    await log.create(record(), "owner", is_complete=False)
    again = await log.acquire(SESSION, "owner")
    assert again is not None and await log.delete(SESSION, again.epoch)
    assert await log.incomplete() == []

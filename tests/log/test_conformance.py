"""What every log does, whatever it is made of."""

import asyncio
import hashlib

import pytest

from buddy.errors import Fenced, LogError, NotClaimed, SeqConflict, Undecidable, UserError
from buddy.log.contract import EVENTS_PER_READ, ApprovalDecision, ApprovalRecord, Batch, Claim, Lease, Log, TokenRecord
from buddy.log.owners import HEARTBEAT_MS
from buddy.protocol.envelopes import Event, event_lines, event_of
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    AssistantToken,
    EventBody,
)
from log.making import OTHER, SESSION, SetClock, batch, changed, read_all, record, seqs, tokens


def pending(approval_id: str = "appr_1") -> ApprovalRecord:
    return ApprovalRecord(approval_id, "run_1", "call_1", "digest", 99)


async def started(log: Log, session_id: str = SESSION) -> Lease:
    return await log.create(record(session_id), "owner")


# --- appending and reading ---


async def test_a_new_session_has_epoch_1_and_an_empty_log(log: Log) -> None:
    lease = await log.create(record(), "owner")
    assert lease == Lease(SESSION, 1, "owner")
    assert await log.get(SESSION) == record()
    assert await log.read(SESSION, 0) == []


async def test_a_session_is_made_once(log: Log) -> None:
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
    assert await log.last(SESSION, {"user_message"}) is None
    found = [await log.last(SESSION, {"assistant_token", "approval_expired"}, after) for after in (0, 8, 9)]
    assert seqs([event for event in found if event]) == [9, 9]


async def test_sessions_do_not_see_each_others_events(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    await asyncio.gather(log.append(batch(first, 0, 3)), log.append(batch(second, 0, 2)))
    assert seqs(await read_all(log, SESSION)) == [1, 2, 3]
    assert seqs(await read_all(log, OTHER)) == [1, 2]
    assert await log.read("sess_none", 0) == []


async def test_of_appends_that_race_for_one_seq_one_wins(log: Log) -> None:
    lease = await started(log)
    outcomes = await asyncio.gather(*(log.append(batch(lease, 0)) for _ in range(20)), return_exceptions=True)
    assert outcomes.count(1) == 1
    assert sum(isinstance(outcome, SeqConflict) for outcome in outcomes) == 19
    assert seqs(await read_all(log)) == [1]


async def test_appends_that_follow_each_other_need_not_wait_for_each_other(log: Log) -> None:
    lease = await started(log)
    outcomes = await asyncio.gather(*(log.append(batch(lease, seq, durable=seq % 7 == 0)) for seq in range(50)))
    assert outcomes == list(range(1, 51))
    assert seqs(await read_all(log)) == list(range(1, 51))


async def test_a_refused_append_does_not_disturb_its_neighbours(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    good, bad, also_good = await asyncio.gather(
        log.append(batch(first, 0)), log.append(batch(first, 7)), log.append(batch(second, 0)), return_exceptions=True
    )
    assert (good, also_good) == (1, 1)
    assert isinstance(bad, SeqConflict)


async def test_of_many_sessions_only_those_that_come_too_late_are_refused(log: Log) -> None:
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


async def test_events_that_would_tear_a_hole_are_refused(log: Log) -> None:
    lease = await started(log)
    with pytest.raises(ValueError, match="expected event sess_1:1, got sess_1:2"):
        await log.append(Batch(SESSION, lease.epoch, 0, tokens(2)))
    with pytest.raises(ValueError, match="not sess_2:1"):
        await log.append(Batch(SESSION, lease.epoch, 0, tokens(1, session_id=OTHER)))


async def test_a_batch_may_change_rows_without_an_event(log: Log) -> None:
    lease = await started(log)
    assert await log.append(Batch(SESSION, lease.epoch, 0, [], title="A title")) == 0
    found = await log.get(SESSION)
    assert found is not None
    assert found.title == "A title"


async def test_an_append_to_a_session_that_is_not_there_is_fenced(log: Log) -> None:
    with pytest.raises(Fenced):
        await log.append(batch(Lease("sess_none", 1, "owner"), 0))


# --- idempotency ---


async def test_the_same_key_is_appended_once_and_gives_the_same_seq(log: Log) -> None:
    lease = await started(log)
    first = batch(lease, 0, 3, key="message-1")
    assert await log.append(first) == 3
    assert await log.append(batch(lease, 3)) == 4
    assert await log.append(first) == 3
    assert seqs(await read_all(log)) == [1, 2, 3, 4]


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


async def test_a_living_owner_keeps_its_session(log: Log, clock: SetClock) -> None:
    await started(log)
    clock.now += HEARTBEAT_MS - 1
    assert await log.acquire(SESSION, "rival") is None


async def test_a_silent_owner_loses_its_session_and_is_fenced(log: Log, clock: SetClock) -> None:
    old = await started(log)
    await log.append(batch(old, 0))
    clock.now += HEARTBEAT_MS
    new = await log.acquire(SESSION, "rival")
    assert new == Lease(SESSION, 2, "rival")
    with pytest.raises(Fenced):
        await log.append(batch(old, 1))
    assert await log.append(batch(Lease(SESSION, 2, "rival"), 1)) == 2


async def test_a_heartbeat_keeps_all_sessions_of_an_owner(log: Log, clock: SetClock) -> None:
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


async def test_a_lease_that_was_lost_cannot_be_released(log: Log, clock: SetClock) -> None:
    old = await started(log)
    clock.now += HEARTBEAT_MS
    await log.acquire(SESSION, "rival")
    await log.release(old)
    assert await log.acquire(SESSION, "owner") is None


async def test_of_rivals_for_a_free_session_one_wins(log: Log) -> None:
    await log.release(await started(log))
    leases = await asyncio.gather(*(log.acquire(SESSION, f"rival-{number}") for number in range(10)))
    assert [lease.epoch for lease in leases if lease] == [2]


async def test_a_fenced_session_can_still_be_read(log: Log, clock: SetClock) -> None:
    await log.append(batch(await started(log), 0))
    clock.now += HEARTBEAT_MS
    await log.acquire(SESSION, "rival")
    assert seqs(await log.read(SESSION, 0)) == [1]


async def test_an_unknown_session_cannot_be_acquired(log: Log) -> None:
    with pytest.raises(UserError, match="no session sess_none"):
        await log.acquire("sess_none", "owner")


# --- claims and approvals ---


async def test_a_call_is_claimed_once_per_attempt(log: Log) -> None:
    lease = await started(log)
    claim = Claim("call_1", 1, "digest")
    await log.append(changed(batch(lease, 0), claim=claim))
    with pytest.raises(NotClaimed):
        await log.append(changed(batch(lease, 1), claim=claim))
    assert seqs(await read_all(log)) == [1]
    assert await log.append(changed(batch(lease, 1), claim=Claim("call_1", 2, "digest"))) == 2


async def test_of_racing_claims_one_wins(log: Log) -> None:
    lease = await started(log)
    racing = [changed(batch(lease, seq), claim=Claim("call_1", 1, "digest")) for seq in (0, 1, 1)]
    outcomes = await asyncio.gather(*map(log.append, racing), return_exceptions=True)
    assert outcomes[0] == 1
    assert [type(outcome) for outcome in outcomes[1:]] == [NotClaimed, NotClaimed]


async def test_sessions_may_claim_calls_of_the_same_name(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    for lease in (first, second):
        assert await log.append(changed(batch(lease, 0), claim=Claim("call_1", 1, "digest"))) == 1


async def test_a_wrong_epoch_is_reported_before_a_claim(log: Log) -> None:
    lease = await started(log)
    claimed = changed(batch(lease, 0), claim=Claim("call_1", 1, "digest"))
    await log.append(claimed)
    with pytest.raises(Fenced):
        await log.append(changed(claimed, epoch=9))
    with pytest.raises(SeqConflict):
        await log.append(claimed)


async def test_an_approval_is_decided_once(log: Log) -> None:
    lease = await started(log)
    await log.append(changed(batch(lease, 0), approval=pending()))
    assert await log.approval("appr_1") == pending()
    await log.append(changed(batch(lease, 1), decision=ApprovalDecision("appr_1", "approve", "cli")))
    with pytest.raises(Undecidable) as refused:
        await log.append(changed(batch(lease, 2), decision=ApprovalDecision("appr_1", "deny", "console")))
    assert refused.value.state == "approve"
    assert await log.approval("appr_1") == changed(pending(), state="approve")
    assert seqs(await read_all(log)) == [1, 2]


async def test_an_expired_approval_cannot_be_decided(log: Log) -> None:
    lease = await started(log)
    await log.append(changed(batch(lease, 0), approval=pending()))
    await log.append(changed(batch(lease, 1), decision=ApprovalDecision("appr_1", "expired", "timeout")))
    with pytest.raises(Undecidable) as refused:
        await log.append(changed(batch(lease, 2), decision=ApprovalDecision("appr_1", "approve", "cli")))
    assert refused.value.state == "expired"
    assert await log.approval("appr_1") == changed(pending(), state="expired")


async def test_a_question_may_be_asked_and_decided_in_one_batch(log: Log) -> None:
    lease = await started(log)
    asked = changed(batch(lease, 0, 2), approval=pending(), decision=ApprovalDecision("appr_1", "approve", "policy"))
    assert await log.append(asked) == 2
    assert await log.approval("appr_1") == changed(pending(), state="approve")


async def test_an_approval_of_another_session_cannot_be_decided(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    await log.append(changed(batch(first, 0), approval=pending()))
    with pytest.raises(Undecidable) as refused:
        await log.append(changed(batch(second, 0), decision=ApprovalDecision("appr_1", "approve", "cli")))
    assert refused.value.state == "unknown"
    assert await log.approval("appr_1") == pending()


async def test_decisions_are_reported_over_all_sessions_the_newest_last(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    await log.append(Batch(SESSION, first.epoch, 0, [*tokens(1, 3), *decisions(SESSION, 4, 10, 30, 50)]))
    await log.append(Batch(OTHER, second.epoch, 0, decisions(OTHER, 1, 20, 50)))
    whole = [(SESSION, 10), (OTHER, 20), (SESSION, 30), (SESSION, 50), (OTHER, 50)]
    assert told(await log.decisions(10)) == whole
    assert told(await log.decisions(2)) == [(SESSION, 50), (OTHER, 50)]
    assert told(await log.decisions(0)) == []
    assert told(await log.decisions(10, SESSION)) == [(SESSION, 10), (SESSION, 30), (SESSION, 50)]
    assert told(await log.decisions(10, since=30)) == [(SESSION, 30), (SESSION, 50), (OTHER, 50)]
    assert told(await log.decisions(1, "sess_none")) == []
    await log.delete(OTHER)
    assert told(await log.decisions(10, since=20)) == [(SESSION, 30), (SESSION, 50)]


def decisions(session_id: str, seq: int, *times: int) -> list[Event]:
    kinds: tuple[EventBody, ...] = (
        ApprovalReceived(approval_id="appr_1", decision="deny", by="cli"),
        ApprovalExpired(approval_id="appr_1"),
        ApprovalPolicyChanged(policy="all", by="cli"),
    )
    return [event_of(kinds[index % 3], session_id=session_id, seq=seq + index, ts=ts) for index, ts in enumerate(times)]


def told(events: list[Event]) -> list[tuple[str, int]]:
    return [(event.session_id, event.ts) for event in events]


async def test_an_approval_id_is_used_once(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    await log.append(changed(batch(first, 0), approval=pending()))
    for lease, seq in ((first, 1), (second, 0)):
        with pytest.raises(Undecidable):
            await log.append(changed(batch(lease, seq), approval=pending()))
    assert await log.approval("appr_none") is None


async def test_a_claim_is_reported_before_a_decision_and_nothing_of_either_is_written(log: Log) -> None:
    lease = await started(log)
    await log.append(changed(batch(lease, 0), claim=Claim("call_1", 1, "digest"), approval=pending()))
    both = changed(
        batch(lease, 1), claim=Claim("call_1", 1, "digest"), decision=ApprovalDecision("appr_9", "deny", "cli")
    )
    with pytest.raises(NotClaimed):
        await log.append(both)
    with pytest.raises(Undecidable):
        await log.append(changed(both, claim=Claim("call_2", 1, "digest"), state="running", title="no", key="k"))
    assert await log.append(changed(batch(lease, 1), claim=Claim("call_2", 1, "digest"), key="k")) == 2
    found = await log.get(SESSION)
    assert found is not None
    assert (found.state, found.title) == ("idle", None)


# --- the session's row ---


async def test_an_append_keeps_the_row_up_to_date(log: Log, clock: SetClock) -> None:
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


async def test_the_newest_session_is_the_one_used_last(log: Log, clock: SetClock) -> None:
    leases = [await log.create(record(f"sess_{number}", root=f"/p{number % 2}"), "owner") for number in range(4)]
    for lease in (leases[2], leases[0], leases[1]):
        clock.now += 1
        await log.append(batch(lease, 0))
    assert [found.session_id for found in await log.newest(3)] == ["sess_1", "sess_0", "sess_2"]
    assert [found.session_id for found in await log.newest(9, "/p1")] == ["sess_1", "sess_3"]
    assert await log.newest(9, "/none") == []
    assert await log.get("sess_none") is None


# --- inbox ---


async def test_items_wait_in_order_and_are_taken_with_an_append(log: Log) -> None:
    lease = await started(log)
    assert [await log.put(SESSION, key, "message", key.encode(), 10) for key in ("a", "b", "c")] == [1, 2, 3]
    items = await log.waiting(SESSION)
    assert [(item.key, item.kind, item.body) for item in items] == [
        ("a", "message", b"a"),
        ("b", "message", b"b"),
        ("c", "message", b"c"),
    ]
    await log.append(changed(batch(lease, 0), taken=(items[0].item_id, items[1].item_id)))
    assert [item.key for item in await log.waiting(SESSION)] == ["c"]
    assert await log.put(SESSION, "d", "message", b"d", 10) == 2


async def test_a_refused_append_takes_nothing(log: Log) -> None:
    lease = await started(log)
    await log.put(SESSION, "a", "message", b"{}", 10)
    (item,) = await log.waiting(SESSION)
    with pytest.raises(SeqConflict):
        await log.append(changed(batch(lease, 9), taken=(item.item_id,)))
    assert await log.waiting(SESSION) == [item]


async def test_a_full_inbox_refuses(log: Log) -> None:
    await started(log)
    assert [await log.put(SESSION, key, "message", b"{}", 2) for key in ("a", "b", "c")] == [1, 2, None]
    assert await log.put(SESSION, "b", "message", b"{}", 2) == 2


async def test_a_key_is_queued_once_even_after_it_was_taken(log: Log) -> None:
    lease = await started(log)
    assert await log.put(SESSION, "a", "message", b"{}", 10) == 1
    assert await log.put(SESSION, "a", "message", b"{}", 10) == 1
    (item,) = await log.waiting(SESSION)
    await log.append(changed(batch(lease, 0), taken=(item.item_id,)))
    assert await log.put(SESSION, "a", "message", b"{}", 10) == 0
    assert await log.waiting(SESSION) == []


async def test_a_session_takes_only_its_own_items(log: Log) -> None:
    await started(log)
    other = await started(log, OTHER)
    await log.put(SESSION, "a", "message", b"{}", 10)
    (item,) = await log.waiting(SESSION)
    await log.append(changed(batch(other, 0), taken=(item.item_id,)))
    assert await log.waiting(SESSION) == [item]
    assert await log.waiting("sess_none") == []


async def test_nothing_is_queued_for_an_unknown_session(log: Log) -> None:
    with pytest.raises(UserError, match="no session"):
        await log.put("sess_none", "a", "message", b"{}", 10)


# --- waiting ---


async def test_a_wait_for_what_is_there_returns_at_once(log: Log) -> None:
    await log.append(batch(await started(log), 0))
    assert await log.wait(SESSION, 0, 0)


async def test_a_wait_ends_with_the_next_append(log: Log) -> None:
    lease = await started(log)
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(log.wait(SESSION, 0, 60)) for _ in range(3)]
        await asyncio.sleep(0)
        await log.append(batch(lease, 0))
    assert [wait.result() for wait in waits] == [True, True, True]


async def test_a_wait_that_nothing_ends_is_false(log: Log) -> None:
    await started(log)
    assert not await log.wait(SESSION, 0, 0.01)
    assert not await log.wait("sess_none", 0, 0)


# --- pruning and deleting ---


async def test_pruning_moves_the_first_seq_and_never_the_last(log: Log) -> None:
    lease = await started(log)
    await log.append(batch(lease, 0, 10))
    assert await log.prune(lease, 4) == 4
    assert seqs(await log.read(SESSION, 0, limit=3)) == [4, 5, 6]
    assert seqs(await log.read(SESSION, 5, limit=3)) == [6, 7, 8]
    assert await log.prune(lease, 2) == 4
    assert await log.prune(lease, 99) == 11
    assert await log.read(SESSION, 0) == []
    found = await log.get(SESSION)
    assert found is not None
    assert (found.first_seq, found.last_seq) == (11, 10)
    assert await log.append(batch(lease, 10)) == 11
    assert seqs(await log.read(SESSION, 0)) == [11]


async def test_pruning_needs_the_lease(log: Log) -> None:
    lease = await started(log)
    await log.append(batch(lease, 0, 3))
    await log.acquire(SESSION, "owner")
    with pytest.raises(Fenced):
        await log.prune(lease, 2)
    assert seqs(await read_all(log)) == [1, 2, 3]


async def test_a_pruned_batch_is_still_known_by_its_key(log: Log) -> None:
    lease = await started(log)
    first = batch(lease, 0, 3, key="message-1")
    await log.append(first)
    await log.prune(lease, 4)
    assert await log.append(first) == 3


async def test_deleting_a_session_removes_all_of_it_and_nothing_else(log: Log) -> None:
    for session_id in (SESSION, OTHER):
        lease = await started(log, session_id)
        await log.append(changed(batch(lease, 0, key="k"), approval=pending(f"appr_{session_id}")))
        await log.put(session_id, "a", "message", b"{}", 10)
        await log.put_token(TokenRecord(f"hash_{session_id}", session_id, "driver"))
    assert await log.delete(SESSION)
    assert await log.get(SESSION) is None
    assert await log.read(SESSION, 0) == []
    assert await log.waiting(SESSION) == []
    assert await log.approval(f"appr_{SESSION}") is None
    assert await log.token(f"hash_{SESSION}") is None
    assert not await log.delete(SESSION)
    with pytest.raises(Fenced):
        await log.append(batch(Lease(SESSION, 1, "owner"), 1))
    assert [found.session_id for found in await log.newest(9)] == [OTHER]
    assert seqs(await read_all(log, OTHER)) == [1]
    assert len(await log.waiting(OTHER)) == 1
    assert await log.approval(f"appr_{OTHER}") is not None
    assert await log.token(f"hash_{OTHER}") is not None


# --- tokens and blobs ---


async def test_a_token_is_found_by_its_hash_until_it_is_revoked(log: Log) -> None:
    await started(log)
    token = TokenRecord("hash", SESSION, "observer", 123)
    await log.put_token(token)
    assert await log.token("hash") == token
    assert await log.revoke("hash")
    assert not await log.revoke("hash")
    assert await log.token("hash") is None


async def test_a_token_needs_its_session(log: Log) -> None:
    with pytest.raises(UserError, match="no session"):
        await log.put_token(TokenRecord("hash", "sess_none", "driver"))


async def test_a_blob_is_named_by_its_content(log: Log) -> None:
    content = bytes(range(256)) * 400
    blob = await log.put_blob(content)
    assert blob == hashlib.sha256(content).hexdigest()
    assert await log.put_blob(content) == blob
    assert await log.read_blob(blob) == (content, len(content))
    assert await log.read_blob(blob, 10, 5) == (content[10:15], len(content))
    assert await log.read_blob(blob, len(content), 5) == (b"", len(content))


async def test_the_empty_blob_is_a_blob(log: Log) -> None:
    assert await log.read_blob(await log.put_blob(b"")) == (b"", 0)


@pytest.mark.parametrize("blob", ["0" * 64, "../../buddy.db", "", "/etc/passwd", "A" * 64, "0" * 64 + "\n"])
async def test_what_is_no_blob_is_not_found(log: Log, blob: str) -> None:
    assert await log.read_blob(blob) is None


async def test_a_blob_that_another_session_names_outlives_the_first(log: Log) -> None:
    blob = await log.put_blob(b"shared")
    for session_id in (SESSION, OTHER):
        lease = await started(log, session_id)
        event = event_of(AssistantToken(text="", blobs={"text": blob}), session_id=session_id, seq=1, ts=1)
        await log.append(Batch(session_id, lease.epoch, 0, [event]))
    await log.delete(SESSION)
    assert await log.read_blob(blob) == (b"shared", 6)
    assert (await log.has_blob(SESSION, blob), await log.has_blob(OTHER, blob)) == (False, True)


async def test_a_session_has_the_blobs_that_its_events_name(log: Log) -> None:
    ours, theirs = [await log.put_blob(content) for content in (b"ours", b"theirs")]
    for session_id, blob in ((SESSION, ours), (OTHER, theirs)):
        lease = await started(log, session_id)
        event = event_of(AssistantToken(text="", blobs={"text": blob}), session_id=session_id, seq=1, ts=1)
        await log.append(Batch(session_id, lease.epoch, 0, [event]))
    assert [await log.has_blob(SESSION, blob) for blob in (ours, theirs, "nothing")] == [True, False, False]


async def test_there_is_room(log: Log) -> None:
    assert log.has_room()

"""What every log does with claims and approvals."""

import asyncio

import pytest

from buddy.errors import Fenced, NotClaimed, SeqConflict, Undecidable
from buddy.log.contract import ApprovalDecision, Batch, Claim, Log
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    EventBody,
)
from tests.harness.logs import read_all
from tests.log.records import OTHER, SESSION, batch, changed, pending, seqs, started, tokens


async def test_a_call_is_claimed_once_per_attempt(log: Log) -> None:
    lease = await started(log)
    claim = Claim("call_1", 1, "digest")
    await log.append(changed(batch(lease, 0), claim=claim))
    with pytest.raises(NotClaimed):
        await log.append(changed(batch(lease, 1), claim=claim))
    assert seqs(await read_all(log, SESSION)) == [1]
    assert await log.append(changed(batch(lease, 1), claim=Claim("call_1", 2, "digest"))) == 2


async def test_one_of_several_racing_claims_wins(log: Log) -> None:
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
    assert seqs(await read_all(log, SESSION)) == [1, 2]


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


async def test_decisions_are_listed_across_sessions_with_the_newest_last(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    await log.append(Batch(SESSION, first.epoch, 0, [*tokens(1, 3), *decisions(SESSION, 4, 10, 30, 50)]))
    await log.append(Batch(OTHER, second.epoch, 0, decisions(OTHER, 1, 20, 50)))
    whole = [(SESSION, 10), (OTHER, 20), (SESSION, 30), (SESSION, 50), (OTHER, 50)]
    assert decided(await log.decisions(10)) == whole
    assert decided(await log.decisions(2)) == [(SESSION, 50), (OTHER, 50)]
    assert decided(await log.decisions(0)) == []
    assert decided(await log.decisions(10, SESSION)) == [(SESSION, 10), (SESSION, 30), (SESSION, 50)]
    assert decided(await log.decisions(10, since=30)) == [(SESSION, 30), (SESSION, 50), (OTHER, 50)]
    assert decided(await log.decisions(1, "sess_none")) == []
    await log.delete(OTHER)
    assert decided(await log.decisions(10, since=20)) == [(SESSION, 30), (SESSION, 50)]


def decisions(session_id: str, seq: int, *times: int) -> list[Event]:
    kinds: tuple[EventBody, ...] = (
        ApprovalReceived(approval_id="appr_1", decision="deny", by="cli"),
        ApprovalExpired(approval_id="appr_1"),
        ApprovalPolicyChanged(policy="all", by="cli"),
    )
    return [event_of(kinds[index % 3], session_id=session_id, seq=seq + index, ts=ts) for index, ts in enumerate(times)]


def decided(events: list[Event]) -> list[tuple[str, int]]:
    return [(event.session_id, event.ts) for event in events]


async def test_an_approval_id_is_used_once(log: Log) -> None:
    first, second = await started(log), await started(log, OTHER)
    await log.append(changed(batch(first, 0), approval=pending()))
    for lease, seq in ((first, 1), (second, 0)):
        with pytest.raises(Undecidable):
            await log.append(changed(batch(lease, seq), approval=pending()))
    assert await log.approval("appr_none") is None


async def test_a_claim_is_reported_before_a_decision_and_neither_is_written(log: Log) -> None:
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


async def test_pruning_forgets_the_claims_and_decisions_of_the_runs_that_are_gone(log: Log) -> None:
    lease = await started(log)
    for number in (1, 2, 3):
        run_id = f"run_{number}"
        asked = changed(pending(f"appr_{number}"), run_id=run_id)
        events = [changed(event, run_id=run_id) for event in tokens(2 * number - 1, 2)]
        claim = Claim(f"{run_id}/call_1", 1, "digest")
        first = changed(batch(lease, 2 * number - 2), events=events[:1], claim=claim, approval=asked)
        await log.append(first)
        decision = ApprovalDecision(asked.approval_id, "approve", "cli") if number != 1 else None
        await log.append(changed(batch(lease, 2 * number - 1), events=events[1:], decision=decision))
    await log.prune(lease, 6)  # the first event of the third run, too
    states = [found.state if (found := await log.approval(f"appr_{number}")) else None for number in (1, 2, 3)]
    assert states == ["pending", None, "approve"]
    assert await log.append(changed(batch(lease, 6), claim=Claim("run_2/call_1", 1, "digest"))) == 7
    with pytest.raises(NotClaimed):
        await log.append(changed(batch(lease, 7), claim=Claim("run_3/call_1", 1, "digest")))
    await log.prune(lease, 99)
    assert await log.append(changed(batch(lease, 7), claim=Claim("run_3/call_1", 1, "digest"))) == 8

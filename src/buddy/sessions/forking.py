"""Copies a session up to some event, a page at a time, while others are served.

Invariants: nobody sees the copy before it is complete, because its row says so with the last page; what a process that
died has left of one is deleted when the next starts; the original is only read.
"""

import logging

from msgspec import Struct
from msgspec.structs import replace

from buddy import faults
from buddy.errors import BuddyError, LogError, ProtocolError, SessionElsewhere
from buddy.log.contract import Batch, Lease, Log, RowFacts, SessionRecord, TokenRecord
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalPolicyChanged, SessionCompacted, SessionStarted, UserMessage
from buddy.sessions.fork import COPIED, DECISIVE, Boundary, Copier, fork_title, with_plan
from buddy.sessions.past import PAGE, read_pages
from buddy.sessions.pinning import check_place, pin
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions, unknown_start

log = logging.getLogger("buddy.sessions")

_SURVEYED = DECISIVE | {"approval_policy_changed", "session_compacted"}


class Survey(Struct):
    """What has to be known of the original before the first event is copied."""

    cut: int = 0
    first: Event | None = None
    first_text: str = ""
    plan: bool | None = None
    compacted: list[int] = []


async def fork_session(
    sessions: Sessions, session_id: str, seq: int, by: str, token: TokenRecord | None = None, user: str | None = None
) -> tuple[Session, str]:
    """A copy of a session up to the turn boundary at or before `seq`, and the token that drives it.

    `token` is the one that the copy was requested with, if there was one. The copy belongs to `user`, else to the
    user of the original.
    """
    services = sessions.services
    record = await sessions.record(session_id)
    if not record.first_seq - 1 <= seq <= record.last_seq:
        raise ProtocolError("INVALID_REQUEST", f"seq must be between {record.first_seq - 1} and {record.last_seq}")
    survey = await survey_session(services.log, session_id, seq)
    started = with_plan(await _last_start(services.log, record), survey.plan)
    try:
        await check_place(services, session_id, started)
    except ProtocolError as error:
        raise SessionElsewhere(error.code, error.message, retryable=True) from error
    new, now = services.ids("sess"), services.clock()
    started = replace(started, session_id=new, state="idle", user=user or record.user, node=services.node)
    row = replace(record, session_id=new, state="idle", created_at=now, updated_at=now, first_seq=1, last_seq=0)
    row = replace(row, title=fork_title(record.title, survey.first_text), facts=RowFacts(parent=session_id))
    sessions.copying.add(new)
    try:
        async with services.admit_session(user):
            lease = await services.log.create(replace(row, user=user or record.user), sessions.owner, is_complete=False)
        # The copy of a sub-agent works for nobody; its tools stay as limited as they were.
        copier = Copier(replace(started, delegated=None), survey.first.ts if survey.first else now, survey.compacted)
        await _copy(services.log, record, lease, survey.cut, copier, by, now)
        await pin(services, lease, started)
    except BaseException:
        await _discard(services.log, new)
        raise
    finally:
        sessions.copying.discard(new)
    sessions.granted[new] = lease  # never let go in between: another process could take the copy
    try:
        return await sessions.open(new), await sessions.tokens.mint(new, "driver", minted_by=token)
    finally:
        sessions.granted.pop(new, None)


async def survey_session(log: Log, session_id: str, seq: int) -> Survey:
    survey, boundary = Survey(), Boundary()
    survey.first = next(iter(await log.read(session_id, 0, 1)), None)
    async for page in read_pages(log, session_id, types=_SURVEYED, through=seq):
        for event, body in page:
            boundary.observe(event, body)
            match body:
                case UserMessage():
                    survey.first_text = survey.first_text or body.text
                case ApprovalPolicyChanged():
                    survey.plan = survey.plan if body.plan is None else body.plan
                case SessionCompacted():
                    survey.compacted.append(body.through_seq)
                case _:
                    pass
    survey.cut = boundary.seq
    return survey


async def _copy(log: Log, record: SessionRecord, lease: Lease, cut: int, copier: Copier, by: str, now: int) -> None:
    written, waiting, after = 0, [copier.begin()], 0
    while True:
        page = await log.read(record.session_id, after, PAGE, COPIED, cut)
        waiting += map(copier.copy, page)
        if len(page) < PAGE:
            break
        after = page[-1].seq
        written = await log.append(Batch(lease.session_id, lease.epoch, written, waiting))
        faults.reached("fork.page")
        waiting = []
    known = await log.get(record.session_id)
    if known is None or known.first_seq > record.first_seq:
        raise ProtocolError("INTERNAL_ERROR", f"{record.session_id} was pruned meanwhile", retryable=True)
    waiting += copier.end(record.session_id, cut, by, now)
    facts = replace(copier.facts, parent=record.session_id)
    await log.append(Batch(lease.session_id, lease.epoch, written, waiting, durable=True, state="idle", facts=facts))


async def _last_start(log: Log, record: SessionRecord) -> SessionStarted:
    last = await log.last(record.session_id, ("session_started",))
    body = last.body() if last else None
    return body if isinstance(body, SessionStarted) else unknown_start(record)


async def discard_incomplete(sessions: Sessions) -> int:
    """Delete what processes that died have left of copies, or of sessions that they were deleting."""
    gone = 0
    for session_id in await sessions.services.log.incomplete():
        if session_id in sessions.copying:
            continue
        try:
            lease = await sessions.services.log.acquire(session_id, sessions.owner)
            gone += lease is not None and await sessions.services.log.delete(session_id, lease.epoch)
        except BuddyError as error:
            log.warning("%s is incomplete and cannot be deleted: %s", session_id, error)
    return gone


async def _discard(log_: Log, session_id: str) -> None:
    try:
        await log_.delete(session_id)
    except LogError as error:
        log.warning("the copy %s is incomplete and is deleted at the next start: %s", session_id, error)

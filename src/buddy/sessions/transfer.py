"""Sessions as they leave one log and enter another: every event with its seq, and the blobs that they name.

Invariants: a session keeps its id and its seqs; nobody sees a new one before all of it is there; what an interrupted
import has left of one, the next import replaces; a session that is there already is never changed, unless what is there
is the beginning of what comes.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy.errors import NotClaimed, SeqConflict, Undecidable, UserError
from buddy.log.contract import ApprovalRecord, Batch, Claim, Lease, Log, SessionRecord
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    ApprovalRequired,
    EventBody,
    ToolClaimed,
    UserMessage,
)
from buddy.protocol.session_events import SessionForked
from buddy.protocol.shapes import Repo, SessionSummary
from buddy.sessions.listing import ListedRow
from buddy.sessions.spill import restore_spilled
from buddy.sessions.state import SessionFold

PAGE = 500
ACTIVE = ("running", "awaiting_approval")
NAMING = frozenset({"session_renamed", "session_archived"})


class ImportedSession(Struct, frozen=True):
    """Everything of one session: its events from `events[0].seq` on, the contents of its blobs, its row if known."""

    events: Sequence[Event]
    blobs: Mapping[str, bytes]
    row: SessionSummary | None = None

    @property
    def session_id(self) -> str:
        return self.events[0].session_id


async def import_session(log: Log, session: ImportedSession, owner: str) -> bool:
    """Put a session into a log; False if all of it was there. UserError if it cannot be: none has changed then."""
    _check_seqs(session)
    record = await _record_of(session)
    known = await log.get(session.session_id)
    if known is None:
        await _discard_interrupted(log, session.session_id, owner)
        lease, written = await log.create(record, owner, is_complete=False), record.first_seq - 1
    else:
        await _check_beginning(log, session, known)
        written = known.last_seq
        if written >= session.events[-1].seq:
            return False
        lease = await _acquire(log, session.session_id, owner)
        facts = replace(record.facts, day=known.facts.day, day_cost_usd=known.facts.day_cost_usd)
        record = replace(record, facts=facts)
    try:
        await _write(log, session, record, lease, written)
    except (NotClaimed, SeqConflict, Undecidable) as error:
        hint = "the file has something twice, or something that another session has"
        raise UserError(f"{session.session_id} cannot be imported: {error}", hint=hint) from error
    await log.release(lease)
    return True


async def _write(log: Log, session: ImportedSession, record: SessionRecord, lease: Lease, written: int) -> None:
    for content in session.blobs.values():
        await log.put_blob(content)
    for batch in _batches(lease, [event for event in session.events if event.seq > written]):
        await log.append(batch)
    final = Batch(lease.session_id, lease.epoch, session.events[-1].seq, [], durable=True, is_use=False)
    await log.append(replace(final, state=record.state, title=record.title, facts=record.facts))


async def _discard_interrupted(log: Log, session_id: str, owner: str) -> None:
    if session_id in await log.incomplete():
        lease = await _acquire(log, session_id, owner)
        await log.delete(session_id, lease.epoch)


async def _acquire(log: Log, session_id: str, owner: str) -> Lease:
    lease = await log.acquire(session_id, owner)
    if lease is None:
        raise UserError(f"{session_id} is in use", hint="try again when nobody uses it", exit_code=75)
    return lease


def _check_seqs(session: ImportedSession) -> None:
    for number, event in enumerate(session.events):
        expected = session.events[0].seq + number
        if event.seq != expected:
            raise UserError(f"{session.session_id} has a gap: event {event.seq} instead of {expected}")


async def _check_beginning(log: Log, session: ImportedSession, known: SessionRecord) -> None:
    first, after = session.events[0].seq, max(known.first_seq, session.events[0].seq) - 1
    if first > known.last_seq + 1:
        missing = f"the events between {known.last_seq} and {first} are missing"
        raise UserError(f"{session.session_id} is already there, and {missing}")
    while page := await log.read(session.session_id, after, PAGE):
        for event in page:
            at = event.seq - first
            if at >= len(session.events):
                return  # it was imported before, and has been used since
            if session.events[at].line() != event.line():
                raise UserError(
                    f"{session.session_id} is already there, with another event {event.seq}",
                    hint=f"buddy session delete {session.session_id} removes it first",
                )
        after = page[-1].seq


async def _record_of(session: ImportedSession) -> SessionRecord:
    """The session's row, as its events tell."""
    fold, row = SessionFold(), ListedRow()

    async def read(blob: str) -> bytes | None:
        return session.blobs.get(blob)

    for event in session.events:
        try:
            body = await restore_spilled(event, read)
        except msgspec.MsgspecError as error:
            what = f"event {event.seq}, {event.type}, cannot be read: {error}"
            raise UserError(f"{session.session_id}: {what}") from error
        if body is not None:
            fold.apply(event, body)
            row.apply(body, event.ts)
        if isinstance(body, SessionForked):
            row.facts = replace(row.facts, parent=body.from_session_id)
    if fold.run is not None:
        hint = "export it again when the run has ended, or cancel it first"
        raise UserError(f"{session.session_id} was exported during a run", hint=hint)
    started = fold.started
    used = [event.ts for event in session.events if event.type not in NAMING]
    record = SessionRecord(
        session.session_id,
        (started.repo if started else None) or Repo("/"),
        started.mode if started else "interactive",
        fold.state,
        created_at=session.events[0].ts,
        updated_at=max(used, default=session.events[-1].ts),
        first_seq=session.events[0].seq,
        last_seq=0,
        title=row.title,
        facts=replace(row.facts, day=0, day_cost_usd=0.0),  # it was not spent here
    )
    return _as_listed(record, session.row) if session.row else record


def _as_listed(record: SessionRecord, row: SessionSummary) -> SessionRecord:
    """The record with what the list showed: a fork's name, or a path, that its events do not have."""
    facts = replace(record.facts, archived=row.archived, parent=row.parent)
    mode = row.mode or record.mode
    listed = replace(record, repo=row.repo, mode=mode, updated_at=row.updated_at, title=row.title, facts=facts)
    # Its run may have ended after its row was exported, before its events were.
    return listed if row.state in ACTIVE else replace(listed, state=row.state)


def _batches(lease: Lease, events: Sequence[Event]) -> Iterator[Batch]:
    """The events in order; each that a row belongs to is in a batch of its own, with that row."""
    gathered: list[Event] = []
    for event in events:
        rows = _rows_of(event)
        if gathered and (rows is not None or len(gathered) >= PAGE):
            yield _batch(lease, gathered)
            gathered = []
        if rows is None:
            gathered.append(event)
        else:
            yield replace(rows, session_id=lease.session_id, epoch=lease.epoch, expected_seq=event.seq - 1)
    if gathered:
        yield _batch(lease, gathered)


def _batch(lease: Lease, events: list[Event]) -> Batch:
    return Batch(lease.session_id, lease.epoch, events[0].seq - 1, events, is_use=False)


def _rows_of(event: Event) -> Batch | None:
    """The rows that were written with an event: the key of a message, a claim, a question, its decision."""
    alone = Batch("", 0, 0, [event], is_use=False)
    match _body_of(event):
        case UserMessage() as body:
            return replace(alone, key=body.message_id)
        case ToolClaimed() as body:
            return replace(alone, claim=Claim(f"{event.run_id}/{body.call_id}", body.attempt, body.digest))
        case ApprovalRequired() as body:
            asked = ApprovalRecord(
                body.approval_id, event.run_id or "", body.call_id or "", body.digest or "", body.expires_at
            )
            return replace(alone, approval=asked)
        case _:
            return None


def _body_of(event: Event) -> EventBody | None:
    return event.body() if event.type in _WITH_ROWS else None


_WITH_ROWS = frozenset({"user_message", "tool_claimed", "approval_required"})

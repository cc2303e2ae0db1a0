"""The writer of a shared log: everything that waits is sent as one statement, while the next group gathers.

Invariants:
- one statement is under way at a time, with at most one batch of a session, so a session's batches keep their order;
- a batch is acknowledged only if the server answered that it is committed, or a look-up found its id on the session;
- a batch that is sent again keeps its id, so it is written once.

A batch whose waiter was cancelled is still sent.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from itertools import chain

import msgspec
from msgspec import Struct

from buddy import faults
from buddy.errors import BuddyError, Fenced, LogError, NotClaimed, SeqConflict, Undecidable
from buddy.log.batches import blobs_named, names_blob
from buddy.log.contract import Batch
from buddy.log.postgres.append_sql import APPEND, APPEND_ROWS, LOOK_UP, WHY
from buddy.log.postgres.connections import Channel, LogClosed, Lost
from buddy.log.postgres.driver import Row
from buddy.log.postgres.texts import folded, text

MAX_EVENTS = 4000
MAX_BYTES = 8 * 1024 * 1024
MAX_TRIES = 5
"""How often a batch is sent that was refused for a reason that has gone."""

Column = list[object]


class Appends:
    """`grown` learns of every session that grew, and its new last seq, once that is committed."""

    def __init__(self, channel: Channel, grown: Callable[[str, int], None]) -> None:
        self._channel = channel
        self._grown = grown
        self._waiting: list[_Pending] = []
        self._sending: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(self, batch: Batch, now: int) -> "asyncio.Future[int]":
        if self._is_closed:
            raise RuntimeError("the log is closed")
        loop = asyncio.get_running_loop()
        pending = _Pending(batch, now, new_id(), loop.create_future())
        self._waiting.append(pending)
        if self._sending is None:
            self._sending = loop.create_task(self._send_all())
        return pending.future

    async def close(self) -> None:
        """Send what was submitted, then stop."""
        self._is_closed = True
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def _send_all(self) -> None:
        group: list[_Pending] = []
        try:
            while self._waiting:
                group = self._take_group()
                try:
                    await self._send(group)
                except Exception as error:  # noqa: BLE001 - the writer outlives whatever a batch does
                    await self._fail(group, error)
        except asyncio.CancelledError:  # the process is ending: tell the waiting callers that no answer will come
            for pending in (*group, *self._waiting):
                pending.fail(LogClosed("the process ended before the log answered"))
            self._waiting = []
            raise
        finally:
            self._sending = None

    def _take_group(self) -> "list[_Pending]":
        """The next batches: the first of each session, as many as are sent well together."""
        group: dict[str, _Pending] = {}
        rest: list[_Pending] = []
        events = size = 0
        for pending in self._waiting:
            is_enough = events >= MAX_EVENTS or size >= MAX_BYTES
            if is_enough or pending.batch.session_id in group:
                rest.append(pending)
                continue
            group[pending.batch.session_id] = pending
            events += len(pending.batch.events)
            size += sum(len(event.payload) for event in pending.batch.events)
        self._waiting = rest
        return list(group.values())

    async def _send(self, group: "list[_Pending]") -> None:
        committed: set[int] | None = None
        while group and committed is None:
            sql, args = statement_of(group)
            faults.reached("commit.before")
            try:
                committed = {row[0] for row in await self._channel.fetch(sql, *args)}
            except Lost:
                group = await self._look_up(group)
        faults.reached("commit.after")
        refused: list[_Pending] = []
        for number, pending in enumerate(group):
            if committed is not None and number in committed:
                self._acknowledge(pending)
            else:
                refused.append(pending)
        for pending in refused:
            await self._settle(pending)

    async def _look_up(self, group: "list[_Pending]") -> "list[_Pending]":
        """Acknowledge what was committed although the answer was lost; returns what must be sent again."""
        rows = await self._channel.repeat(LOOK_UP, [pending.batch.session_id for pending in group])
        written = {(session_id, epoch): write_id for session_id, epoch, write_id in rows}
        again: list[_Pending] = []
        for pending in group:
            if written.get((pending.batch.session_id, pending.batch.epoch)) == pending.write_id:
                self._acknowledge(pending)
            else:
                again.append(pending)  # a lost lease is found out by sending it
        return again

    async def _settle(self, pending: "_Pending") -> None:
        """A batch was refused: find out why, and tell its waiter; or send it again if the reason has gone."""
        pending.tries += 1
        found = await self._channel.repeat(WHY, *_asked(pending.batch))
        try:
            last_seq = _refusal(pending, found[0] if found else None)
        except LogError as refusal:
            pending.fail(refusal)
            return
        if last_seq is not None:
            pending.succeed(last_seq)
        elif pending.tries < MAX_TRIES:
            await self._send([pending])
        else:
            pending.fail(LogError(f"{pending.batch.session_id} refused an append {MAX_TRIES} times"))

    async def _fail(self, group: "list[_Pending]", error: Exception) -> None:
        """The server refused the statement as a whole: send each batch alone, so that the others succeed."""
        open_ones = [pending for pending in group if not pending.future.done()]
        if len(open_ones) <= 1 or isinstance(error, BuddyError):
            for pending in open_ones:
                pending.fail(error)
            return
        for pending in open_ones:
            try:
                await self._send([pending])
            except Exception as alone:  # noqa: BLE001 - as above
                pending.fail(alone)

    def _acknowledge(self, pending: "_Pending") -> None:
        pending.succeed(pending.last_seq)
        self._grown(pending.batch.session_id, pending.last_seq)


class _Pending(Struct):
    """A batch and its waiter. `write_id` stays the same however often it is sent."""

    batch: Batch
    now: int
    write_id: int
    future: asyncio.Future[int]
    tries: int = 0

    @property
    def last_seq(self) -> int:
        return self.batch.expected_seq + len(self.batch.events)

    def succeed(self, last_seq: int) -> None:
        if not self.future.done():
            self.future.set_result(last_seq)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


def new_id() -> int:
    """The id of a write, which fits into a bigint."""
    return int.from_bytes(os.urandom(8), "big", signed=True)


def statement_of(group: "Sequence[_Pending]") -> tuple[str, list[Column]]:
    """The statement that appends a group, and its arguments, column by column."""
    numbered = [(number, pending.batch) for number, pending in enumerate(group)]
    heads = _columns([_head(number, pending) for number, pending in enumerate(group)], 12)
    events = _columns(
        [
            (number, event.seq, event.ts, event.run_id, event.type, bytes(event.payload).decode())
            for number, batch in numbered
            for event in batch.events
        ],
        6,
    )
    rows = _rows_of(numbered)
    if not any(column for table in rows for column in table):
        return APPEND, [*heads, *events]
    return APPEND_ROWS, [*heads, *events, *chain.from_iterable(rows)]


def _head(number: int, pending: "_Pending") -> tuple[object, ...]:
    batch, facts = pending.batch, pending.batch.facts
    return (
        *(number, batch.session_id, batch.epoch, batch.expected_seq, pending.last_seq),
        *(pending.now if batch.is_use else None, batch.state, text(batch.title), folded(batch.title)),
        *(msgspec.json.encode(facts).decode() if facts else None, facts.archived if facts else None),
        pending.write_id,
    )


def _rows_of(numbered: "list[tuple[int, Batch]]") -> list[list[Column]]:
    """Keys, claims, questions, decisions, taken items and named blobs, each as its columns."""
    last = {number: batch.expected_seq + len(batch.events) for number, batch in numbered}
    keys = [(number, text(batch.key), last[number]) for number, batch in numbered if batch.key is not None]
    claims = [
        (number, text(claim.call_id), claim.attempt, claim.digest)
        for number, batch in numbered
        if (claim := batch.claim)
    ]
    asked = [_question(number, batch) for number, batch in numbered if batch.approval]
    decided = [
        (number, decision.approval_id, decision.state, decision.by)
        for number, batch in numbered
        if (decision := batch.decision) and not _is_asked_here(batch)
    ]
    taken = [(number, item) for number, batch in numbered for item in batch.taken]
    named = _blobs_of(numbered)
    tables = ((keys, 3), (claims, 4), (asked, 8), (decided, 4), (taken, 2), (named, 3))
    return [_columns(rows, width) for rows, width in tables]


def _question(number: int, batch: Batch) -> tuple[object, ...]:
    """A new approval; decided at once if the batch decides it, too."""
    approval, decision = batch.approval, batch.decision if _is_asked_here(batch) else None
    if approval is None:
        return ()
    return (
        *(number, approval.approval_id, approval.run_id, text(approval.call_id), approval.digest),
        *(approval.expires_at, decision.state if decision else "pending", decision.by if decision else None),
    )


def _is_asked_here(batch: Batch) -> bool:
    return bool(batch.approval and batch.decision and batch.approval.approval_id == batch.decision.approval_id)


def _blobs_of(numbered: "list[tuple[int, Batch]]") -> list[tuple[object, ...]]:
    if not names_blob([event for _, batch in numbered for event in batch.events]):
        return []
    return [
        (number, blob, event.seq)
        for number, batch in numbered
        for event in batch.events
        for blob in sorted(blobs_named(event))
    ]


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[Column]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _asked(batch: Batch) -> tuple[object, ...]:
    claim, decision = batch.claim, batch.decision
    return (
        *(batch.session_id, text(batch.key), text(claim.call_id) if claim else None, claim.attempt if claim else None),
        *(batch.approval.approval_id if batch.approval else None, decision.approval_id if decision else None),
    )


def _refusal(pending: "_Pending", found: Row | None) -> int | None:
    """Raise why a batch was refused; the seq if it was not, None if there is no reason left."""
    batch = pending.batch
    if found is None:
        raise Fenced(f"{batch.session_id} is no longer in the log")
    epoch, last_seq, write_id, seen, is_claimed, asked, state = found
    if write_id == pending.write_id and epoch == batch.epoch:
        return pending.last_seq
    if seen is not None:
        return seen
    if epoch != batch.epoch:
        raise Fenced(f"{batch.session_id} is at epoch {epoch}, this writer at {batch.epoch}")
    if last_seq != batch.expected_seq:
        raise SeqConflict(f"{batch.session_id} ends at {last_seq}, not at {batch.expected_seq}")
    if batch.claim and is_claimed:
        raise NotClaimed(f"{batch.claim.call_id} was claimed before, attempt {batch.claim.attempt}")
    if batch.approval and asked is not None:
        raise Undecidable(batch.approval.approval_id, asked)
    if batch.decision and not _is_asked_here(batch) and state != "pending":
        raise Undecidable(batch.decision.approval_id, state or "unknown")
    return None

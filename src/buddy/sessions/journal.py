"""The one path of a session's events: scrub → append → commit → publish.

Invariants:
- `record` applies the event to the session's state (`apply`) before it returns, and so before it is committed;
- `record` assigns the event's seq immediately; events are committed in that order, and published only then;
- only one append runs at a time, and everything recorded meanwhile goes into the next one;
- pieces of text that arrive close together become one event before they get a seq;
- after a refused append the journal stays broken: the session is read from the log again;
- recording a long body takes no time if it was prepared.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Raw, Struct

from buddy import faults
from buddy.errors import LogError
from buddy.log.contract import ApprovalDecision, ApprovalRecord, Batch, Claim, Lease, Log, RowFacts
from buddy.protocol.codes import SessionState
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    EVENT_NAMES,
    AssistantToken,
    EventBody,
    ThinkingToken,
    ToolOutput,
)
from buddy.scrub import Scrubber, Stream
from buddy.scrub.scrubber import SLICE, is_long
from buddy.sessions.bodies import BodyEncoder
from buddy.steps import Steps, Turns, at_once, parts, take_turns

MERGE_SECONDS = 0.016
"""Pieces this close together become one event: a frame of a screen. The first after a pause is recorded at once."""
MERGE_CHARACTERS = 8 * 1024
MAX_HELD = 2 * MERGE_CHARACTERS


class KeyReused(LogError):
    """The key of the batch was used before, by an event that was pruned."""


class Rows(Struct, frozen=True):
    """Rows to be written with the next events, or not at all."""

    key: str | None = None
    claim: Claim | None = None
    approval: ApprovalRecord | None = None
    decision: ApprovalDecision | None = None
    taken: tuple[int, ...] = ()


NO_ROWS = Rows()

_NAMING = frozenset({"session_renamed", "session_archived"})

Lane = tuple[str, str, str]  # event type, call id, stream name


class Journal:
    def __init__(
        self,
        log: Log,
        lease: Lease,
        last_seq: int,
        *,
        clock: Callable[[], int],
        scrubber: Scrubber,
        apply: Callable[[Event, EventBody], None],
        publish: Callable[[Sequence[Event]], None],
        state: Callable[[], SessionState],
        row_changes: Callable[[], tuple[str | None, RowFacts | None]] = lambda: (None, None),
        merge_seconds: float = MERGE_SECONDS,
    ) -> None:
        self.lease = lease
        self.last_seq = last_seq
        self.failure: LogError | None = None
        self.holds_claims = False
        """Whether calls that are not claimed yet are left to the process that continues the session."""
        self._log = log
        self._clock = clock
        self.scrubber = scrubber
        self._apply = apply
        self._publish = publish
        self._state = state
        self._row_changes = row_changes
        self._merge_seconds = merge_seconds
        self._pending: list[Event] = []
        self._blobs: dict[str, bytes] = {}
        self._appends: deque[_Append] = deque()
        self._bodies = BodyEncoder(scrubber)
        self._lanes: dict[Lane, _Streaming] = {}
        self._lane: Lane | None = None
        self._run_id: str | None = None
        self._pieces: list[str] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._merged_at = 0.0
        self._scheduled = False

    @property
    def is_streaming(self) -> bool:
        """Whether a text arrives in pieces."""
        return bool(self._lanes)

    async def prepare(self, body: EventBody) -> None:
        """Scrub and encode a body that is recorded next, if it is long."""
        if is_long(body):
            await self._bodies.prepare(body)

    def record(self, body: EventBody, run_id: str | None = None) -> EventBody:
        """Assign the event's seq and commit it soon; returns the body as it was recorded."""
        self._close_pieces()
        return self._append(body, run_id)

    async def stream(self, lane: Lane, text: str, run_id: str) -> None:
        """Record a piece of a running text, bit by bit if it is long; the next one follows when it is done."""
        if lane not in self._lanes:
            if lane[0] == "assistant_token":
                await self.finish_streams("thinking_token")  # so that the two stay in order
            self._lanes[lane] = _Streaming(self.scrubber.stream(), run_id)
        streaming, turns = self._lanes[lane], Turns()
        for part in parts(text, SLICE):
            streaming.work = streaming.stream.feed_steps(part)
            self._piece(lane, await turns.take(streaming.work), run_id)
            streaming.work = None
            await turns.pause()

    async def finish_streams(self, kind: str, call_id: str = "") -> None:
        """Texts are complete: flush what the scrubber held back, bit by bit."""
        for lane in [known for known in self._lanes if known[:2] == (kind, call_id)]:
            streaming = self._lanes[lane]
            streaming.work = streaming.stream.finish_steps()
            text = await take_turns(streaming.work)
            if self._lanes.pop(lane, None) is not None:
                self._piece(lane, text, streaming.run_id)

    def end_streams(self) -> None:
        """The streamed texts are complete: flush what the scrubber held back."""
        lanes, self._lanes = self._lanes, {}
        for lane, streaming in lanes.items():
            self._piece(lane, streaming.end(), streaming.run_id)
        self._close_pieces()

    async def commit(self, rows: Rows = NO_ROWS, *, durable: bool = False) -> None:
        """Wait until all that was recorded is committed, together with `rows`."""
        self._close_pieces()
        if self._pending or rows is not NO_ROWS:
            self._write(rows, durable=durable)
        if self._appends:
            # A separate future: cancelling a waiter must not cancel the append.
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._appends[-1].waiters.append(waiter)
            await waiter
        if self.failure is not None:
            raise self.failure

    async def approval(self, approval_id: str) -> ApprovalRecord | None:
        """An approval of this session, in any state."""
        return await self._log.approval(approval_id)

    def _append(self, body: EventBody, run_id: str | None, *, is_scrubbed: bool = False) -> EventBody:
        body, payload, blobs = self._bodies.encode(body, is_scrubbed=is_scrubbed)
        self._blobs.update(blobs)
        self.last_seq += 1
        event = Event(
            self.lease.session_id, self.last_seq, self._clock(), EVENT_NAMES[type(body)], Raw(payload), run_id
        )
        self._pending.append(event)
        self._apply(event, body)
        self._schedule()
        return body

    def _piece(self, lane: Lane, text: str, run_id: str | None) -> None:
        if not text:
            return
        if lane != self._lane or run_id != self._run_id:
            self._close_pieces()
            self._lane, self._run_id = lane, run_id
        self._pieces.append(text)
        self._size += len(text)
        now = asyncio.get_running_loop().time()
        if self._size >= MAX_HELD or now - self._merged_at >= self._merge_seconds:
            self._close_pieces()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._merge_seconds, self._close_pieces)

    def _close_pieces(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pieces or self._lane is None:
            return
        text = "".join(self._pieces)
        self._pieces, self._size = [], 0
        self._merged_at = asyncio.get_running_loop().time()
        kind, call_id, name = self._lane
        for start in range(0, len(text), MERGE_CHARACTERS):
            part = text[start : start + MERGE_CHARACTERS]
            self._append(_piece_body(kind, call_id, name, part), self._run_id, is_scrubbed=True)

    def _schedule(self) -> None:
        """Write at the end of this loop iteration, so that what is recorded together is written together."""
        if not self._scheduled and not self._appends:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._write_soon)

    def _write_soon(self) -> None:
        self._scheduled = False
        if self._pending and not self._appends:
            self._write(NO_ROWS, durable=False)

    def _write(self, rows: Rows, *, durable: bool) -> None:
        events, self._pending = self._pending, []
        blobs, self._blobs = self._blobs, {}
        title, facts = self._row_changes()
        # Built here, not when its turn comes: by then more may have been recorded, and the seq and the state would not
        # be those after these events.
        batch = Batch(
            self.lease.session_id,
            self.lease.epoch,
            self.last_seq - len(events),
            events,
            durable=durable,
            key=rows.key,
            is_use=any(event.type not in _NAMING for event in events) or rows is not NO_ROWS,
            state=self._state(),
            title=title,
            facts=facts,
            claim=rows.claim,
            approval=rows.approval,
            decision=rows.decision,
            taken=rows.taken,
        )
        self._appends.append(_Append(batch, blobs))
        if len(self._appends) == 1:
            self._begin()

    def _begin(self) -> None:
        """Hand the first append to the log; without a task if there are no blobs to store first."""
        append = self._appends[0]
        if self.failure is not None:
            append.wake()
            self._end()
            return
        under_way = asyncio.ensure_future(
            self._append_with_blobs(append) if append.blobs else self._log.append(append.batch)
        )
        under_way.add_done_callback(partial(self._on_appended, append))

    async def _append_with_blobs(self, append: "_Append") -> int:
        for content in append.blobs.values():
            await self._log.put_blob(content)
        return await self._log.append(append.batch)

    def _on_appended(self, append: "_Append", under_way: asyncio.Future[int]) -> None:
        append.wake()  # before the listeners: the run need not wait until this is shown
        try:
            self._publish_batch(append.batch, under_way.result())
        except LogError as error:
            self.failure = error
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - nothing may be written after the gap
            self.failure = LogError(f"the append failed: {error}")
            self.failure.__cause__ = error
        self._end()

    def _publish_batch(self, batch: Batch, last_seq: int) -> None:
        if last_seq != batch.expected_seq + len(batch.events):
            raise KeyReused(f"{batch.key} was appended before, so nothing was written now")
        faults.reached("emit.before")
        self._publish(batch.events)
        faults.reached("emit.after")

    def _end(self) -> None:
        self._appends.popleft()
        if self._appends:
            self._begin()
        elif self._pending:
            self._schedule()


class _Streaming(Struct):
    """A text that arrives in pieces; `work` is being done on the latest, unless that was cancelled."""

    stream: Stream
    run_id: str
    work: Steps[str] | None = None

    def end(self) -> str:
        """What was held back, and what a cancelled task left undone."""
        undone = at_once(self.work) if self.work is not None else ""
        return (undone or "") + self.stream.finish()


class _Append(Struct):
    """A queued append and its waiters."""

    batch: Batch
    blobs: dict[str, bytes]
    waiters: list[asyncio.Future[None]] = []

    def wake(self) -> None:
        """The waiters continue in the next iteration of the event loop."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)


def _piece_body(kind: str, call_id: str, name: str, text: str) -> EventBody:
    match kind:
        case "assistant_token":
            return AssistantToken(text=text)
        case "thinking_token":
            return ThinkingToken(text=text)
        case _:
            return ToolOutput(call_id=call_id, stream="stderr" if name == "stderr" else "stdout", text=text)

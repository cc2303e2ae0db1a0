"""A session: the only writer of its log. Its runs are in `runs.py`, and what performs one is in `runner.py`.

Invariants: state changes in synchronous code between `record` and the next await, so two requests cannot interleave
inside one; a request is answered only after what it changed is committed.
"""

from collections.abc import Coroutine, Iterable, Sequence
from functools import partial

from buddy.backends.contract import Backend
from buddy.errors import Fenced, HandedOver, LogError, ProtocolError, SessionElsewhere, StorageFull
from buddy.log.contract import Lease, SessionRecord
from buddy.protocol.basics import NO_EXPIRY
from buddy.protocol.codes import Policy, SessionState
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    EventBody,
    Informational,
    SessionResumed,
    SessionSnapshot,
    SessionStarted,
    WarningRaised,
)
from buddy.protocol.requests import SubmitApproval
from buddy.protocol.shapes import ApprovalRequest
from buddy.sessions.approvals import Approvals
from buddy.sessions.audience import Audience
from buddy.sessions.file_tracker import FileTracker
from buddy.sessions.hook_points import HookPoints
from buddy.sessions.journal import Journal, KeyReused, Rows
from buddy.sessions.listing import ListedRow
from buddy.sessions.messages import pruned_message
from buddy.sessions.questions import Questions
from buddy.sessions.runs import Runs
from buddy.sessions.services import SessionServices
from buddy.sessions.snapshot import pending_of, snapshot_of
from buddy.sessions.state import SessionFold
from buddy.targets.fencing import set_fence
from buddy.tools.contract import Place


class Session:
    """Identity, journal and lifecycle.

    `fold` and `backend` change in one place only: `journal.record` calls `_apply` with each event before it returns.
    Whatever was recorded is therefore visible in `fold` on the next line, before it is committed.
    """

    def __init__(
        self,
        services: SessionServices,
        lease: Lease,
        place: Place,
        backend: Backend,
        fold: SessionFold,
        last_seq: int,
        row: ListedRow | None = None,
    ) -> None:
        self.session_id = lease.session_id
        self.services = services
        self.place = place
        self.fold = fold
        self.backend = backend
        self._row = row or ListedRow()
        self.user = self._row.user
        if services.day_limit is not None:
            self._row.on_cost = partial(services.day_limit.add, self.user)
        self.audience = Audience()
        self.is_closing = False
        self._broken = False
        self._last_event = services.clock()
        self.journal = Journal(
            services.log,
            lease,
            last_seq,
            clock=services.clock,
            scrubber=services.scrubber,
            apply=self._apply,
            publish=self._publish,
            state=lambda: fold.state,
            row_changes=lambda: self._row.take_changes(len(fold.pending)),
            merge_seconds=services.merge_seconds,
        )
        self.hooks = HookPoints(services.hooks(self.session_id, place), self.journal, lambda: _mode_of(self))
        closed_now = lambda: services.permissions(place.root).closed_now()  # noqa: E731 - the rules change
        self.files = FileTracker(services.checkpoints, fold, place, self.journal, closed_now)
        self.approvals = Approvals(
            self.journal,
            fold,
            partial(services.permissions, place.root),
            now=services.now,
            ids=services.ids,
            timeout=services.approval_timeout,
            expiry_ends_run=services.expiry_ends_run,
            hooks=self.hooks,
            uncovered=self.files.uncovered,
        )
        self.questions = Questions(self.journal, fold, services.ids, services.approval_timeout, self.hooks)
        if services.leases is not None:
            set_fence(place.target, f"{lease.session_id}:{lease.epoch}")
        self.runs = Runs(self)

    @property
    def state(self) -> SessionState:
        return self.fold.state

    @property
    def broken(self) -> bool:
        """Whether the log refused a write: the session must be read from the log again before it is used."""
        return self._broken or self.journal.failure is not None

    @broken.setter
    def broken(self, broken: bool) -> None:
        self._broken = broken
        self.audience.wake()  # followers look for the session that replaces it

    def is_dormant(self, since: int) -> bool:
        """Whether it has been idle since a time, has no followers, and closing it would lose nothing."""
        busy = self.runs.is_busy or self.is_closing or self.broken
        return not busy and self.has_nobody(since)

    @property
    def is_parkable(self) -> bool:
        """Whether its run only waits for decisions, so that a later process can continue it from the log."""
        run = self.fold.run
        if run is None or not run.pending or not self.services.parks or run.cancelling is not None or self.broken:
            return False
        has_time = run.scheduled is None and run.options.budget.max_seconds is None
        is_waiting = all(call.stage in ("requested", "called", "awaiting") for call in run.open_calls.values())
        never_expires = all(call.approval and call.approval.expires_at == NO_EXPIRY for call in run.pending.values())
        never_expires = never_expires or self.services.leases is not None  # which look after the time
        return has_time and is_waiting and never_expires and self.backend.name == "native"

    def has_nobody(self, since: int) -> bool:
        """Whether nobody follows it, nothing happened since a time, and it holds nothing that would be lost."""
        if self._last_event >= since:
            return False  # the usual answer, and the cheapest to find
        return not (self.audience or self.place.tasks or self.approvals.is_lenient())

    # --- what clients see ------------------------------------------------------------------------------------------

    def snapshot(self) -> SessionSnapshot:
        return snapshot_of(self.fold)

    def pending_approvals(self) -> list[ApprovalRequest]:
        return pending_of(self.fold, self.session_id)

    async def announce_gap(self, requested: int, found: SessionRecord) -> None:
        """Record that the log, as it was found, cannot be replayed from there, and a snapshot instead."""
        if requested > found.last_seq:
            message = "The log no longer has events that a client has seen; snapshot sent."
            kept = f"last seq is {found.last_seq}"
        else:
            message, kept = "Replay gap detected; snapshot sent.", f"earliest retained seq is {found.first_seq}"
        detail = f"Requested lastSeenSeq={requested} but {kept}"
        self.journal.record(WarningRaised(code="EVENT_GAP", message=message, detail=detail))
        self.journal.record(self.snapshot())
        await self.commit()

    async def submit_approval(self, submission: SubmitApproval, by: str) -> None:
        await self.guard(self.approvals.submit(submission, by))

    # --- lifecycle -------------------------------------------------------------------------------------------------

    async def begin(self, started: SessionStarted, notes: Iterable[WarningRaised] = ()) -> None:
        """Record the first event, and what the user has to know about it."""
        self.journal.record(started)
        for note in notes:
            self.journal.record(note)
        # Not durable: the first message makes it so, and until then nothing of value can be lost.
        await self.journal.commit()

    async def resume(self, by: str) -> None:
        """Record that the session was read from the log again, and for whom."""
        self.journal.record(SessionResumed(by=by, last_seq=self.journal.last_seq))
        await self.commit()

    async def close(self, reason: str = "shutdown", *, parks: bool = False) -> None:
        """A clean end: pending approvals are denied, the run is cancelled, the lease is released; or it is parked."""
        self.is_closing = True
        if self.is_parkable or parks:
            await self.park()
            return
        if not self.broken:
            await self.runs.stop(reason)
        await self.abandon()
        if not self.broken:
            await self.hooks.end("other")
        if not self.broken:
            await self.services.release(self.journal.lease)

    async def park(self) -> None:
        """Stop in the middle, as if the process had died: the next to open the session continues it.

        That is at once, or if its run only waits, when somebody decides or the first approval expires.
        """
        await self.journal.commit()
        run, waits = self.fold.run, self.is_parkable
        asked = [call.approval.expires_at for call in self.fold.pending.values() if call.approval]
        due = min((at for at in asked if at < NO_EXPIRY), default=None) if waits else None
        self.journal.failure = HandedOver("the session was handed over")
        self.broken = True
        await self.abandon()
        await self.services.release(self.journal.lease, resume=run is not None and not waits, due=due)

    async def abandon(self) -> None:
        """Stop working without another event (the log is fenced, full, or owned by another process)."""
        await self.runs.abandon()
        await self.hooks.stop()
        await self.files.close()
        await self.backend.close()
        self.audience.wake()

    # --- recording -------------------------------------------------------------------------------------------------

    async def commit(self, rows: Rows | None = None, *, durable: bool = False) -> None:
        """Commit; a refusal becomes the client's error."""
        await self.guard(self.journal.commit(rows, durable=True) if rows else self.journal.commit(durable=durable))

    async def guard(self, work: Coroutine[object, object, None]) -> None:
        """Run something that writes to the log; a refusal breaks the session and becomes the client's error."""
        try:
            await work
        except KeyReused as error:
            self.broken = True
            raise pruned_message() from error
        except StorageFull as error:
            self.broken = True
            raise ProtocolError(
                "STORAGE_FULL", "the disk is full; free some space and try again", retryable=True
            ) from error
        except (Fenced, HandedOver) as error:
            self.broken = True
            message = f"the log refused a write: {error}"
            raise SessionElsewhere("INTERNAL_ERROR", message, retryable=True) from error
        except LogError as error:
            self.broken = True
            raise ProtocolError("INTERNAL_ERROR", f"the log refused a write: {error}", retryable=True) from error

    def _apply(self, event: Event, body: EventBody) -> None:
        if not isinstance(body, Informational):
            self.fold.apply(event, body)
        self._row.apply(body, event.ts)  # a name is informational, and in the row
        self.backend.observe(event.seq, body)

    def _publish(self, events: Sequence[Event]) -> None:
        self._last_event = self.services.clock()
        self.audience.publish(events)
        for listener in self.services.listeners:
            listener(events)


def _mode_of(session: Session) -> tuple[bool, Policy]:
    return session.fold.is_planning, session.approvals.policy().at(session.services.now())

"""A session: the only writer of its log, one run at a time.

What always holds: state changes in synchronous code between `record` and the next await, so two requests cannot
interleave inside one; a request is answered only after what it changed is committed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from buddy.approvals.policy import Effective
from buddy.backends.contract import Backend, Compaction, compacted
from buddy.errors import LogError, ProtocolError, StorageFull, UserError
from buddy.log.contract import Lease, Log
from buddy.protocol.actors import Client, RuntimeActor
from buddy.protocol.codes import SessionState
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    RECORDING,
    ApprovalPolicyChanged,
    EventBody,
    ModelSwitched,
    Recovery,
    RunCancelling,
    RunStarted,
    SessionCompacted,
    SessionResumed,
    SessionSnapshot,
    SessionStarted,
    UserMessage,
    WarningRaised,
)
from buddy.protocol.ids import Ids
from buddy.protocol.requests import (
    CancelRun,
    CompactSessionReply,
    QueueMessage,
    SendUserMessage,
    SetApprovalPolicy,
    SteerRun,
    SubmitApproval,
    SwitchModel,
)
from buddy.protocol.shapes import ApprovalRequest
from buddy.scrub import Scrubber
from buddy.sessions.active import ActiveRun
from buddy.sessions.approvals import Approvals
from buddy.sessions.audience import Audience
from buddy.sessions.ending import perform
from buddy.sessions.inbox import Inbox
from buddy.sessions.journal import MERGE_SECONDS, Journal, Repeated, Rows
from buddy.sessions.messages import check_criteria, check_text, options_of
from buddy.sessions.snapshot import pending_of, snapshot_of
from buddy.sessions.state import SessionFold
from buddy.tools.contract import Place

if TYPE_CHECKING:
    from buddy.approvals.permissions import Permissions


def without_rules(root: str) -> "Permissions":
    from buddy.approvals.permissions import Permissions

    return Permissions(root)


class Surroundings(Struct, frozen=True):
    """What a session is given from outside; the same for all of them."""

    log: Log
    clock: Callable[[], int]
    ids: Ids
    scrubber: Scrubber
    approval_timeout: float = 300.0
    max_turns: int = 50
    permissions: "Callable[[str], Permissions]" = without_rules
    listeners: tuple[Callable[[Sequence[Event]], None], ...] = ()
    """Told of what was committed, in order; they may only note it."""
    merge_seconds: float = MERGE_SECONDS


class Session:
    def __init__(
        self, around: Surroundings, lease: Lease, place: Place, backend: Backend, fold: SessionFold, last_seq: int
    ) -> None:
        self.session_id = lease.session_id
        self.fold = fold
        self.backend = backend
        self.audience = Audience()
        self._broken = False
        self._around = around
        self._place = place
        self._task: asyncio.Task[None] | None = None
        self._inbox = Inbox(around.log, lease.session_id, around.scrubber)
        self._last_event = around.clock()
        self._closing = False
        self._is_compacting = False
        self.journal = Journal(
            around.log,
            lease,
            last_seq,
            clock=around.clock,
            scrubber=around.scrubber,
            apply=self._apply,
            publish=self._publish,
            state=lambda: fold.state,
            merge_seconds=around.merge_seconds,
        )
        self.approvals = Approvals(
            self.journal,
            fold,
            partial(around.permissions, place.root),
            clock=around.clock,
            ids=around.ids,
            timeout=around.approval_timeout,
        )

    @property
    def state(self) -> SessionState:
        return self.fold.state

    @property
    def broken(self) -> bool:
        """Whether the log refused it: it is to be read anew by whoever wants it next."""
        return self._broken

    @broken.setter
    def broken(self, broken: bool) -> None:
        self._broken = broken
        self.audience.wake()  # whoever follows it looks for what takes its place

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def is_dormant(self, since: int) -> bool:
        """Whether nothing has happened after a time, nobody listens, and nothing would be lost by forgetting it."""
        busy = self.is_running or self.fold.run is not None or self._is_compacting or self._closing or self.broken
        held = self.audience or self._place.tasks or self.approvals.is_lenient()
        return not busy and not held and self._last_event < since

    # --- what clients see ------------------------------------------------------------------------------------------

    def snapshot(self) -> SessionSnapshot:
        return snapshot_of(self.fold)

    def pending_approvals(self) -> list[ApprovalRequest]:
        return pending_of(self.fold, self.session_id)

    async def announce_gap(self, asked: int, first: int) -> None:
        """Tell that replay cannot go back that far, and where things stand instead."""
        detail = f"Requested lastSeenSeq={asked} but earliest retained seq is {first}"
        self.journal.record(
            WarningRaised(code="EVENT_GAP", message="Replay gap detected; snapshot sent.", detail=detail)
        )
        self.journal.record(self.snapshot())
        await self._committed()

    # --- requests --------------------------------------------------------------------------------------------------

    async def begin(self, started: SessionStarted, notes: Iterable[WarningRaised] = ()) -> None:
        """The first event, and what the user has to know of it."""
        self.journal.record(started)
        for note in notes:
            self.journal.record(note)
        # The first message makes it durable: before that there is nothing in it that could be missed.
        await self.journal.commit()

    async def resume(self, by: str) -> None:
        """Say that the session was taken up from the log again, for whom."""
        self.journal.record(SessionResumed(by=by, last_seq=self.journal.last_seq))
        await self._committed()

    async def send(self, message: SendUserMessage, by: str) -> str:
        """Accept a message and start its run; the same clientMessageId gives the same run."""
        await self._check_cost(message)
        known = self.fold.runs.get(message.client_message_id)
        if known is not None:
            await self._committed()
            return known
        check_text(message.text)
        self._check_free("start a run")
        check_criteria(message)
        run_id = self._accept(message, by)
        await self._committed(Rows(key=message.client_message_id))
        self._start()
        return run_id

    async def submit_approval(self, submission: SubmitApproval, by: str) -> None:
        await self._guard(self.approvals.submit(submission, by))

    async def cancel(self, wish: CancelRun, by: str) -> None:
        run = self.fold.run
        if run is None or run.run_id != wish.run_id:
            raise ProtocolError("NO_ACTIVE_RUN", f"{wish.run_id[:80]} is not active")
        if run.cancelling is None:
            await self._cancel(wish.reason or "user_cancelled", by)

    async def set_policy(self, wish: SetApprovalPolicy, by: str) -> Effective:
        """Change what is asked from now on; what waits is decided by it where it no longer asks."""
        if (wish.policy == "until") != (wish.duration_seconds is not None):
            raise ProtocolError("INVALID_REQUEST", "durationSeconds goes with policy 'until', and only with it")
        expires = None if wish.duration_seconds is None else self._around.clock() + int(wish.duration_seconds * 1000)
        policy = Effective(wish.policy, expires)
        self.journal.record(ApprovalPolicyChanged(policy=policy.policy, expires_at=expires, by=by))
        await self._committed(durable=True)
        now = self.approvals.policy().at(self._around.clock())
        if now != "ask":
            await self._guard(self.approvals.settle_pending("approve" if now == "all" else "deny", RuntimeActor.POLICY))
        return policy

    async def switch_model(self, wish: SwitchModel, by: str) -> dict[str, str]:
        self._check_free("switch model")
        before = self.backend.model()
        try:
            after = await self.backend.switch(wish.profile, wish.model)
        except UserError as error:
            raise ProtocolError("PROVIDER_NOT_CONFIGURED", str(error), detail=error.hint or None) from error
        self.journal.record(
            ModelSwitched(
                before={"profile": before.profile, "model": before.model, "api": before.api},
                after={"profile": after.profile, "model": after.model, "api": after.api},
                by=by,
            )
        )
        await self._committed(durable=True)
        return {"profile": after.profile, "model": after.model, "api": after.api}

    async def compact(self, by: str, *, undo: bool) -> CompactSessionReply:
        self._check_free("compact")
        compaction = None if undo else await self._shortened()
        before = compaction.before_tokens if compaction else self.fold.context.used
        if undo and self.fold.saved:
            after = before + self.fold.saved[-1]
            body = SessionCompacted(
                before_tokens=before, after_tokens=after, through_seq=0, summary="", by=by, undo=True
            )
        elif compaction is None:
            await self._start_queued()
            return CompactSessionReply(before, before)
        else:
            body = compacted(compaction, Client(by))
        self.journal.record(body)
        await self._committed(durable=True)
        await self._start_queued()
        return CompactSessionReply(body.before_tokens, body.after_tokens)

    async def steer(self, wish: SteerRun, by: str) -> None:
        if self.fold.run is None or self.fold.run.run_id != wish.run_id:
            raise ProtocolError("NO_ACTIVE_RUN", f"{wish.run_id[:80]} is not active")
        check_text(wish.text)
        await self._inbox.steer(QueueMessage(self._around.ids("msg"), wish.text), by)

    async def queue(self, message: QueueMessage, by: str) -> int:
        """Keep a message until the runs before it are over; 0 where it starts at once."""
        check_text(message.text)
        await self._check_cost(SendUserMessage(self.session_id, message.client_message_id, message.text))
        if message.client_message_id in self.fold.runs:
            return 0
        position = await self._inbox.queue(message, by)
        if self.fold.run is None:
            await self._start_queued()
            return 0
        return position

    async def prune(self, before_seq: int) -> int:
        self._check_free("prune")
        last_seq = self.journal.last_seq
        if self.fold.started_seq < min(before_seq, last_seq):
            self._restate()
        await self._committed(durable=True)
        first = await self._around.log.prune(self.journal.lease, min(before_seq, last_seq))
        self.audience.forget(first)
        return first

    # --- lifecycle -------------------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Take up what was in flight when the process died: the same code goes on from the folded state."""
        for expired in self.approvals.expire_overdue():
            await self._committed(Rows(decision=expired))
        if self.approvals.session_policy().policy == "until":
            self.journal.record(ApprovalPolicyChanged(policy="ask", by=RuntimeActor.RESTART))
        run = self.fold.run
        if run is not None:
            self.journal.record(
                RunStarted(run_id=run.run_id, options=run.options, recovered=True, recording=RECORDING), run.run_id
            )
            if not run.open_calls:
                action = "restarted" if run.partial else "continued"
                self.journal.record(Recovery(action=action), run.run_id)
            for call in run.open_calls.values():
                if call.stage != "claimed" and not call.is_delegate:
                    self.journal.record(Recovery(action="continued", call_id=call.item.call_id), run.run_id)
            await self._committed(durable=True)
            self._start()
        else:
            await self._committed()
            await self._start_queued()

    async def end_run(self) -> None:
        """End the run that was in flight, and nothing else: its backend cannot go on with it."""
        run = self._active()
        if run is not None:
            await self._guard(perform(run, self.backend))
        await self._around.log.release(self.journal.lease)

    async def wait_idle(self) -> None:
        """Wait until no run is active."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def close(self, reason: str = "shutdown") -> None:
        """A clean end: pending approvals are denied, active work is cancelled, the lease is given back."""
        self._closing = True
        if self.fold.run is not None and self._task is not None and not self.broken:
            with suppress(ProtocolError):  # then the log is somebody else's, or full: all that is left is to stop
                await self._cancel(reason, RuntimeActor.DAEMON)
        await self.abandon()
        if not self.broken:
            await self._around.log.release(self.journal.lease)

    async def abandon(self) -> None:
        """Stop working without a word in the log (it is fenced, full, or ours no more)."""
        task = self._task
        if task is not None:
            if self.broken:
                task.cancel()
            await asyncio.wait([task])
        await self.backend.close()
        self.audience.wake()

    # --- inside ----------------------------------------------------------------------------------------------------

    def _check_free(self, wanted: str) -> None:
        """Refuse what cannot be done beside a run or a compaction."""
        busy = "a run" if self.fold.run else "a compaction" if self._is_compacting else ""
        if busy:
            raise ProtocolError("RUN_IN_PROGRESS", f"cannot {wanted} while {busy} is active", retryable=True)

    async def _check_cost(self, message: SendUserMessage) -> None:
        """Refuse a limit on the cost that could not hold; asking for the price may take a moment."""
        limits = options_of(message, self.fold.started, self._around.clock(), self._around.max_turns).budget
        if limits.max_cost_usd is not None and not await self.backend.is_priced():
            model = self.backend.model()
            ours = f"set input_price and output_price in [models.{model.profile}], or use budget.maxTokens"
            theirs = f"{model.profile} does not tell what it costs: use budget.maxTurns, maxTokens or maxSeconds"
            raise ProtocolError(
                "INVALID_REQUEST",
                f"budget.maxCostUsd cannot hold: the price of {model.model or model.profile} is not known",
                detail=ours if self.backend.name == "native" else theirs,
            )

    async def _shortened(self) -> Compaction | None:
        self._is_compacting = True
        try:
            return await self.backend.compact()
        finally:
            self._is_compacting = False

    def _accept(self, message: SendUserMessage, by: str) -> str:
        model, around = self.backend.model(), self._around
        options = msgspec.structs.replace(
            options_of(message, self.fold.started, around.clock(), around.max_turns),
            profile=model.profile,
            model=model.model,
            target=self._place.target.name,
            sandbox=self._place.sandbox,
        )
        # From here on nothing may be refused: a recorded message without its run would be taken for a known one.
        run_id = self._around.ids("run")
        self.journal.record(UserMessage(message_id=message.client_message_id, text=message.text, by=by), run_id)
        self.journal.record(RunStarted(run_id=run_id, options=options, recording=RECORDING), run_id)
        return run_id

    def _restate(self) -> None:
        """Say again what holds for the whole session, as the events that said so are about to go."""
        fold, model = self.fold, self.backend.model()
        if fold.started is not None:
            self.journal.record(msgspec.structs.replace(fold.started, state=fold.state))
        if fold.policy is not None:
            self.journal.record(
                ApprovalPolicyChanged(policy=fold.policy, expires_at=fold.policy_expires_at, by=RuntimeActor.RESTART)
            )
        if fold.profile is not None:
            named = {"profile": model.profile, "model": model.model, "api": model.api}
            self.journal.record(ModelSwitched(before=named, after=named, by=RuntimeActor.RESTART))

    def _start(self) -> None:
        run = None if self._task is not None or self.broken or self._closing else self._active()
        if run is not None:
            self._task = asyncio.get_running_loop().create_task(self._perform(run), name=f"run {run.run_id}")
            self._task.add_done_callback(self._retake)

    def _active(self) -> ActiveRun | None:
        if self.fold.run is None:
            return None
        return ActiveRun(
            self.fold.run,
            self._place,
            self.journal,
            self.approvals,
            clock=self._around.clock,
            keep=self._around.log.put_blob,
            steers=self._take_steers,
        )

    def _retake(self, task: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step never enters its own body, and the session would stay busy for
        # ever: the run is taken up again, and ends as what it is, cancelled.
        if task.cancelled() and self._task is task:
            self._task = None
            self._start()

    async def _perform(self, run: ActiveRun) -> None:
        try:
            await perform(run, self.backend)
        except LogError:
            self.broken = True
        finally:
            self._task = None
            self.audience.wake()
        if self.fold.run is not None:
            self._start()  # a message was accepted while the last run's outcome was being committed
        elif not self.broken:
            with suppress(ProtocolError):  # the log refused: the session is read anew by whoever wants it next
                await self._start_queued()

    async def _cancel(self, reason: str, by: str) -> None:
        task, run = self._task, self.fold.run
        if run is None:
            return
        self.journal.record(RunCancelling(reason=reason, by=by), run.run_id)
        await self._guard(self.approvals.settle_pending("deny", by, reason))
        if task is not None and self._task is task and self.fold.run is run:
            task.cancel()
        await self._committed()

    async def _take_steers(self) -> bool:
        run = self.fold.run
        steers = await self._inbox.steers() if run is not None else []
        if run is None or not steers:
            return False
        for steer in steers:
            said = UserMessage(
                message_id=steer.message.client_message_id, text=steer.message.text, by=steer.by, steers=True
            )
            self.journal.record(said, run.run_id)
        await self.journal.commit(Rows(taken=tuple(steer.item_id for steer in steers)), durable=True)
        return True

    async def _start_queued(self) -> None:
        """The next queued message becomes a run."""
        while self.fold.run is None and not self._closing and not self._is_compacting:
            queued = await self._inbox.first()
            if queued is None or self.fold.run is not None:
                return
            message = queued.message
            if message.client_message_id in self.fold.runs:
                await self._committed(Rows(taken=(queued.item_id,)))  # it was sent meanwhile
                continue
            self._accept(message, queued.by)
            await self._committed(Rows(key=message.client_message_id, taken=(queued.item_id,)))
            self._start()

    async def _committed(self, rows: Rows | None = None, *, durable: bool | None = None) -> None:
        """Commit, and tell a refusal as the peer should hear it."""
        committing = self.journal.commit(rows, durable=True) if rows else self.journal.commit(durable=bool(durable))
        await self._guard(committing)

    async def _guard(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Repeated as error:
            self.broken = True
            raise ProtocolError(
                "INVALID_REQUEST", "this clientMessageId was taken up before, and its run was pruned from the log"
            ) from error
        except StorageFull as error:
            self.broken = True
            raise ProtocolError(
                "STORAGE_FULL", "no room to record this; free some disk and try again", retryable=True
            ) from error
        except LogError as error:
            self.broken = True
            raise ProtocolError("INTERNAL_ERROR", f"the log refused: {error}", retryable=True) from error

    def _apply(self, event: Event, body: EventBody) -> None:
        self.fold.apply(event, body)
        self.backend.observe(event.seq, body)

    def _publish(self, events: Sequence[Event]) -> None:
        self._last_event = self._around.clock()
        self.audience.tell(events)
        for listener in self._around.listeners:
            listener(events)

"""The runs of a session: started, queued, steered, cancelled, recovered; one at a time.

Invariants: a message is recorded together with the start of its run, or not at all; a run that is recorded as started
has a task, or gets one when its session is opened again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from buddy.backends.contract import Backend
from buddy.errors import LogError, ProtocolError, ToolError
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.events import (
    RECORDING,
    ApprovalPolicyChanged,
    CancelScheduled,
    Recovery,
    RunCancelling,
    RunStarted,
    StartedOptions,
)
from buddy.protocol.queue_requests import QueueMessage, SteerRun
from buddy.protocol.requests import CancelRun, SendUserMessage
from buddy.protocol.shapes import WaitingMessage
from buddy.sessions.active import ActiveRun
from buddy.sessions.approvals import Approvals
from buddy.sessions.audience import Audience
from buddy.sessions.file_tracker import FileTracker
from buddy.sessions.hook_points import HookPoints
from buddy.sessions.inbox import MessageQueue, QueuedMessage
from buddy.sessions.journal import Journal, Rows
from buddy.sessions.messages import (
    Expanded,
    ScrubbedText,
    check_cost,
    check_criteria,
    check_text,
    event_of,
    expanded_message,
    options_of,
    pruned_message,
    scrub_message,
    stored_id,
)
from buddy.sessions.questions import Questions
from buddy.sessions.run_deadline import RunDeadline
from buddy.sessions.runner import perform
from buddy.sessions.services import SessionServices
from buddy.sessions.state import SessionFold
from buddy.tools.contract import Place


class RunOwner(Protocol):
    """What runs need of their session."""

    session_id: str
    user: str | None
    services: SessionServices
    place: Place
    backend: Backend
    fold: SessionFold
    journal: Journal
    approvals: Approvals
    hooks: HookPoints
    questions: Questions
    audience: Audience
    files: FileTracker
    is_closing: bool

    @property
    def broken(self) -> bool: ...

    @broken.setter
    def broken(self, broken: bool) -> None: ...

    async def commit(self, rows: Rows | None = None, *, durable: bool = False) -> None: ...

    async def guard(self, work: Coroutine[object, object, None]) -> None: ...


class Runs:
    """No run may start while the history is being compacted (`is_compacting`), or while the session is held for
    something else, which `held_for` names."""

    def __init__(self, session: RunOwner) -> None:
        self.is_compacting = False
        self.held_for = ""
        self._session = session
        self._task: asyncio.Task[None] | None = None
        services, is_new = session.services, session.journal.last_seq == 0
        self.inbox = MessageQueue(services.log, session.session_id, services.scrubber, is_new=is_new)
        self._deadline = RunDeadline(session.session_id, services.clock, self.cancel)

    @property
    def is_running(self) -> bool:
        return self._task is not None

    @property
    def is_busy(self) -> bool:
        return self.is_running or self.is_compacting or bool(self.held_for) or self._session.fold.run is not None

    def check_idle(self, action: str) -> None:
        """Refuse what cannot be done during a run or a compaction."""
        active = "a run" if self._session.fold.run else "a compaction" if self.is_compacting else self.held_for
        if active:
            raise ProtocolError("RUN_IN_PROGRESS", f"cannot {action} while {active} is active", retryable=True)

    # --- requests --------------------------------------------------------------------------------------------------

    async def send(self, message: SendUserMessage, by: str) -> str:
        """Accept a message and start its run; the same clientMessageId gives the same run."""
        session = self._session
        message = replace(message, client_message_id=_stored_id(session, message))
        said = ScrubbedText(message.text)
        if message.client_message_id not in session.fold.runs:
            await check_cost(session.backend, session.place, _options(session, message).budget)
            check_text(message.text, message.attachments)
            is_as_is = message.options is not None and message.options.as_is
            said = await scrub_message(session.services.scrubber, message.text, as_is=is_as_is)
        expanded = Expanded()
        if message.client_message_id not in session.fold.runs:
            self.check_idle("start a run")
            expanded = await _expand(session, said.text, message.client_message_id, by)
        known = session.fold.runs.get(message.client_message_id)
        if known is not None:
            await session.commit()
            return known
        self.check_idle("start a run")
        check_criteria(message)
        run_id = self._accept(replace(message, text=said.text), by, said.redacted, expanded)
        await session.commit(Rows(key=message.client_message_id))
        self._start()
        return run_id

    async def queue(self, message: QueueMessage, by: str) -> int:
        """Store a message until the runs before it are complete; 0 if it starts at once."""
        session = self._session
        message = replace(message, client_message_id=_stored_id(session, message))
        if message.client_message_id in session.fold.runs:
            return 0
        check_text(message.text, message.attachments)
        as_sent = SendUserMessage(session.session_id, message.client_message_id, message.text)
        await check_cost(session.backend, session.place, _options(session, as_sent).budget)
        position = await self.inbox.queue(message, by)
        if position == 0 and message.client_message_id not in session.fold.runs:
            raise pruned_message()
        if session.fold.run is None:
            await self.start_queued()
            return 0
        return position

    async def steer(self, request: SteerRun, by: str) -> None:
        run = self._session.fold.run
        if run is None or run.run_id != request.run_id:
            raise ProtocolError("NO_ACTIVE_RUN", f"{request.run_id[:80]} is not active")
        check_text(request.text, request.attachments)
        message = QueueMessage(self._session.services.ids("msg"), request.text, request.as_is, request.attachments)
        await self.inbox.steer(message, by)
        if self._session.fold.run is None:  # it came too late for its run
            await self.start_queued()

    async def cancel(self, request: CancelRun, by: str) -> tuple[WaitingMessage, ...]:
        """Now, or after a time: then it holds without the client, and after a restart.

        Returns the messages that were waiting, if they are to be given back.
        """
        session = self._session
        waiting = await self.inbox.waiting(session.fold.runs) if request.return_queue else []
        run = session.fold.run
        if run is None or run.run_id != request.run_id:
            raise ProtocolError("NO_ACTIVE_RUN", f"{request.run_id[:80]} is not active")
        reason = request.reason or "user_cancelled"
        if run.cancelling is not None:
            await session.commit(Rows(taken=tuple(item.item_id for item in waiting)) if waiting else None)
        elif request.after_seconds is not None:
            at = session.services.now().after(request.after_seconds).unix_ms
            session.journal.record(CancelScheduled(at=at, reason=reason, by=by), run.run_id)
            await session.commit(durable=True)
            self._deadline.follow(session.fold.run)
            return ()
        else:
            await self._cancel(reason, by, waiting)
        return tuple(item.shown() for item in waiting)

    # --- lifecycle -------------------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Continue what was in flight when the process died: the same code continues from the folded state."""
        session = self._session
        for expired in session.approvals.expire_overdue():
            await session.commit(Rows(decision=expired))
        policy = session.approvals.session_policy()
        if policy.policy == "until":
            session.journal.record(ApprovalPolicyChanged(policy=policy.before, by=RuntimeActor.RESTART))
        run = session.fold.run
        if run is None:
            await session.commit()
            await self.start_queued()
            return
        restarted = RunStarted(
            run_id=run.run_id,
            options=run.options,
            recovered=True,
            recording=RECORDING,
            node=session.services.node,
        )
        from_node = run.node
        session.journal.record(restarted, run.run_id)
        if from_node is not None and session.services.node not in (None, from_node):
            session.journal.record(Recovery(action="taken_over", from_node=from_node), run.run_id)
        if not run.open_calls:
            session.journal.record(Recovery(action="restarted" if run.partial else "continued"), run.run_id)
        for call in run.open_calls.values():
            if call.stage != "claimed" and not call.is_delegate:
                session.journal.record(Recovery(action="continued", call_id=call.item.call_id), run.run_id)
        await session.commit(durable=True)
        await session.files.recover(session.services.log)
        await session.services.learn_cost(session.user)
        self._start()

    async def start_queued(self) -> None:
        """Start a run for the next queued message."""
        session = self._session
        while session.fold.run is None and not session.is_closing and not (self.is_compacting or self.held_for):
            queued = await self.inbox.first()
            if queued is None or session.fold.run is not None:
                return
            message = queued.message
            await session.services.learn_cost(session.user)
            if message.client_message_id in session.fold.runs:
                await session.commit(Rows(taken=(queued.item_id,)))  # it was sent meanwhile
                continue
            expanded = await _expand(session, message.text, message.client_message_id, queued.by)
            if session.fold.run is not None or message.client_message_id in session.fold.runs:
                continue
            self._accept(message, queued.by, queued.message.redacted, expanded)
            await session.commit(Rows(key=message.client_message_id, taken=(queued.item_id,)))
            self._start()

    async def end_unrecoverable(self) -> None:
        """End the run that was in flight and release the session: its backend cannot continue it."""
        session = self._session
        run = _active(session, self._record_steering)
        if run is not None:
            await session.guard(perform(run, session.backend))
        await session.services.release(session.journal.lease)

    async def stop(self, reason: str) -> None:
        """Cancel the active run, if there is one, for a clean shutdown."""
        if self._session.fold.run is not None and self._task is not None:
            with suppress(ProtocolError):  # the log is another process's, or full: all that is left is to stop
                await self._cancel(reason, RuntimeActor.DAEMON)

    async def abandon(self) -> None:
        """Wait for the run's task; in a broken session it is cancelled, because it can record nothing more."""
        task = self._task
        if task is not None:
            if self._session.broken:
                task.cancel()
            await asyncio.wait([task])

    async def wait_idle(self) -> None:
        """Wait until no run is active."""
        while self._task is not None:
            await asyncio.wait([self._task])

    # --- one run ---------------------------------------------------------------------------------------------------

    def _accept(self, message: SendUserMessage, by: str, redacted: int, expanded: Expanded) -> str:
        session = self._session
        model, place = session.backend.model(), session.place
        options = replace(
            _options(session, message),
            profile=model.profile,
            model=model.model,
            target=place.target.name,
            sandbox=place.sandbox,
        )
        # From here on nothing may be refused: a recorded message without its run would count as known.
        run_id = session.services.ids("run")
        said = replace(event_of(message, by, redacted), expanded=expanded.text, insertions=expanded.insertions)
        session.journal.record(said, run_id)
        node = session.services.node
        session.journal.record(RunStarted(run_id=run_id, options=options, recording=RECORDING, node=node), run_id)
        return run_id

    def _start(self) -> None:
        session = self._session
        blocked = self._task is not None or session.broken or session.is_closing
        run = None if blocked else _active(session, self._record_steering)
        if run is not None:
            self._task = asyncio.get_running_loop().create_task(self._perform(run), name=f"run {run.run_id}")
            self._task.add_done_callback(self._restart_if_unstarted)
            session.services.running.add(self)
            self._deadline.follow(run.state)

    def _restart_if_unstarted(self, task: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step never enters its own body, and the session would stay busy
        # forever: the run is started again, and ends as what it is, cancelled.
        if task.cancelled() and self._task is task:
            self._task = None
            self._start()

    async def _perform(self, run: ActiveRun) -> None:
        session = self._session
        try:
            await perform(run, session.backend)
        except LogError:
            session.broken = True
        finally:
            self._task = None
            session.services.running.discard(self)
            self._deadline.follow(None)
            session.audience.wake()
        if session.fold.run is not None:
            self._start()  # a message was accepted while the last run's outcome was being committed
        elif not session.broken:
            with suppress(ProtocolError):  # the log refused: the session is read again when it is next needed
                await self.start_queued()

    async def _cancel(self, reason: str, by: str, returned: Sequence[QueuedMessage] = ()) -> None:
        session = self._session
        task, run = self._task, session.fold.run
        if run is None:
            return
        shown = tuple(item.shown() for item in returned)
        session.journal.record(RunCancelling(reason=reason, by=by, returned=shown), run.run_id)
        if returned:
            await session.commit(Rows(taken=tuple(item.item_id for item in returned)))
        await session.guard(session.approvals.deny_pending(by, reason))
        if task is not None and self._task is task and session.fold.run is run:
            task.cancel()
        await session.commit()

    async def _record_steering(self) -> bool:
        session = self._session
        run = session.fold.run
        waiting = await self.inbox.steers() if run is not None else []
        # One that came too late for its run may have started this one, in a commit that is still under way.
        steers = [steer for steer in waiting if steer.message.client_message_id not in session.fold.runs]
        if run is None or run.cancelling is not None or not steers:
            return False
        for steer in steers:
            said = event_of(steer.message, steer.by, steer.message.redacted)
            session.journal.record(replace(said, steers=True), run.run_id)
        await session.journal.commit(Rows(taken=tuple(steer.item_id for steer in steers)), durable=True)
        return True


async def _expand(session: RunOwner, text: str, message_id: str, by: str) -> Expanded:
    """What a slash command stands for, and the calls whose output belongs to it; only if a person wrote it."""
    is_written = by != RuntimeActor.PARENT and (text.startswith("/") or "@" in text)
    if session.services.expand is None or not is_written:
        return Expanded()
    is_native = session.backend.name == "native"
    try:
        found = await session.services.expand(text, session.place, runs_commands=is_native)
    except ToolError as error:
        raise ProtocolError("INVALID_REQUEST", str(error)) from error
    return Expanded() if found is None else expanded_message(found, message_id)


def is_known(session: RunOwner, message: SendUserMessage | QueueMessage) -> bool:
    """Whether it was accepted before: then it is only answered again."""
    return _stored_id(session, message) in session.fold.runs


def _stored_id(session: RunOwner, message: SendUserMessage | QueueMessage) -> str:
    return stored_id(session.services.scrubber, message.client_message_id, session.fold.runs)


def _options(session: RunOwner, message: SendUserMessage) -> StartedOptions:
    return options_of(message, session.fold.started, session.services.now(), session.services.max_turns)


def _active(session: RunOwner, record_steering: Callable[[], Awaitable[bool]]) -> ActiveRun | None:
    """The run in flight, as its backend sees it."""
    if session.fold.run is None:
        return None
    return ActiveRun(
        session.fold.run,
        session.place,
        session.journal,
        session.approvals,
        session.questions,
        clock=session.services.clock,
        hooks=session.hooks,
        put_blob=session.services.log.put_blob,
        record_steering=record_steering,
        files=session.files,
        stop_children=partial(session.services.stop_children, session),
        check_day=session.services.check_of_day(session.user),
    )

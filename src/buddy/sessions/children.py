"""The sub-agents of sessions: started, found again, waited for, stopped.

Invariants: a sub-agent's session exists before its parent records it, and gets its task only afterwards; so a call that
was interrupted at any point either continues with the same session or knows that it was deleted. A run is complete only
after all of its sub-agents are.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from buddy import faults
from buddy.backends.runstate import RunState
from buddy.errors import LogError, ProtocolError, RunDenied, SessionElsewhere, ToolError
from buddy.log.contract import Log, SessionQuery
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.child_events import ChildUsage
from buddy.protocol.events import ChildFinished, ChildStarted
from buddy.protocol.requests import CancelRun, SendUserMessage
from buddy.sessions.child_outcome import ChildOutcome, read_outcome, unknown_outcome_of
from buddy.sessions.child_start import UNLIMITED, child_id_of, child_start, depth_of, message_id_of
from buddy.sessions.services import Parent
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions
from buddy.tools.delegate import ChildResult, ChildTask, outcome_unknown

SAFEGUARD_SECONDS = 30.0
"""How often a sub-agent is looked at, although its session wakes those who wait."""
POLL_SECONDS = 1.0
MOST_CHILDREN = 10_000
PAGE = 500
STOP_SECONDS = 30.0


class ChildLimits(Struct, frozen=True):
    """How many sub-agents a session may have at once, and how deep they may delegate."""

    at_once: int = 8
    depth: int = 2


class ChildSessions:
    """Satisfies `tools.delegate.Children`. `bind` comes before anything else."""

    def __init__(self, limits: ChildLimits, profiles: Callable[[], Collection[str]]) -> None:
        self.limits = limits
        self._profiles = profiles
        self._bound: Sessions | None = None
        self._starting: dict[str, asyncio.Lock] = {}

    def bind(self, sessions: Sessions) -> None:
        self._bound = sessions

    @property
    def _sessions(self) -> Sessions:
        if self._bound is None:
            raise ToolError("sub-agents are not available here")
        return self._bound

    async def delegate(self, session_id: str, call_id: str, task: ChildTask) -> ChildResult:
        parent, run = self._parent(session_id)
        known = run.children.get(call_id)
        self._sessions.delegations.wake()  # after a restart, clients may have attached before this
        if known is None:
            lock = self._starting.setdefault(session_id, asyncio.Lock())
            async with lock:  # each share of the budget is taken from what the one before has left
                started = await self._start(parent, run, call_id, task)
            if not lock.locked():
                self._starting.pop(session_id, None)
        else:
            started = known.started
            self._sessions.factories.adopt(session_id, started.session_id)  # a key that came after a restart
        run_id = await self._send_task(parent, started, task)
        outcome = await self._wait(started.session_id, run_id, parent)
        if run.children[call_id].finished is None:
            self._finish(parent, run, started, outcome)
            await parent.journal.commit()
        if outcome.outcome == "denied" and _ends_with_denial(parent):
            raise RunDenied(f"the sub-agent {started.agent} was denied: {outcome.summary}")
        return ChildResult(started.session_id, outcome.outcome, outcome.text, outcome.summary)

    async def is_known(self, session_id: str, call_id: str) -> bool:
        _, run = self._parent(session_id)
        record = await self._sessions.services.log.get(child_id_of(session_id, run, call_id))
        return record is not None or call_id not in run.children

    async def stop(self, parent: Parent) -> None:
        """Cancel the sub-agents of a run that ends, and wait for them.

        Those of a session that is only left to another process, or parked, go on.
        """
        run = parent.fold.run
        if run is None or parent.broken:
            return
        for child in run.working_children:
            outcome: ChildOutcome | None = None
            with suppress(ProtocolError, ToolError, TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    outcome = await self._cancel(child, parent, run.cancelling or "the run of its parent ended")
            if child.call_id in run.children and run.children[child.call_id].finished is None:
                self._finish(parent, run, child, outcome or unknown_outcome_of(child))

    # --- one sub-agent ---------------------------------------------------------------------------------------------

    def _parent(self, session_id: str) -> tuple[Session, RunState]:
        parent = self._sessions.live(session_id)
        if parent is None or parent.fold.run is None:
            raise ToolError("no run is active in this session")
        return parent, parent.fold.run

    async def _start(self, parent: Session, run: RunState, call_id: str, task: ChildTask) -> ChildStarted:
        self._check_limits(parent, run)
        start = child_start(parent, run, call_id, task, self._profiles())
        if await self._sessions.services.log.get(start.session_id) is None:
            try:
                self._sessions.admit_run()
                await self._sessions.start_child(start)
            except ProtocolError as error:
                detail = f" ({error.detail})" if error.detail else ""
                raise ToolError(f"the sub-agent {task.agent.name} cannot start: {error}{detail}") from error
        faults.reached("child.created")
        budget = start.options.budget if start.options and start.options.budget else UNLIMITED
        started = ChildStarted(session_id=start.session_id, call_id=call_id, agent=task.agent.name, budget=budget)
        parent.journal.record(started, run.run_id)
        await parent.journal.commit(durable=True)
        faults.reached("child.recorded")
        self._sessions.delegations.wake()
        return started

    def _check_limits(self, parent: Session, run: RunState) -> None:
        depth, most = depth_of(parent), self.limits
        if depth >= most.depth:
            levels = f"{depth} level{'' if depth == 1 else 's'} deep"
            raise ToolError(f"sub-agents may not delegate further: they are {levels}, the maximum")
        if len(run.working_children) >= most.at_once:
            raise ToolError(
                f"{most.at_once} sub-agents are working, the maximum; delegate again once one of them has finished"
            )

    async def _send_task(self, parent: Session, started: ChildStarted, task: ChildTask) -> str:
        """Give the sub-agent its task, unless it has it; returns its run."""
        message = SendUserMessage(started.session_id, message_id_of(started.session_id), task.text)
        try:
            child = await self._sessions.open(started.session_id)
            known = child.fold.runs.get(message.client_message_id)
            return known or await child.runs.send(message, RuntimeActor.PARENT)
        except ProtocolError as error:
            known = await self._known_run(started.session_id, message.client_message_id)
            if known is not None:
                return known  # another process has it
            run = parent.fold.run
            if run is not None:
                self._finish(parent, run, started, unknown_outcome_of(started))
            if error.code == "SESSION_NOT_FOUND":
                raise outcome_unknown(started.session_id) from error
            raise ToolError(f"the sub-agent {started.agent} cannot work: {error}") from error

    async def _known_run(self, child_id: str, message_id: str) -> str | None:
        for event in await self._sessions.services.log.read(child_id, 0, types=("user_message",)):
            body = event.body()
            if getattr(body, "message_id", None) == message_id:
                return event.run_id
        return None

    async def _wait(self, child_id: str, run_id: str, parent: Parent) -> ChildOutcome:
        """Wait until the run is complete, no matter which node drives it and how often its session is opened again."""
        woken, sessions = asyncio.Event(), self._sessions
        while True:
            if parent.broken:
                raise LogError("the session is read from the log again, and waits there")
            child: Session | None = None
            with suppress(ProtocolError):
                child = await sessions.open(child_id)
            if child is None or child.fold.run is None or child.fold.run.run_id != run_id:
                await _commit(child)
                outcome = await read_outcome(sessions.services.log, child_id, run_id)
                if outcome is not None:
                    return outcome
                if child is not None or await sessions.services.log.get(child_id) is None:
                    raise outcome_unknown(child_id)
                await asyncio.sleep(POLL_SECONDS)
                continue
            child.audience.listen(woken)
            sessions.delegations.wake()  # clients of the parent follow it only once it is open
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SAFEGUARD_SECONDS):
                        await _wait_complete(child, run_id, woken)
            finally:
                child.audience.unlisten(woken)

    async def _cancel(self, started: ChildStarted, parent: Parent, reason: str) -> ChildOutcome | None:
        try:
            child = await self._sessions.open(started.session_id)
        except SessionElsewhere:
            return await self._cancel_elsewhere(started, parent, reason)
        active = child.fold.run
        run_id = child.fold.runs.get(message_id_of(started.session_id)) or (active and active.run_id)
        if run_id is None:
            return None
        if active is not None and active.run_id == run_id:
            cancel = CancelRun(started.session_id, run_id, f"parent: {reason}")
            with suppress(ProtocolError):
                await child.runs.cancel(cancel, RuntimeActor.PARENT)
        return await self._wait(started.session_id, run_id, parent)

    async def _cancel_elsewhere(self, started: ChildStarted, parent: Parent, reason: str) -> ChildOutcome | None:
        """Cancel a sub-agent that another process has."""
        child_id, elsewhere = started.session_id, self._sessions.services.elsewhere
        run_id = await self._known_run(child_id, message_id_of(child_id))
        if run_id is None or elsewhere is None:
            return None
        cancel = CancelRun(child_id, run_id, f"parent: {reason}")
        with suppress(ProtocolError):  # it may have ended meanwhile
            await elsewhere.ask(child_id, "cancel_run", cancel, RuntimeActor.PARENT)
        return await self._wait(child_id, run_id, parent)

    def _finish(self, parent: Parent, run: RunState, started: ChildStarted, outcome: ChildOutcome) -> None:
        with suppress(LogError):  # the parent's log is another process's: that one records it
            parent.journal.record(
                ChildFinished(
                    session_id=started.session_id,
                    call_id=started.call_id,
                    agent=started.agent,
                    outcome=outcome.outcome,
                    usage=outcome.usage or ChildUsage(),
                    cost_usd=outcome.cost_usd,
                    reason=outcome.reason,
                ),
                run.run_id,
            )
        self._sessions.delegations.wake()


def working_children(sessions: Sessions, session_id: str) -> list[str]:
    """The sub-agents of a session that have not finished, and theirs."""
    session = sessions.live(session_id)
    run = session.fold.run if session is not None else None
    found = [child.session_id for child in run.working_children] if run is not None else []
    return [one for child in found for one in (child, *working_children(sessions, child))]


async def children_of(sessions: Sessions, session_id: str) -> list[str]:
    """All sub-agents that a session ever started, and theirs, each after its own; those of a copied log are not its."""
    log, found = sessions.services.log, list[str]()
    for child_id in await _started_by(log, session_id):
        record = await log.get(child_id)
        if record is not None and record.facts.parent == session_id and record.facts.agent is not None:
            found += [*await children_of(sessions, child_id), child_id]
    return found


async def _started_by(log: Log, session_id: str) -> list[str]:
    """The sub-agents by the session's log; what was pruned from it is found among all sessions of its folder."""
    bodies = [event.body() for event in await log.read(session_id, 0, MOST_CHILDREN, types=("child_started",))]
    found = dict.fromkeys(body.session_id for body in bodies if isinstance(body, ChildStarted))
    own = await log.get(session_id)
    query = SessionQuery(PAGE, own.repo.root_path) if own is not None and own.first_seq > 1 else None
    while query is not None:
        page = await log.find(query)
        found |= dict.fromkeys(one.session_id for one in page if one.facts.parent == session_id)
        query = replace(query, after=(page[-1].updated_at, page[-1].session_id)) if len(page) == PAGE else None
    return list(found)


async def _wait_complete(child: Session, run_id: str, woken: asyncio.Event) -> None:
    """Wait until the run is over or the session must be opened again."""
    while not child.broken and child.fold.run is not None and child.fold.run.run_id == run_id:
        await woken.wait()
        woken.clear()


async def _commit(session: Session | None) -> None:
    """What is known of a session may not be in its log yet."""
    if session is not None:
        with suppress(LogError):
            await session.journal.commit()


def _ends_with_denial(parent: Session) -> bool:
    """Whether the first denial ends the parent's run, as one of its own calls would."""
    is_headless = parent.fold.started is not None and parent.fold.started.mode == "headless"
    return is_headless and parent.approvals.policy().at(parent.services.now()) != "auto"

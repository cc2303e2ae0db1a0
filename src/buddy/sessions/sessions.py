"""All sessions of this process: started, opened from the log, recovered, closed.

Invariants: a session is open at most once here, and only while this process holds its lease; reading a log needs
neither.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from buddy.approvals.deadlines import Moment
from buddy.approvals.policy import parse_policy
from buddy.backends.contract import Backend, RereadingBackend, VerifiableBackend
from buddy.capabilities import has
from buddy.errors import BuddyError, LogError, ProtocolError, SessionElsewhere, ToolError, UserError
from buddy.log.contract import Lease, RowFacts, SessionRecord
from buddy.protocol.events import SessionStarted, ToolResult, WarningRaised
from buddy.protocol.ids import is_id
from buddy.protocol.requests import StartSession, SwitchModel
from buddy.protocol.shapes import BudgetLimits, Repo, SessionOptions
from buddy.scrub import Scrubber
from buddy.sessions.audience import Audience
from buddy.sessions.files import finish_restores, sessions_restoring
from buddy.sessions.listing import ListedRow
from buddy.sessions.messages import check_cost
from buddy.sessions.parking import parked_together
from buddy.sessions.past import RecordedSession, past_reader, read_past
from buddy.sessions.pinning import check_place, pin
from buddy.sessions.services import SessionServices
from buddy.sessions.session import Session
from buddy.sessions.state import SessionFold
from buddy.sessions.tokens import AttachTokens
from buddy.sessions.unavailable import unavailable_session
from buddy.targets.choose import verify_target
from buddy.targets.contract import LeavableTerminal, Terminal
from buddy.tools.contract import Place

log = logging.getLogger("buddy.sessions")

HEARTBEAT_SECONDS = 5.0
LEAVE_SECONDS = 3.0
DORMANT_MS = 10 * 60 * 1000
PARKED_MS = 60 * 1000
ABOUT_AGENTS = ("AGENT_RUNTIME", "UNSAFE_AGENT")
"""What a sub-agent's session warns of; the rest was said in its parent."""


class SessionFactories(Struct, frozen=True):
    """Create a session's place and backend; both refuse what is not available.

    `settle` decides, permanently, what a start leaves open, and may add notes for the user. `adopt` hands over to a
    sub-agent what its parent has in memory alone.
    """

    place: Callable[[SessionStarted], Place]
    backend: Callable[[SessionStarted, str | None, str | None], Backend]
    settle: Callable[[SessionStarted], tuple[SessionStarted, tuple[WarningRaised, ...]]] = lambda started: (started, ())
    adopt: Callable[[str, str], None] = lambda parent, child: None  # noqa: ARG005 - nothing to hand over


class Sessions:
    def __init__(
        self, services: SessionServices, factories: SessionFactories, owner: str, active_runs: int = 128
    ) -> None:
        self.services = services
        self.tokens = AttachTokens(services.log, services.now)
        self.delegations = Audience()
        """Who wants to know that a sub-agent was started or has finished."""
        self.factories = factories
        self.owner = owner
        self._active_runs = active_runs
        self.by_id: dict[str, Session] = {}
        self.opening: dict[str, asyncio.Task[Session]] = {}
        self.granted: dict[str, Lease] = {}
        """Leases that were taken before their sessions are opened."""
        self._refused: set[str] = set()
        """Sessions that could not be opened because the log refused a write; the heartbeat tries again."""
        self.copying: set[str] = set()
        """Copies of sessions that are being made here."""
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._heart: asyncio.Task[None] | None = None

    @property
    def open_sessions(self) -> list[Session]:
        return list(self.by_id.values())

    def live(self, session_id: str) -> Session | None:
        """The session, if it is open here and not broken."""
        session = self.by_id.get(session_id)
        return session if session is not None and not session.broken else None

    async def start(self, request: StartSession, user: str | None = None) -> tuple[Session, str]:
        """A new session, and the token that drives it."""
        session_id = self.services.ids("sess")
        options = _with_fixed_policy(request.options, self.services.now())
        started = SessionStarted(
            session_id=session_id,
            state="idle",
            mode=request.mode,
            provider=request.provider,
            sandbox_provider=request.sandbox_provider,
            repo=request.repo,
            options=options,
            metadata=request.metadata,
            user=user,
            node=self.services.node,
        )
        started, notes = self.factories.settle(started)
        session = await self._create(started, notes, RowFacts())
        return session, await self.tokens.mint(session_id, "driver")

    async def start_child(self, started: SessionStarted) -> Session:
        """A session that a call of another one starts; it has the keys of that one."""
        delegated, options = started.delegated, started.options
        parent, agent = (delegated.parent, delegated.agent) if delegated else (None, None)
        self.factories.adopt(parent or "", started.session_id)
        started, notes = self.factories.settle(started)
        notes = tuple(note for note in notes if note.code in ABOUT_AGENTS)
        limits = (options and options.budget) or BudgetLimits()
        return await self._create(started, notes, RowFacts(parent=parent, agent=agent), limits)

    async def _create(
        self,
        started: SessionStarted,
        notes: tuple[WarningRaised, ...],
        facts: RowFacts,
        limits: BudgetLimits | None = None,
    ) -> Session:
        place = self.factories.place(started)
        await verify_target(place.target, place.root)
        if has(place.target, Terminal):
            started = replace(started, watch=place.target.attach_hint())
        options = started.options
        backend = self.factories.backend(
            started, options.profile if options else None, options.model if options else None
        )
        if has(backend, VerifiableBackend):
            await backend.verify(place)
        await check_cost(backend, place, limits or BudgetLimits())
        repo, now = _scrub_repo(self.services.scrubber, started.repo or Repo(".")), self.services.clock()
        record = SessionRecord(started.session_id, repo, started.mode, "idle", now, now, 1, 0, user=started.user)
        record = replace(record, facts=facts)
        async with self.services.admit_session(None if started.delegated else started.user):
            lease = await self.services.log.create(record, self.owner)
        if has(backend, RereadingBackend):
            backend.use_log(past_reader(self.services.log, started.session_id, backend.lasting))
        session = Session(self.services, lease, place, backend, SessionFold(), 0, ListedRow(record))
        self.by_id[started.session_id] = session
        self._start_heartbeat()
        notes = (*notes, *await pin(self.services, lease, started))
        await session.begin(started, notes)
        session.hooks.begin("startup")
        return session

    async def open(self, session_id: str, model: SwitchModel | None = None) -> Session:
        """The session, for writing; read from the log and recovered if it was not open.

        `model` is what it will be switched to: it is used if the session's own is no longer configured.
        """
        found = self.live(session_id)
        if found is not None:
            return found
        opening = self.opening.get(session_id)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._load(session_id, model))
            self.opening[session_id] = opening
            opening.add_done_callback(partial(self._on_opened, session_id))
        return await asyncio.shield(opening)

    def _on_opened(self, session_id: str, opening: "asyncio.Task[Session]") -> None:
        self.opening.pop(session_id, None)
        if not opening.cancelled() and _was_refused(opening.exception()):
            self._refused.add(session_id)
            self._start_heartbeat()

    async def opened(self, session_id: str) -> Session | None:
        """The session, if it is open here, being opened, or about to be closed."""
        if session_id in self._leaving:
            await asyncio.wait([self._leaving[session_id]])
        opening = self.opening.get(session_id)
        return await asyncio.shield(opening) if opening is not None else self.live(session_id)

    async def acquire(self, session_id: str) -> Lease:
        """The right to write a session's log; refused while another process has it."""
        lease = self.granted.pop(session_id, None) or await self.services.acquire(session_id, self.owner)
        if lease is None:
            raise SessionElsewhere("RUN_IN_PROGRESS", f"{session_id} is in use by another process", retryable=True)
        return lease

    def admit_run(self) -> None:
        """Refuse another run if the maximum is active."""
        if len(self.services.running) >= self._active_runs:
            raise ProtocolError("OVERLOADED", f"{self._active_runs} runs are active, the maximum", retryable=True)

    async def record(self, session_id: str) -> SessionRecord:
        """The session's row; anything that is not a session id is refused without a lookup."""
        record = await self.services.log.get(session_id) if is_id(session_id, "sess") else None
        if record is None:
            raise ProtocolError("SESSION_NOT_FOUND", f"no session {session_id[:80]!r}")
        return record

    async def recover(self) -> list[Session]:
        """Continue every session whose run, or restore of files, was active when its process died."""
        recovered: list[Session] = []
        active = [record.session_id for record in await self.services.log.active()]
        for session_id in dict.fromkeys([*active, *await sessions_restoring(self.services)]):
            try:
                recovered.append(await self.open(session_id))
            except BuddyError as error:
                log.warning("%s is not recovered: %s", session_id, error)
        return recovered

    async def delete(self, session_id: str) -> bool:
        session = self.live(session_id)
        if session is not None:
            session.runs.check_idle("delete the session")
            del self.by_id[session_id]
            await session.close()
        lease = await self.acquire(session_id)
        return await self.services.log.delete(session_id, lease.epoch)

    async def close(self) -> None:
        """Close all sessions cleanly."""
        if self._heart is not None:
            self._heart.cancel()
            await asyncio.wait([self._heart])
        sessions = self.open_sessions
        parked = parked_together(sessions)
        closing = (session.close(parks=session.session_id in parked) for session in sessions)
        await asyncio.gather(*self._leaving.values(), *closing)
        self.by_id.clear()
        panes = {target.attach_hint(): target for one in sessions if has(target := one.place.target, Terminal)}
        await asyncio.gather(*map(_leave_pane, panes.values()))

    async def _load(self, session_id: str, model: SwitchModel | None) -> Session:
        if session_id in self._leaving:
            await asyncio.wait([self._leaving[session_id]])
        broken = self.by_id.pop(session_id, None)
        if broken is not None:
            await broken.abandon()
        record = await self.record(session_id)
        lease = await self.acquire(session_id)
        record = await self.record(session_id)  # the previous owner may have written until now
        past = await read_past(self.services.log, session_id, record.last_seq)
        fold = past.fold
        try:
            await check_place(self.services, session_id, fold.started)
            place, backend = await _rebuild(self.factories, record, fold, past, model)
        except ProtocolError as error:
            if fold.run is not None:
                await unavailable_session(self.services, record, lease, fold, str(error)).runs.end_unrecoverable()
            else:
                await self.services.release(lease)
            raise
        opened = Session(self.services, lease, place, backend, fold, record.last_seq, ListedRow(record))
        self.by_id[session_id] = opened
        self._start_heartbeat()
        if opened.journal.last_seq == 0 and fold.started is not None:
            await opened.begin(fold.started)  # the process died between the session's row and its first event
        await finish_restores(opened)
        await opened.runs.recover()
        opened.hooks.begin("resume")
        return opened

    async def announce_gap(self, found: SessionRecord, requested: int) -> None:
        """Record a gap in a session that cannot be opened; one that another process drives is left alone."""
        lease = await self.services.acquire(found.session_id, self.owner)
        if lease is None:
            return
        record = await self.record(found.session_id)
        fold = (await read_past(self.services.log, record.session_id, record.last_seq)).fold
        await unavailable_session(self.services, record, lease, fold, "").announce_gap(requested, found)
        await self.services.release(lease, resume=record.is_active)

    def forget_dormant(self) -> None:
        """Close sessions that nobody has used for a while; they are opened from the log when needed."""
        since, parked = self.services.clock() - DORMANT_MS, self.services.clock() - PARKED_MS
        for session_id, session in list(self.by_id.items()):
            if not session.runs.is_running:
                session.audience.rest()
            if session.is_dormant(since) or (session.is_parkable and session.has_nobody(parked)):
                del self.by_id[session_id]
                leaving = asyncio.get_running_loop().create_task(_retire(session, self.open_sessions))
                self._leaving[session_id] = leaving
                leaving.add_done_callback(lambda _, gone=session_id: self._leaving.pop(gone, None))

    def _start_heartbeat(self) -> None:
        if self._heart is None:
            self._heart = asyncio.get_running_loop().create_task(self._heartbeat())

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            with suppress(BuddyError):  # a full disk; the next beat may find room
                await self.services.log.renew(self.owner)
            self.forget_dormant()
            # Otherwise their runs would hang forever: followers get no more events.
            refused, self._refused = self._refused, set()
            for session_id in {*refused, *(one.session_id for one in self.open_sessions if one.broken)}:
                with suppress(BuddyError):
                    await self.open(session_id)


def _was_refused(error: BaseException | None) -> bool:
    """Whether the log could not be written, which may pass: its disk is full, or another program locks it."""
    if isinstance(error, ProtocolError):
        return error.code == "STORAGE_FULL"
    return isinstance(error, LogError | UserError)


async def _rebuild(
    factories: SessionFactories,
    record: SessionRecord,
    fold: SessionFold,
    past: RecordedSession,
    instead: SwitchModel | None,
) -> tuple[Place, Backend]:
    started = fold.started or unknown_start(record)
    fold.started = started
    options = started.options
    profile = fold.profile or (options.profile if options else None)
    model = fold.model or (options.model if options else None)
    located = replace(started, repo=record.repo, user=record.user)  # in an event, both may be scrubbed
    place = factories.place(located)
    try:
        backend = factories.backend(located, profile, model)
    except ProtocolError:
        if instead is None or fold.run is not None:
            raise
        backend = factories.backend(located, instead.profile, instead.model)
    base = await past.find_base() if has(backend, RereadingBackend) else None
    if has(backend, RereadingBackend) and base is not None:
        backend.begin_late(base.first, base.seq)
        place = replace(place, had_output=past.has_blob)
    async for page in past.pages(backend.lasting | {"tool_result"}, base):
        for event, body in page:
            if body is not None:
                backend.observe(event.seq, body)
            if isinstance(body, ToolResult) and body.output is not None:
                place.outputs.add(body.output)
    if has(backend, RereadingBackend):
        backend.use_log(past.reader(backend.lasting))
    return place, backend


def _scrub_repo(scrubber: Scrubber, repo: Repo) -> Repo:
    """The repo as it may be stored: a URL may contain a password. The folder's path must stay as it is."""
    if scrubber.is_clean(repo):
        return repo
    return replace(convert(scrubber.tree(to_builtins(repo)), Repo), root_path=repo.root_path)


async def _retire(session: Session, others: list[Session]) -> None:
    """Close a session that nobody uses, and its pane unless another session has it."""
    await session.close()
    target = session.place.target
    used = [other.attach_hint() for one in others if has(other := one.place.target, Terminal)]
    if has(target, Terminal) and target.attach_hint() not in used:
        await _leave_pane(target)


async def _leave_pane(target: Terminal) -> None:
    if has(target, LeavableTerminal):
        with suppress(ToolError, OSError, TimeoutError):  # it is not worth more than a try
            async with asyncio.timeout(LEAVE_SECONDS):
                await target.leave()


def _with_fixed_policy(options: SessionOptions | None, now: Moment) -> SessionOptions | None:
    """A duration such as `10m` starts now; parsed again later, it would never end."""
    if options is None or options.approval_policy is None:
        return options
    return replace(options, approval_policy=parse_policy(options.approval_policy, now).text())


def unknown_start(record: SessionRecord) -> SessionStarted:
    return SessionStarted(
        session_id=record.session_id,
        state="idle",
        mode="headless" if record.mode == "headless" else "interactive",
        provider="default",
        sandbox_provider="local",
        repo=record.repo,
    )

"""Requests that only read: snapshots, events, blobs, approvals, decisions."""

import base64
import codecs
from collections.abc import Callable

import msgspec

from buddy.backends.contract import MeasuringBackend
from buddy.capabilities import has
from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_record, on_runtime
from buddy.daemon.offered_endpoint import model_in_use
from buddy.errors import LogError, ProtocolError, SessionElsewhere
from buddy.log.contract import Log, SessionRecord
from buddy.protocol import requests as ask
from buddy.protocol.envelopes import Event
from buddy.protocol.shapes import BudgetState, ContextState, Shape
from buddy.sessions.grants import all_grants
from buddy.sessions.long_diffs import LongDiffs
from buddy.sessions.past_snapshot import snapshot_at
from buddy.sessions.pending import pending_approvals
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions

WINDOW = 1000
MIN_PART = 4  # bytes: the longest character


class ReadRequests:
    def __init__(self, sessions: Sessions, log: Log, clock: Callable[[], int], diffs: LongDiffs) -> None:
        self._sessions = sessions
        self._log = log
        self._clock = clock
        self._diffs = diffs

    def handlers(self) -> Handlers:
        return {
            "get_snapshot": on_record(ask.GetSnapshot, self.get_snapshot),
            "read_events": on_record(ask.ReadEvents, self.read_events),
            "read_blob": on_record(ask.ReadBlob, self.read_blob),
            "list_approvals": on_runtime(ask.ListApprovals, self.list_approvals),
            "list_decisions": on_runtime(ask.ListDecisions, self.list_decisions),
        }

    async def get_snapshot(self, _peer: PeerConnection, request: ask.GetSnapshot, record: SessionRecord) -> Shape:
        if request.at_seq is not None:
            if request.at_seq > record.last_seq:
                message = f"no event {request.at_seq} in this session; the last one is {record.last_seq}"
                raise ProtocolError("INVALID_REQUEST", message)
            return await snapshot_at(self._log, record.session_id, request.at_seq)
        try:
            session = await self._sessions.open(record.session_id)
        except SessionElsewhere:
            raise
        except (ProtocolError, LogError):
            # It cannot be continued here now: its folder or its model is gone, or the disk is full.
            last_seq = (await self._sessions.record(record.session_id)).last_seq
            return await snapshot_at(self._log, record.session_id, last_seq)
        snapshot = session.snapshot()
        return ask.GetSnapshotReply(
            state=snapshot.state,
            pending_approval=snapshot.pending_approval,
            meta=snapshot.meta,
            active_run_id=snapshot.active_run_id,
            last_assistant_text=snapshot.last_assistant_text,
            budget=_budget_of(session, self._clock()),
            context=_context_of(session),
            approvals=tuple(session.pending_approvals()),
            approval_policy=session.approvals.policy().at(session.services.now()),
            model=model_in_use(session),
        )

    async def read_events(self, _peer: PeerConnection, request: ask.ReadEvents, record: SessionRecord) -> Shape:
        after = min(request.after, record.last_seq)
        if request.before is None:
            events = await self._log.read(record.session_id, after, request.limit, request.types)
        else:
            before = min(request.before, record.last_seq + 1)
            events = await self._read_before(record, request, after, before)
        return ask.ReadEventsReply(tuple(msgspec.Raw(event.line()[:-1]) for event in events), record.last_seq)

    async def _read_before(
        self, record: SessionRecord, request: ask.ReadEvents, after: int, before: int
    ) -> list[Event]:
        """The last events before a seq, looked for backwards, some at a time."""
        found: list[Event] = []
        first = max(after + 1, record.first_seq)
        while before > first and len(found) < request.limit:
            start = max(first, before - WINDOW)
            page = await self._log.read(record.session_id, start - 1, before - start, request.types)
            found = [*(event for event in page if event.seq < before), *found]
            before = start
        return found[-request.limit :]

    async def read_blob(self, _peer: PeerConnection, request: ask.ReadBlob, record: SessionRecord) -> Shape:
        limit = max(request.limit, MIN_PART)
        found = self._diffs.read(record.session_id, request.blob, request.offset, limit)
        if found is None and await self._log.has_blob(record.session_id, request.blob):
            found = await self._log.read_blob(request.blob, request.offset, limit)
        leases = self._sessions.services.leases
        if found is None and leases is not None and await leases.has_other_machine(record.session_id):
            raise SessionElsewhere("INVALID_REQUEST", "the blob may be on another node", retryable=True)
        if found is None:
            raise ProtocolError("INVALID_REQUEST", f"unknown blob {request.blob[:80]!r}")
        part, total = found
        if request.encoding == "base64":
            return ask.ReadBlobReply("", total, base64.b64encode(part).decode())
        # A character that is cut at the end is left for the next part, so that the parts join without a loss.
        is_last = request.offset + len(part) >= total
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(part, is_last)
        return ask.ReadBlobReply(text, total)

    async def list_approvals(self, peer: PeerConnection, request: ask.ListApprovals) -> Shape:
        user = peer.roles.user
        granted = await all_grants(self._sessions, user) if request.grants else []
        return ask.ListApprovalsReply(tuple(await pending_approvals(self._sessions, user)), tuple(granted))

    async def list_decisions(self, peer: PeerConnection, request: ask.ListDecisions) -> Shape:
        from buddy.approvals.audit import decisions_made

        user = peer.roles.user
        if request.session_id is not None:
            await self._sessions.record(request.session_id)  # refused if there is none
        made = await decisions_made(self._log, request.limit, request.session_id, request.since, user)
        return ask.ListDecisionsReply(tuple(made))


def _context_of(session: Session) -> ContextState:
    """As the model last reported it; during a session's first run, as its prompt was measured."""
    known, backend = session.fold.context, session.backend
    if known.limit > 1:
        return known
    measured = backend.measured_context() if has(backend, MeasuringBackend) else None
    return measured or ContextState(0, max(known.limit, backend.model().context_limit))


def _budget_of(session: Session, now: int) -> BudgetState | None:
    run = session.fold.run
    if run is None:
        return None
    seconds = max(0.0, (now - run.started_ts) / 1000)
    return BudgetState(run.turns, run.tokens, run.tool_calls, seconds, run.options.budget, run.cost_usd)

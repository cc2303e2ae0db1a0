"""Requests that start, list, attach to, copy, prune and delete sessions."""

from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_record, on_runtime, on_session
from buddy.daemon.handlers.host import Host
from buddy.daemon.handlers.paths import check_path
from buddy.errors import ProtocolError
from buddy.log.contract import Log, SessionRecord
from buddy.protocol import requests as ask
from buddy.protocol.shapes import Replay, SessionSummary, Shape
from buddy.sessions.pruning import prune
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions


class SessionRequests:
    def __init__(self, sessions: Sessions, log: Log, host: Host) -> None:
        self._sessions = sessions
        self._log = log
        self._host = host

    def handlers(self) -> Handlers:
        return {
            "start_session": on_runtime(ask.StartSession, self.start_session),
            "list_sessions": on_runtime(ask.ListSessions, self.list_sessions),
            "attach_session": on_record(ask.AttachSession, self.attach_session),
            "resume_session": on_record(ask.ResumeSession, self.attach_session),
            "fork_session": on_record(ask.ForkSession, self.fork_session),
            "delete_session": on_record(ask.DeleteSession, self.delete_session),
            "prune_session": on_session(ask.PruneSession, self.prune_session),
        }

    async def start_session(self, peer: PeerConnection, request: ask.StartSession) -> Shape:
        check_path(request.repo.root_path)
        session, token = await self._sessions.start(request)
        peer.roles.drive(session.session_id)
        peer.attach(session.session_id, 0)
        return ask.StartSessionReply(session.session_id, session.state, token)

    async def list_sessions(self, peer: PeerConnection, request: ask.ListSessions) -> Shape:
        """All of them for the owner; for others, those they have a role on."""
        if peer.roles.is_owner:
            records = await self._log.newest(request.limit, request.root_path)
        else:
            records = await self._visible_to(peer, request)
        return ask.ListSessionsReply(tuple(map(_summary_of, records)))

    async def attach_session(self, peer: PeerConnection, request: ask.AttachSession, record: SessionRecord) -> Shape:
        session_id = record.session_id
        await peer.roles.admit(session_id, request.attach_token)
        session = await self._open_if_possible(session_id, peer.name)
        gap = request.last_seen_seq + 1 < record.first_seq
        cursor = min(request.last_seen_seq, await self._last_seq(session_id))
        if gap and session is not None:
            cursor = await self._last_seq(session_id)
            await session.announce_gap(request.last_seen_seq, record.first_seq)
        last = await self._last_seq(session_id)
        if not peer.is_attached(session_id) and not self._host.has_observer_slot(session_id):
            raise ProtocolError("OVERLOADED", "too many clients are attached to this session", retryable=True)
        peer.attach(session_id, cursor)
        state = session.state if session is not None else record.state
        return ask.AttachSessionReply(session_id, state, Replay(cursor + 1, max(last, 1), True, gap))

    async def fork_session(self, peer: PeerConnection, request: ask.ForkSession, record: SessionRecord) -> Shape:
        requested_with = peer.roles.token_of(record.session_id)
        session, token = await self._sessions.fork(record.session_id, request.seq, peer.name, requested_with)
        peer.roles.drive(session.session_id)
        if requested_with is not None:
            await peer.roles.admit(session.session_id, token)
        return ask.ForkSessionReply(session.session_id, token)

    async def delete_session(self, _peer: PeerConnection, _request: ask.DeleteSession, record: SessionRecord) -> Shape:
        deleted = await self._sessions.delete(record.session_id)
        await self._host.forget(record.session_id)
        return ask.DeleteSessionReply(deleted)

    async def prune_session(self, _peer: PeerConnection, request: ask.PruneSession, session: Session) -> Shape:
        return ask.PruneSessionReply(await prune(session, request.before_seq))

    async def _visible_to(self, peer: PeerConnection, request: ask.ListSessions) -> list[SessionRecord]:
        found = [await self._log.get(session_id) for session_id in peer.roles.sessions]
        records = [record for record in found if record and request.root_path in (None, record.repo.root_path)]
        return sorted(records, key=lambda record: -record.updated_at)[: request.limit]

    async def _open_if_possible(self, session_id: str, by: str) -> Session | None:
        """The session where this process may write it; one that it cannot continue can still be read.

        Another process may drive it, its folder or its model may be gone: none of that is a reason to hide its log.
        """
        was_live = self._sessions.live(session_id) is not None
        try:
            session = await self._sessions.open(session_id)
            if not was_live and not session.runs.is_running:  # a recovered run records that itself
                await session.resume(by)
        except ProtocolError as error:
            if error.code == "SESSION_NOT_FOUND":
                raise
            return None
        return session

    async def _last_seq(self, session_id: str) -> int:
        return (await self._sessions.record(session_id)).last_seq


def _summary_of(record: SessionRecord) -> SessionSummary:
    return SessionSummary(
        record.session_id,
        record.state,
        record.updated_at,
        record.repo,
        record.title,
        record.mode,
        record.last_seq,
    )

"""Requests that start, list, attach to, copy, prune and delete sessions."""

from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_record, on_runtime, on_session
from buddy.daemon.handlers.host import Host
from buddy.daemon.handlers.paths import check_path
from buddy.daemon.offered_endpoint import adopt, renew_key
from buddy.daemon.session_list import Watcher, query_of
from buddy.errors import LogError, ProtocolError, SessionElsewhere, UserError
from buddy.log.contract import SessionRecord
from buddy.protocol import requests as ask
from buddy.protocol.shapes import Endpoint, Replay, Shape
from buddy.sessions.children import children_of
from buddy.sessions.forking import fork_session
from buddy.sessions.naming import archive, rename
from buddy.sessions.pruning import prune
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions


class SessionRequests:
    def __init__(self, sessions: Sessions, host: Host) -> None:
        self._sessions = sessions
        self._host = host

    def handlers(self) -> Handlers:
        return {
            "start_session": on_runtime(ask.StartSession, self.start_session),
            "list_sessions": on_runtime(ask.ListSessions, self.list_sessions),
            "watch_sessions": on_runtime(ask.WatchSessions, self.watch_sessions),
            "rename_session": on_record(ask.RenameSession, self.rename_session),
            "archive_session": on_record(ask.ArchiveSession, self.archive_session),
            "attach_session": on_record(ask.AttachSession, self.attach_session),
            "resume_session": on_record(ask.ResumeSession, self.attach_session),
            "fork_session": on_record(ask.ForkSession, self.fork_session),
            "delete_session": on_record(ask.DeleteSession, self.delete_session),
            "prune_session": on_session(ask.PruneSession, self.prune_session),
        }

    async def start_session(self, peer: PeerConnection, request: ask.StartSession) -> Shape:
        check_path(request.repo.root_path)
        _check_local(peer, request.options.endpoint if request.options else None)
        try:
            request = await self._host.models.name_model(request)
        except UserError as error:
            raise ProtocolError("PROVIDER_NOT_CONFIGURED", str(error), detail=error.hint or None) from error
        await self._host.agents.projects.refresh()
        await self._host.admission.check_session(peer.roles.user)
        session, token = await self._sessions.start(request, peer.roles.user)
        peer.roles.drive(session.session_id)
        peer.attach(session.session_id, 0)
        return ask.StartSessionReply(session.session_id, session.state, token)

    async def list_sessions(self, peer: PeerConnection, request: ask.ListSessions) -> Shape:
        """All of them for the owner, their own for a user; for others, those they have a role on."""
        return await self._host.session_list.page(request, _visible_to(peer), peer.roles.user)

    async def watch_sessions(self, peer: PeerConnection, request: ask.WatchSessions) -> Shape:
        """The rows now, and then each that changes, until the connection ends or watches something else."""
        rows = self._host.session_list
        wanted = ask.ListSessions(request.limit, request.root_path, request.query, request.state, request.archived)
        reply = await rows.page(wanted, _visible_to(peer), peer.roles.user)
        watcher = Watcher(query_of(request), reply.sessions, peer.roles.may_see, peer.send_soon)
        rows.watch(peer, watcher)
        peer.on_close(lambda: rows.unwatch(peer))
        peer.after_reply(watcher.open)
        return reply

    async def rename_session(self, peer: PeerConnection, request: ask.RenameSession, record: SessionRecord) -> Shape:
        return ask.RenameSession(await rename(self._sessions, record.session_id, request.title, peer.name))

    async def archive_session(self, peer: PeerConnection, request: ask.ArchiveSession, record: SessionRecord) -> Shape:
        wanted = request.archived
        return ask.ArchiveSession(await archive(self._sessions, record.session_id, peer.name, archived=wanted))

    async def attach_session(self, peer: PeerConnection, request: ask.AttachSession, record: SessionRecord) -> Shape:
        session_id = record.session_id
        await peer.roles.admit(session_id, request.attach_token)
        offered = request.options.endpoint if request.options else None
        _check_local(peer, offered)
        session = await self._open(session_id, offered, peer)
        # The log may end before the cursor: it was restored from a backup, or lost its end with the power.
        gap = not record.first_seq - 1 <= request.last_seen_seq <= record.last_seq
        cursor = request.last_seen_seq
        if gap:
            cursor = await self._announce_gap(record, session, request.last_seen_seq)
        last = await self._last_seq(session_id)
        if not peer.is_attached(session_id) and not self._host.has_observer_slot(session_id):
            raise ProtocolError("OVERLOADED", "too many clients are attached to this session", retryable=True)
        peer.attach(session_id, cursor)
        state = session.state if session is not None else record.state
        return ask.AttachSessionReply(session_id, state, Replay(cursor + 1, max(last, 1), True, gap))

    async def _open(self, session_id: str, offered: Endpoint | None, peer: PeerConnection) -> Session | None:
        """Open the session with the endpoint that the client offers: a run that needs its key does not have to wait."""
        if offered is None:
            return await self._open_if_possible(session_id, peer.name)
        peer.roles.require(session_id, "driver")
        recorded = self._host.models.keys.take(session_id, offered)
        session = await self._open_if_possible(session_id, peer.name)
        if session is not None:
            await adopt(session, offered, recorded, peer.name)
        return session

    async def fork_session(self, peer: PeerConnection, request: ask.ForkSession, record: SessionRecord) -> Shape:
        requested_with = peer.roles.token_of(record.session_id)
        user = peer.roles.user
        await self._host.admission.check_session(user)
        session, token = await fork_session(
            self._sessions, record.session_id, request.seq, peer.name, requested_with, user
        )
        self._host.models.keys.copy(record.session_id, session.session_id)
        await renew_key(session)
        peer.roles.drive(session.session_id)
        if requested_with is not None:
            await peer.roles.admit(session.session_id, token)
        return ask.ForkSessionReply(session.session_id, token)

    async def delete_session(self, peer: PeerConnection, _request: ask.DeleteSession, record: SessionRecord) -> Shape:
        if self._sessions.live(record.session_id) is None:
            await self._sessions.acquire(record.session_id)  # if another node has it, that one deletes everything
        children = await children_of(self._sessions, record.session_id)
        for session_id in (*children, record.session_id):  # before anything is deleted
            live = self._sessions.live(session_id)
            if live is not None:
                live.runs.check_idle(f"delete {session_id}")
        for session_id in children:
            try:
                await self._delete(session_id)
            except SessionElsewhere:
                elsewhere = self._sessions.services.elsewhere
                if elsewhere is None:
                    raise
                await elsewhere.ask(session_id, "delete_session", ask.DeleteSession(), peer.name)
        return ask.DeleteSessionReply(await self._delete(record.session_id))

    async def _delete(self, session_id: str) -> bool:
        deleted = await self._sessions.delete(session_id)
        await self._host.forget(session_id)
        return deleted

    async def prune_session(self, peer: PeerConnection, request: ask.PruneSession, session: Session) -> Shape:
        return ask.PruneSessionReply(await prune(session, request.before_seq, peer.name))

    async def _open_if_possible(self, session_id: str, by: str) -> Session | None:
        """The session where this process may write it; one that it cannot continue can still be read.

        Another process may drive it, its folder or its model may be gone, the disk may be full: none of that is a
        reason to hide its log.
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
        except LogError:
            return None
        return session

    async def _announce_gap(self, record: SessionRecord, session: Session | None, requested: int) -> int:
        """Record the gap and a snapshot; returns the cursor from which the client receives them."""
        cursor = await self._last_seq(record.session_id)
        if session is not None:
            await session.announce_gap(requested, record)
        else:
            await self._sessions.announce_gap(record, requested)
        return cursor

    async def _last_seq(self, session_id: str) -> int:
        return (await self._sessions.record(session_id)).last_seq


def _visible_to(peer: PeerConnection) -> tuple[str, ...] | None:
    return None if peer.roles.is_owner else peer.roles.sessions


def _check_local(peer: PeerConnection, endpoint: Endpoint | None) -> None:
    if endpoint is not None and not peer.is_local:
        raise ProtocolError("ATTACH_FORBIDDEN", "options.endpoint is accepted only on the owner's Unix socket")

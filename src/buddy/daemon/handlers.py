"""What each request does, in the words of the sessions. A request without a handler is answered as unsupported."""

import codecs
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from buddy.daemon.agents import Agents
from buddy.daemon.connection import Connection, Handlers
from buddy.errors import ProtocolError
from buddy.log.contract import Log, SessionRecord
from buddy.protocol import requests as ask
from buddy.protocol.codes import VERSION
from buddy.protocol.ids import is_id
from buddy.protocol.shapes import BudgetState, Replay, SessionSummary, Shape
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions, token_hash
from buddy.targets.choose import sandbox_levels

CAPABILITIES = (
    "stream_tokens",
    "approvals",
    "replay_attach",
    "headless",
    "multi_client",
    "crash_recovery",
    "acceptance",
    "read_events",
    "blobs",
    "queue",
    "steer",
    "prune",
    "fork",
    "tokens",
    "projects",
    "decisions",
    "grants_until",
)

MIN_PART = 4  # bytes: the longest character

AnyShape = TypeVar("AnyShape", bound=Shape)


class Host(Protocol):
    """What holds the connections and can be stopped."""

    def status(self) -> ask.DaemonStatusReply: ...

    def stop(self) -> None: ...

    def hang_up(self, token_hash: str) -> None: ...

    def trust(self, root: str, *, trusted: bool) -> str: ...

    def has_place(self, session_id: str) -> bool: ...

    @property
    def agents(self) -> Agents: ...

    async def forget(self, session_id: str) -> None: ...


class Requests:
    """The handlers, over what they act on."""

    def __init__(self, sessions: Sessions, log: Log, clock: Callable[[], int], host: Host) -> None:
        self._sessions = sessions
        self._log = log
        self._clock = clock
        self._host = host

    def handlers(self) -> Handlers:
        return {
            "hello": _typed(ask.Hello, self.hello),
            "ping": _typed(ask.Ping, self.ping),
            "start_session": _typed(ask.StartSession, self.start_session),
            "list_sessions": _typed(ask.ListSessions, self.list_sessions),
            "attach_session": _typed(ask.AttachSession, self.attach_session),
            "resume_session": _typed(ask.ResumeSession, self.attach_session),
            "send_user_message": _typed(ask.SendUserMessage, self.send_user_message),
            "submit_approval": _typed(ask.SubmitApproval, self.submit_approval),
            "cancel_run": _typed(ask.CancelRun, self.cancel_run),
            "set_approval_policy": _typed(ask.SetApprovalPolicy, self.set_approval_policy),
            "switch_model": _typed(ask.SwitchModel, self.switch_model),
            "compact_session": _typed(ask.CompactSession, self.compact_session),
            "get_snapshot": _typed(ask.GetSnapshot, self.get_snapshot),
            "read_events": _typed(ask.ReadEvents, self.read_events),
            "read_blob": _typed(ask.ReadBlob, self.read_blob),
            "list_approvals": _typed(ask.ListApprovals, self.list_approvals),
            "list_decisions": _typed(ask.ListDecisions, self.list_decisions),
            "steer_run": _typed(ask.SteerRun, self.steer_run),
            "queue_message": _typed(ask.QueueMessage, self.queue_message),
            "fork_session": _typed(ask.ForkSession, self.fork_session),
            "delete_session": _typed(ask.DeleteSession, self.delete_session),
            "prune_session": _typed(ask.PruneSession, self.prune_session),
            "mint_token": _typed(ask.MintToken, self.mint_token),
            "revoke_token": _typed(ask.RevokeToken, self.revoke_token),
            "list_tokens": _typed(ask.ListTokens, self.list_tokens),
            "trust_folder": _typed(ask.TrustFolder, self.trust_folder),
            "create_project": _typed(ask.CreateProject, self.create_project),
            "list_projects": _typed(ask.ListProjects, self.list_projects),
            "project_options": _typed(ask.ProjectOptions, self.project_options),
            "daemon_status": _typed(ask.DaemonStatus, self.daemon_status),
            "shutdown": _typed(ask.Shutdown, self.shutdown),
        }

    async def hello(self, peer: Connection, wish: ask.Hello, _: str) -> Shape:
        peer.introduce(wish.client_name)
        # Nothing is tried here: a client that only wants to say hello does not wait for proofs.
        held = sandbox_levels()
        return ask.HelloReply("buddyd", self._host.status().version, VERSION, CAPABILITIES, held)

    async def ping(self, _peer: Connection, _wish: ask.Ping, _: str) -> Shape:
        return ask.PingReply(True, self._clock())

    async def start_session(self, peer: Connection, wish: ask.StartSession, _: str) -> Shape:
        if not peer.trusted:
            raise ProtocolError("ATTACH_FORBIDDEN", "a session's token does not start others")
        _check_path(wish.repo.root_path)
        session, token = await self._sessions.start(wish)
        peer.grant(session.session_id, "driver")
        peer.attach(session.session_id, 0)
        return ask.StartSessionReply(session.session_id, session.state, token)

    async def list_sessions(self, peer: Connection, wish: ask.ListSessions, _: str) -> Shape:
        if peer.trusted:
            records = await self._log.newest(wish.limit, wish.root_path)
        else:
            records = await self._seen_by(peer, wish)
        return ask.ListSessionsReply(
            tuple(
                SessionSummary(
                    record.session_id,
                    record.state,
                    record.updated_at,
                    record.repo,
                    record.title,
                    record.mode,
                    record.last_seq,
                )
                for record in records
            )
        )

    async def _seen_by(self, peer: Connection, wish: ask.ListSessions) -> list[SessionRecord]:
        found = [await self._log.get(session_id) for session_id in peer.opened]
        records = [record for record in found if record and wish.root_path in (None, record.repo.root_path)]
        return sorted(records, key=lambda record: -record.updated_at)[: wish.limit]

    async def attach_session(self, peer: Connection, wish: ask.AttachSession, session_id: str) -> Shape:
        record = await self._sessions.record(session_id)
        await peer.admit(session_id, wish.attach_token)
        session = await self._opened(session_id, peer.name)
        gap = wish.last_seen_seq + 1 < record.first_seq
        cursor = min(wish.last_seen_seq, await self._last_seq(session_id))
        if gap and session is not None:
            cursor = await self._last_seq(session_id)
            await session.announce_gap(wish.last_seen_seq, record.first_seq)
        last = await self._last_seq(session_id)
        if not peer.is_attached(session_id) and not self._host.has_place(session_id):
            raise ProtocolError("OVERLOADED", "too many clients are attached to this session", retryable=True)
        peer.attach(session_id, cursor)
        state = session.state if session is not None else record.state
        return ask.AttachSessionReply(session_id, state, Replay(cursor + 1, max(last, 1), True, gap))

    async def send_user_message(self, peer: Connection, wish: ask.SendUserMessage, session_id: str) -> Shape:
        session = await self._driven(peer, session_id)
        if session.fold.run is None:
            self._sessions.admit_run()
        if not peer.is_attached(session_id) and self._host.has_place(session_id):
            peer.attach(session_id, await self._last_seq(session_id))
        return ask.SendUserMessageReply(await session.send(wish, peer.name), True)

    async def submit_approval(self, peer: Connection, wish: ask.SubmitApproval, session_id: str) -> Shape:
        await self._sessions.record(session_id)
        peer.require(session_id, "approver")
        await (await self._sessions.open(session_id)).submit_approval(wish, peer.name)
        return ask.AcceptedReply(True)

    async def cancel_run(self, peer: Connection, wish: ask.CancelRun, session_id: str) -> Shape:
        await (await self._driven(peer, session_id)).cancel(wish, peer.name)
        return ask.AcceptedReply(True)

    async def set_approval_policy(self, peer: Connection, wish: ask.SetApprovalPolicy, session_id: str) -> Shape:
        policy = await (await self._driven(peer, session_id)).set_policy(wish, peer.name)
        return ask.SetApprovalPolicyReply(policy.policy, policy.expires_at)

    async def switch_model(self, peer: Connection, wish: ask.SwitchModel, session_id: str) -> Shape:
        chosen = await (await self._driven(peer, session_id, wish)).switch_model(wish, peer.name)
        return ask.SwitchModelReply(chosen["profile"], chosen["model"], chosen["api"])

    async def compact_session(self, peer: Connection, wish: ask.CompactSession, session_id: str) -> Shape:
        return await (await self._driven(peer, session_id)).compact(peer.name, undo=wish.undo)

    async def get_snapshot(self, peer: Connection, _wish: ask.GetSnapshot, session_id: str) -> Shape:
        await self._sessions.record(session_id)
        peer.require(session_id, "observer")
        session = await self._sessions.open(session_id)
        shown = session.snapshot()
        return ask.GetSnapshotReply(
            state=shown.state,
            pending_approval=shown.pending_approval,
            meta=shown.meta,
            active_run_id=shown.active_run_id,
            last_assistant_text=shown.last_assistant_text,
            budget=_budget_of(session, self._clock()),
            context=session.fold.context,
            approvals=tuple(session.pending_approvals()),
        )

    async def read_events(self, peer: Connection, wish: ask.ReadEvents, session_id: str) -> Shape:
        record = await self._sessions.record(session_id)
        peer.require(session_id, "observer")
        events = await self._log.read(session_id, wish.after, wish.limit)
        return ask.ReadEventsReply(tuple(msgspec.Raw(event.line()[:-1]) for event in events), record.last_seq)

    async def read_blob(self, peer: Connection, wish: ask.ReadBlob, session_id: str) -> Shape:
        await self._sessions.record(session_id)
        peer.require(session_id, "observer")
        is_named = await self._log.has_blob(session_id, wish.blob)
        found = await self._log.read_blob(wish.blob, wish.offset, max(wish.limit, MIN_PART)) if is_named else None
        if found is None:
            raise ProtocolError("INVALID_REQUEST", f"no blob {wish.blob[:80]!r}")
        part, total = found
        # A character that is cut at the end is left for the next part: parts that are joined are the whole.
        is_last = wish.offset + len(part) >= total
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(part, is_last)
        return ask.ReadBlobReply(text, total)

    async def list_approvals(self, peer: Connection, _wish: ask.ListApprovals, _: str) -> Shape:
        if not peer.trusted:
            raise ProtocolError("ATTACH_FORBIDDEN", "only the owner may list all approvals")
        sessions = self._sessions.open_sessions
        return ask.ListApprovalsReply(tuple(found for session in sessions for found in session.pending_approvals()))

    async def list_decisions(self, peer: Connection, wish: ask.ListDecisions, _: str) -> Shape:
        if not peer.trusted:
            raise ProtocolError("ATTACH_FORBIDDEN", "only the owner may list all decisions")
        from buddy.approvals.audit import decisions_made

        return ask.ListDecisionsReply(tuple(await decisions_made(self._log, wish.limit, wish.session_id, wish.since)))

    async def steer_run(self, peer: Connection, wish: ask.SteerRun, session_id: str) -> Shape:
        await (await self._driven(peer, session_id)).steer(wish, peer.name)
        return ask.AcceptedReply(True)

    async def queue_message(self, peer: Connection, wish: ask.QueueMessage, session_id: str) -> Shape:
        return ask.QueueMessageReply(await (await self._driven(peer, session_id)).queue(wish, peer.name))

    async def fork_session(self, peer: Connection, wish: ask.ForkSession, session_id: str) -> Shape:
        # Not opened: a copy can be made of a session that another process runs.
        await self._sessions.record(session_id)
        peer.require(session_id, "driver")
        session, token = await self._sessions.fork(session_id, wish.seq, peer.name)
        peer.grant(session.session_id, "driver")
        return ask.ForkSessionReply(session.session_id, token)

    async def delete_session(self, peer: Connection, _wish: ask.DeleteSession, session_id: str) -> Shape:
        # Not opened: that would take up an interrupted run, and would need a model that may be gone.
        await self._sessions.record(session_id)
        peer.require(session_id, "driver")
        deleted = await self._sessions.delete(session_id)
        await self._host.forget(session_id)
        return ask.DeleteSessionReply(deleted)

    async def prune_session(self, peer: Connection, wish: ask.PruneSession, session_id: str) -> Shape:
        return ask.PruneSessionReply(await (await self._driven(peer, session_id)).prune(wish.before_seq))

    async def mint_token(self, peer: Connection, wish: ask.MintToken, session_id: str) -> Shape:
        await self._driven(peer, session_id)
        expires = None if wish.expires_in_seconds is None else self._clock() + int(wish.expires_in_seconds * 1000)
        return ask.MintTokenReply(await self._sessions.mint(session_id, wish.role, expires))

    async def revoke_token(self, peer: Connection, wish: ask.RevokeToken, session_id: str) -> Shape:
        await self._driven(peer, session_id)
        named = wish.attach_token
        if not is_id(named, "att"):
            named = next(
                (
                    known.token_hash
                    for known in await self._log.tokens(session_id)
                    if known.token_hash.startswith(named)
                ),
                "",
            )
        else:
            named = token_hash(named)
        revoked = await self._log.revoke(named)
        self._host.hang_up(named)
        return ask.RevokeTokenReply(revoked)

    async def list_tokens(self, peer: Connection, _wish: ask.ListTokens, session_id: str) -> Shape:
        await self._driven(peer, session_id)
        known = await self._log.tokens(session_id)
        return ask.ListTokensReply(
            tuple(ask.TokenInfo(token.token_hash[:16], token.role, token.expires_at) for token in known)
        )

    async def trust_folder(self, peer: Connection, wish: ask.TrustFolder, _: str) -> Shape:
        if not peer.trusted:
            raise ProtocolError("ATTACH_FORBIDDEN", "only the owner may trust a folder")
        _check_path(wish.root_path)
        return ask.TrustFolderReply(self._host.trust(wish.root_path, trusted=wish.trusted))

    async def create_project(self, peer: Connection, wish: ask.CreateProject, _: str) -> Shape:
        if not peer.trusted:
            raise ProtocolError("ATTACH_FORBIDDEN", "only the owner may create a project")
        _check_path(wish.root_path)
        project = self._host.agents.projects.create(wish.name, wish.root_path, wish.agent_runtime)
        return ask.CreateProjectReply(project.project_id)

    async def list_projects(self, peer: Connection, _wish: ask.ListProjects, _: str) -> Shape:
        if not peer.trusted:
            raise ProtocolError("ATTACH_FORBIDDEN", "only the owner may list projects")
        return ask.ListProjectsReply(tuple(map(msgspec.to_builtins, self._host.agents.projects.all())))

    async def project_options(self, _peer: Connection, _wish: ask.ProjectOptions, _: str) -> Shape:
        return ask.ProjectOptionsReply(self._host.agents.runtimes())

    async def daemon_status(self, _peer: Connection, _wish: ask.DaemonStatus, _: str) -> Shape:
        return self._host.status()

    async def shutdown(self, peer: Connection, _wish: ask.Shutdown, _: str) -> Shape:
        if not peer.trusted:
            raise ProtocolError("ATTACH_FORBIDDEN", "only the owner may stop the runtime")
        peer.after_reply(self._host.stop)
        return ask.AcceptedReply(True)

    async def _driven(self, peer: Connection, session_id: str, model: ask.SwitchModel | None = None) -> Session:
        await self._sessions.record(session_id)
        peer.require(session_id, "driver")
        return await self._sessions.open(session_id, model)

    async def _opened(self, session_id: str, by: str) -> Session | None:
        """The session where this process may write it; one that it cannot go on with can still be read.

        Another process may drive it, its folder or its model may be gone: none of that is a reason to hide its log.
        """
        was_live = self._sessions.live(session_id) is not None
        try:
            session = await self._sessions.open(session_id)
            if not was_live and not session.is_running:  # a run that goes on says so itself
                await session.resume(by)
        except ProtocolError as error:
            if error.code == "SESSION_NOT_FOUND":
                raise
            return None
        return session

    async def _last_seq(self, session_id: str) -> int:
        return (await self._sessions.record(session_id)).last_seq


def _typed(
    shape: type[AnyShape], handler: Callable[[Connection, AnyShape, str], Awaitable[Shape]]
) -> Callable[[Connection, Shape, str], Awaitable[Shape]]:
    def call(peer: Connection, payload: Shape, session_id: str) -> Awaitable[Shape]:
        if not isinstance(payload, shape):
            raise ProtocolError("INTERNAL_ERROR", "the payload has another type than its request")
        return handler(peer, payload, session_id)

    return call


def _check_path(path: str) -> None:
    if "\0" in path:
        raise ProtocolError("INVALID_REQUEST", "rootPath has a NUL in it")


def _budget_of(session: Session, now: int) -> BudgetState | None:
    run = session.fold.run
    if run is None:
        return None
    seconds = max(0.0, (now - run.started_ts) / 1000)
    return BudgetState(run.turns, run.tokens, run.tool_calls, seconds, run.options.budget, run.cost_usd)

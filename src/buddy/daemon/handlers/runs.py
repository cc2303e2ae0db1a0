"""Requests that drive a session: messages, decisions, policy, model, compaction."""

from contextlib import nullcontext

from msgspec.structs import replace

from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_record, on_session
from buddy.daemon.handlers.host import Host
from buddy.daemon.offered_endpoint import check_key, model_in_use
from buddy.daemon.uploads import Uploads
from buddy.errors import ProtocolError, SessionElsewhere
from buddy.log.contract import SessionRecord
from buddy.protocol import queue_requests as queue
from buddy.protocol import requests as ask
from buddy.protocol.grant_requests import ListGrants, ListGrantsReply, RevokeGrant
from buddy.protocol.question_requests import AnswerQuestion
from buddy.protocol.shapes import Attachment, Shape
from buddy.sessions.child_policy import check_not_wider, follow_policy
from buddy.sessions.compaction import compact
from buddy.sessions.grants import list_grants, revoke_grant
from buddy.sessions.model_switch import switch_model
from buddy.sessions.policy_change import set_policy
from buddy.sessions.runs import is_known
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions
from buddy.sessions.waiting import list_waiting, take_back


class RunRequests:
    def __init__(self, sessions: Sessions, host: Host, uploads: Uploads) -> None:
        self._sessions = sessions
        self._host = host
        self._uploads = uploads

    def handlers(self) -> Handlers:
        return {
            "send_user_message": on_session(ask.SendUserMessage, self.send_user_message),
            "queue_message": on_session(queue.QueueMessage, self.queue_message),
            "list_queue": on_record(queue.ListQueue, self.list_queue),
            "unqueue_message": on_session(queue.UnqueueMessage, self.unqueue_message),
            "steer_run": on_session(queue.SteerRun, self.steer_run),
            "cancel_run": on_session(ask.CancelRun, self.cancel_run),
            "submit_approval": on_session(ask.SubmitApproval, self.submit_approval),
            "answer_question": on_session(AnswerQuestion, self.answer_question),
            "set_approval_policy": on_session(ask.SetApprovalPolicy, self.set_approval_policy),
            "list_grants": on_session(ListGrants, self.list_grants),
            "revoke_grant": on_session(RevokeGrant, self.revoke_grant),
            "switch_model": on_record(ask.SwitchModel, self.switch_model),
            "compact_session": on_session(ask.CompactSession, self.compact_session),
        }

    async def send_user_message(self, peer: PeerConnection, request: ask.SendUserMessage, session: Session) -> Shape:
        session_id = session.session_id
        starts = await self._admit_message(session, request)
        attached = await self._attached(session, request.attachments)
        if not peer.is_attached(session_id):  # the limit on observers does not count drivers
            peer.attach(session_id, (await self._sessions.record(session_id)).last_seq)
        async with self._host.admission.run(session) if starts else nullcontext():
            request = replace(request, attachments=attached)
            return ask.SendUserMessageReply(await session.runs.send(request, peer.name), True)

    async def _admit_message(self, session: Session, message: ask.SendUserMessage | queue.QueueMessage) -> bool:
        """Whether a message starts a run at once; refused if that cannot be."""
        starts = session.fold.run is None and not is_known(session, message)
        if starts:
            await self._admit_run(session)
            check_key(session)
        return starts

    async def _admit_run(self, session: Session) -> None:
        """Refuse another run if there are too many; in a fleet, another node may have room for it."""
        fleet = self._host.fleet
        try:
            self._sessions.admit_run()
        except ProtocolError as error:
            if fleet is None or not await fleet.give_away(session):
                raise
            raise SessionElsewhere(error.code, error.message, retryable=True) from error

    async def queue_message(self, peer: PeerConnection, request: queue.QueueMessage, session: Session) -> Shape:
        await self._admit_message(session, request)
        request = replace(request, attachments=await self._attached(session, request.attachments))
        async with nullcontext() if is_known(session, request) else self._host.admission.run(session):
            return queue.QueueMessageReply(await session.runs.queue(request, peer.name))

    async def steer_run(self, peer: PeerConnection, request: queue.SteerRun, session: Session) -> Shape:
        request = replace(request, attachments=await self._attached(session, request.attachments))
        await session.runs.steer(request, peer.name)
        return ask.AcceptedReply(True)

    async def _attached(self, session: Session, given: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
        return await self._uploads.check(session.session_id, given) if given else ()

    async def cancel_run(self, peer: PeerConnection, request: ask.CancelRun, session: Session) -> Shape:
        return ask.CancelRunReply(True, await session.runs.cancel(request, peer.name))

    async def list_queue(self, _peer: PeerConnection, _request: queue.ListQueue, record: SessionRecord) -> Shape:
        return queue.ListQueueReply(await list_waiting(self._sessions, record))

    async def unqueue_message(self, _peer: PeerConnection, request: queue.UnqueueMessage, session: Session) -> Shape:
        found = await take_back(session, request.client_message_id)
        return queue.UnqueueMessageReply(found.text, found.attachments)

    async def submit_approval(self, peer: PeerConnection, request: ask.SubmitApproval, session: Session) -> Shape:
        if request.scope == "always":
            peer.roles.require_owner(session.session_id, "store a rule; use scope once, session or until")
        await session.submit_approval(request, peer.name)
        return ask.AcceptedReply(True)

    async def answer_question(self, peer: PeerConnection, request: AnswerQuestion, session: Session) -> Shape:
        await session.guard(session.questions.answer(request, peer.name))
        return ask.AcceptedReply(True)

    async def set_approval_policy(
        self, peer: PeerConnection, request: ask.SetApprovalPolicy, session: Session
    ) -> Shape:
        await check_not_wider(self._sessions, session, request)
        policy = await set_policy(session, request, peer.name)
        await follow_policy(self._sessions, session, request, peer.name)
        return ask.SetApprovalPolicyReply(policy.policy, policy.expires_at, session.fold.is_planning)

    async def list_grants(self, _peer: PeerConnection, _request: ListGrants, session: Session) -> Shape:
        return ListGrantsReply(tuple(await list_grants(session)))

    async def revoke_grant(self, peer: PeerConnection, request: RevokeGrant, session: Session) -> Shape:
        await revoke_grant(session, request, peer.name)
        return ask.AcceptedReply(True)

    async def switch_model(self, peer: PeerConnection, request: ask.SwitchModel, record: SessionRecord) -> Shape:
        session = await self._sessions.open(record.session_id, request)
        chosen = await switch_model(session, request, peer.name)
        used = model_in_use(session)
        return ask.SwitchModelReply(chosen.profile, chosen.model, chosen.api, used.base_url)

    async def compact_session(self, peer: PeerConnection, request: ask.CompactSession, session: Session) -> Shape:
        if not request.undo:  # which asks no model
            await self._host.admission.check_day(session.user)
        return await compact(session, peer.name, undo=request.undo)

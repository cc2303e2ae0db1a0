"""The session that a terminal is attached to: its state folded from events, and the requests that change it.

Invariants: the session is started by the first request that needs one, so looking around leaves nothing behind; events
of a session that was left are ignored.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct, convert
from msgspec.structs import replace

from buddy.client.client import Client
from buddy.client.image_paths import find_image_paths
from buddy.client.images import read_images, upload_images
from buddy.client.view import View
from buddy.errors import ProtocolError
from buddy.protocol.codes import Policy
from buddy.protocol.command_requests import CommandInfo, ListCommands, ListCommandsReply
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    CancelScheduled,
    ChildFinished,
    ChildStarted,
    EventBody,
    FilesRestored,
    HookFinished,
    Informational,
    ModelRequest,
    ModelSwitched,
    QuestionAnswered,
    QuestionAsked,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionCompacted,
    SessionForked,
    SessionStarted,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
)
from buddy.protocol.ids import Ulids
from buddy.protocol.queue_requests import (
    ListQueue,
    ListQueueReply,
    QueueMessage,
    QueueMessageReply,
    SteerRun,
    UnqueueMessage,
    UnqueueMessageReply,
)
from buddy.protocol.requests import (
    AcceptedReply,
    ForkSession,
    ForkSessionReply,
    SendUserMessage,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SubmitApproval,
)
from buddy.protocol.shapes import Attachment, ContextState, RunOptions, WaitingMessage
from buddy.terminal.approval_prompt import ApprovalAnswer
from buddy.terminal.phrases import PLAN_MODE, policy_text
from buddy.terminal.tool_outputs import ToolOutputs


class SessionAccess(Struct, frozen=True):
    """How sessions are started, found and read; the command line knows its flags and the log's layout."""

    start: Callable[[], Awaitable[str]]
    find: Callable[[str], Awaitable[str]]
    read_full: Callable[[Event], Awaitable[EventBody | None]]
    """The body of an event, including texts too long to be stored inline."""
    export: Callable[[str, str], Awaitable[int]]
    """Write the events of a session to a file; returns how many."""


class SessionFacts(Struct):
    """What the status shows, folded from events."""

    profile: str = ""
    model: str = ""
    target: str = "local"
    sandbox: str = "host"
    policy: str = "ask"
    policy_until: int | None = None
    policy_before: str = "ask"
    """The policy that is in force again once `policy_until` has passed."""
    context: ContextState | None = None
    root: str = ""
    watch: str = ""
    plan: bool = False
    """Whether the session only reads, whatever the policy."""

    started_with: str = ""
    """The policy that the session was started with."""

    @property
    def default_policy(self) -> Policy:
        """What a person returns to from plan mode or another policy; `auto` relies on a sandbox."""
        match self.started_with or self.policy:
            case "ask" | "auto" as policy:
                return policy
            case _:
                return "ask" if self.sandbox == "host" else "auto"

    def is_lenient(self, now: float) -> bool:
        """Whether everything is approved, so that the screen must say so loudly."""
        is_over = self.policy == "until" and (self.policy_until or 0) <= now * 1000
        policy = self.policy_before if is_over else self.policy
        return policy not in ("ask", "auto", "none") and not self.plan

    def set_policy(self, policy: str, until: int | None) -> None:
        self.policy, self.policy_until = policy, until
        if policy != "until":
            self.policy_before = policy

    def policy_text(self, now: float) -> str:
        """The policy in force, in words."""
        if self.plan:
            return PLAN_MODE
        return policy_text(self.policy, self.policy_until, now, self.policy_before)


class SentMessage(Struct, frozen=True):
    """What became of a message: the run it started, or its position in the queue."""

    run_id: str | None = None
    position: int = 0


class CurrentSession:
    def __init__(self, client: Client, access: SessionAccess, initial: SessionFacts) -> None:
        """`initial` is what a session started here will have."""
        self.client = client
        self.access = access
        self.initial = initial
        self.prepared: tuple[CommandInfo, ...] = ()
        self.session_id = ""
        self._starting = asyncio.Lock()
        self._clear()

    def _clear(self) -> None:
        self.view = View()
        self.replayed = 0
        self.messages: list[tuple[int, str]] = []
        """The user's messages, each with the seq of its event."""
        self.answer: Event | None = None
        """The last reply with a text."""
        self.outputs = ToolOutputs()
        self.last_sent = ""
        self.facts = replace(self.initial)
        self.queued: list[WaitingMessage] = []
        """Messages that no run has yet, as far as this terminal knows."""

    @property
    def active(self) -> str | None:
        return self.view.active

    @property
    def is_replaying(self) -> bool:
        return self.view.last_seq < self.replayed

    def apply(self, event: Event) -> bool:
        """Fold an event; False if it belongs to another session or was seen before. Sub-agents ask here, too."""
        if event.session_id != self.session_id:
            return bool(self.session_id) and self.view.apply_to_child(event.to_json())
        if not self.view.apply(event.to_json()):
            return False
        if self.view.is_after_gap:  # what was seen with a later seq may be lost, and what follows is new
            self.replayed = min(self.replayed, event.seq)
            self.messages = [message for message in self.messages if message[0] < event.seq]
        body = event.body()
        if body is not None:
            self._fold(event, body)
        return True

    def _fold(self, event: Event, body: EventBody) -> None:
        facts = self.facts
        match body:
            case SessionStarted():
                options = body.options
                facts.target = (options.target if options else None) or body.sandbox_provider
                facts.sandbox = (options.sandbox if options else None) or "host"
                policy, _, until = ((options.approval_policy if options else None) or "ask").partition(":")
                wall_clock = until.partition("/")[0]  # the rest is for the runtime's other clock
                facts.set_policy(policy, int(wall_clock) if wall_clock.isdecimal() else None)
                facts.started_with, facts.plan = policy, bool(options and options.plan)
                facts.root = body.repo.root_path if body.repo else facts.root
                facts.watch = body.watch or ""
            case RunStarted():
                facts.profile = body.options.profile or facts.profile
                facts.model = body.options.model or facts.model
                facts.target = body.options.target or facts.target
                facts.sandbox = body.options.sandbox or facts.sandbox
            case UserMessage():
                self.messages.append((event.seq, body.text))
                self.queued = [waiting for waiting in self.queued if waiting.client_message_id != body.message_id]
            case ModelSwitched():
                facts.profile = body.after.get("profile", facts.profile)
                facts.model = body.after.get("model", facts.model)
            case ApprovalPolicyChanged():
                facts.set_policy(body.policy, body.expires_at)
                facts.plan = facts.plan if body.plan is None else body.plan
            case Usage() | SessionCompacted():
                self._fill_context(body)
            case AssistantMessage():
                self.answer = event if body.text or body.blobs else self.answer
            case ToolResult():
                self.outputs.add(event)
            case (
                Informational()
                | AssistantToken()
                | ThinkingToken()
                | AssistantRestart()
                | ToolCall()
                | ToolClaimed()
                | ModelRequest()
                | ApprovalRequired()
                | ApprovalReceived()
                | ApprovalExpired()
                | RunCancelling()
                | CancelScheduled()
                | ChildStarted()
                | ChildFinished()
                | RunComplete()
                | AcceptanceResult()
                | QuestionAsked()
                | QuestionAnswered()
                | SessionForked()
                | FilesRestored()
                | HookFinished()
            ):
                pass

    def _fill_context(self, body: Usage | SessionCompacted) -> None:
        if isinstance(body, Usage):
            self.facts.context = body.context
        elif self.facts.context is not None:
            self.facts.context = ContextState(body.after_tokens, self.facts.context.limit)

    # --- requests ---------------------------------------------------------------------------------------------------

    async def ensure_started(self) -> str:
        """The session's id; starts a session if there is none yet."""
        async with self._starting:  # two requests at once must not start two
            if not self.session_id:
                self.session_id = await self.access.start()
        return self.session_id

    async def open(self, session_id: str) -> None:
        """Leave this session for another, whose events are all shown again."""
        self.client.forget(self.session_id)
        self.session_id = session_id
        self._clear()
        attached = await self.client.attach(session_id)
        self.replayed = attached.replay.to_seq

    def leave(self) -> None:
        """Leave this session; the next message starts a new one."""
        self.client.forget(self.session_id)
        self.session_id = ""
        self._clear()

    async def send(self, text: str, *, as_is: bool = False, is_typed: bool = True) -> SentMessage:
        """Send a message, or queue it behind the active run; as it is, only registered secrets are redacted.

        Images that a person names by their paths are sent with it.
        """
        session_id, message_id = await self.ensure_started(), Ulids()("msg")
        images = await self._attach(session_id, text) if is_typed else ()
        self.last_sent = text
        options = RunOptions(as_is=True) if as_is else None
        if self.active is None:
            try:
                message = SendUserMessage(session_id, message_id, text, options=options, attachments=images)
                return SentMessage(await self.client.send(message))
            except ProtocolError as error:
                if error.code != "RUN_IN_PROGRESS":
                    raise
        message = QueueMessage(message_id, text, as_is, images)
        queued = await self.client.request(message, QueueMessageReply, session_id)
        await self.refresh_queue()
        return SentMessage(position=queued.position)

    async def steer(self, text: str) -> None:
        if self.active is None:
            raise ProtocolError("NO_ACTIVE_RUN", "no run is active; just send the message")
        images = await self._attach(self.session_id, text)
        await self.client.request(SteerRun(self.active, text, attachments=images), AcceptedReply, self.session_id)
        await self.refresh_queue()

    async def _attach(self, session_id: str, text: str) -> tuple[Attachment, ...]:
        """The images that a message names, brought to the session."""
        paths = find_image_paths(text, str(Path.cwd()))
        if not paths:
            return ()
        images = await asyncio.to_thread(read_images, paths)
        found = await self.client.perform(upload_images(session_id, images))
        return convert(found, tuple[Attachment, ...])

    async def cancel(self, *, return_queue: bool = False) -> list[str]:
        """Cancel the active run; returns the texts that were waiting, if they are to be given back."""
        if self.active is None:
            return []
        returned = await self.client.cancel(self.session_id, self.active, return_queue=return_queue)
        self.queued = [] if return_queue else self.queued
        return [message.text for message in returned]

    async def refresh_queue(self) -> None:
        if self.session_id:
            reply = await self.client.request(ListQueue(), ListQueueReply, self.session_id)
            self.queued = list(reply.messages)

    async def list_commands(self) -> tuple[CommandInfo, ...]:
        """The commands and skills from files; none where they are not for this client to see."""
        with contextlib.suppress(ProtocolError):
            reply = await self.client.request(ListCommands(self.facts.root), ListCommandsReply)
            self.prepared = reply.commands
        return self.prepared

    async def take_back(self) -> str:
        """Remove the message that was queued last; returns its text."""
        message_id = self.queued.pop().client_message_id
        try:
            reply = await self.client.request(UnqueueMessage(message_id), UnqueueMessageReply, self.session_id)
        finally:
            await self.refresh_queue()
        return reply.text

    async def decide(self, approval_id: str, answer: ApprovalAnswer) -> None:
        session_id, run_id = self.view.place_of(approval_id)
        if run_id or self.active:
            await self.client.approve(
                SubmitApproval(
                    session_id or self.session_id,
                    run_id or self.active or "",
                    approval_id,
                    answer.decision,
                    answer.comment,
                    answer.scope,
                    duration_seconds=answer.seconds,
                )
            )

    async def set_policy(self, policy: SetApprovalPolicy) -> None:
        reply = await self.client.request(policy, SetApprovalPolicyReply, await self.ensure_started())
        # Its event may still be on its way, and the next key counts from here.
        self.facts.set_policy(reply.policy, reply.expires_at)
        self.facts.plan = reply.plan

    async def fork(self, seq: int) -> str:
        """Copy the session up to an event; returns the new session's id."""
        reply = await self.client.request(ForkSession(seq), ForkSessionReply, self.session_id)
        return reply.session_id

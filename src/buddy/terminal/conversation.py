"""One person's hold on a session: what was said and decided in it, and the requests that change it.

What always holds: the session is started with the first thing that needs one, so looking around leaves nothing behind;
events of a session that was left are not taken up.
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from buddy.client.client import Client
from buddy.client.view import View
from buddy.errors import ProtocolError
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    ApprovalPolicyChanged,
    EventBody,
    ModelSwitched,
    RunStarted,
    SessionStarted,
    Usage,
    UserMessage,
)
from buddy.protocol.ids import Ulids
from buddy.protocol.requests import (
    AcceptedReply,
    ForkSession,
    ForkSessionReply,
    QueueMessage,
    QueueMessageReply,
    SendUserMessage,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SteerRun,
    SubmitApproval,
)
from buddy.protocol.shapes import ContextState
from buddy.terminal.approve import Answer

CYCLE = {"ask": "all", "all": "none", "none": "ask", "until": "ask"}


class Around(Struct, frozen=True):
    """What the command gives its terminal: ways that lead beyond the protocol."""

    start: Callable[[Client], Awaitable[str]]
    find: Callable[[Client, str], Awaitable[str]]
    whole: Callable[[Client, Event], Awaitable[EventBody | None]]
    export: Callable[[Client, str, str], Awaitable[int]]
    seconds: Callable[[str], float | None]
    revive: Callable[[], Awaitable[None]]
    command: tuple[str, ...]
    flags: tuple[str, ...]
    root: str
    profiles: tuple[tuple[str, str], ...] = ()
    profile: str = ""
    model: str = ""
    target: str = "local"
    sandbox: str = "host"
    policy: str = "ask"
    version: str = ""
    show_tokens: bool = False
    show_tool_calls: bool = True
    describe: Callable[[str, bool], tuple[str, Sequence[str]]] = lambda _profile, _pane: ("", ())
    """Where a profile's model is, and the tools that it is offered, with or without a pane."""


class Facts(Struct):
    """What a status shows, folded from the events."""

    profile: str = ""
    model: str = ""
    target: str = "local"
    sandbox: str = "host"
    policy: str = "ask"
    policy_until: int | None = None
    context: ContextState | None = None
    root: str = ""
    watch: str = ""


class Said(Struct, frozen=True):
    """What became of a message: its run, or its place in the queue."""

    run_id: str | None = None
    position: int = 0


class Conversation:
    def __init__(self, client: Client, around: Around) -> None:
        self.client = client
        self.around = around
        self.session_id = ""
        self.begin()

    def begin(self) -> None:
        """Nothing said yet."""
        around = self.around
        self.view = View()
        self.replayed = 0
        self.said: list[tuple[int, str]] = []
        self.facts = Facts(
            around.profile, around.model, around.target, around.sandbox, policy=around.policy, root=around.root
        )

    @property
    def active(self) -> str | None:
        return self.view.active

    @property
    def is_replaying(self) -> bool:
        return self.view.last_seq < self.replayed

    def take(self, event: Event) -> bool:
        """Fold an event; False where it is not of this session, or known."""
        if event.session_id != self.session_id or not self.view.apply(event):
            return False
        body = event.body()
        if body is not None:
            self._note(event, body)
        return True

    def _note(self, event: Event, body: EventBody) -> None:
        facts = self.facts
        match body:
            case SessionStarted():
                options = body.options
                facts.target = (options.target if options else None) or body.sandbox_provider
                facts.sandbox = (options.sandbox if options else None) or "host"
                policy, _, until = ((options.approval_policy if options else None) or "ask").partition(":")
                facts.policy, facts.policy_until = policy, int(until) if until.isdecimal() else None
                facts.root = body.repo.root_path if body.repo else facts.root
                facts.watch = body.watch or ""
            case RunStarted():
                facts.profile = body.options.profile or facts.profile
                facts.model = body.options.model or facts.model
                facts.target = body.options.target or facts.target
                facts.sandbox = body.options.sandbox or facts.sandbox
            case UserMessage():
                self.said.append((event.seq, body.text))
            case ModelSwitched():
                facts.profile = body.after.get("profile", facts.profile)
                facts.model = body.after.get("model", facts.model)
            case ApprovalPolicyChanged():
                facts.policy, facts.policy_until = body.policy, body.expires_at
            case Usage():
                facts.context = body.context
            case _:
                pass

    # --- requests ---------------------------------------------------------------------------------------------------

    async def ensure(self) -> str:
        """The session, started where there is none yet."""
        if not self.session_id:
            self.session_id = await self.around.start(self.client)
        return self.session_id

    async def open(self, session_id: str) -> None:
        """Leave this session for another; everything in that one is shown again."""
        self.client.forget(self.session_id)
        self.session_id = session_id
        self.begin()
        attached = await self.client.attach(session_id)
        self.replayed = attached.replay.to_seq

    def leave(self) -> None:
        """A fresh session comes with the next message."""
        self.client.forget(self.session_id)
        self.session_id = ""
        self.begin()

    async def say(self, text: str) -> Said:
        """Send a message, or queue it behind the active run."""
        session_id, message_id = await self.ensure(), Ulids()("msg")
        if self.active is None:
            try:
                return Said(await self.client.send(SendUserMessage(session_id, message_id, text)))
            except ProtocolError as error:
                if error.code != "RUN_IN_PROGRESS":
                    raise
        queued = await self.client.request(QueueMessage(message_id, text), QueueMessageReply, session_id)
        return Said(position=queued.position)

    async def steer(self, text: str) -> None:
        if self.active is None:
            raise ProtocolError("NO_ACTIVE_RUN", "no run is active; just send the message")
        await self.client.request(SteerRun(self.active, text), AcceptedReply, self.session_id)

    async def cancel(self, reason: str = "user_cancelled") -> None:
        if self.active is not None:
            await self.client.cancel(self.session_id, self.active, reason)

    async def decide(self, approval_id: str, answer: Answer) -> None:
        if self.active is not None:
            await self.client.approve(
                SubmitApproval(
                    self.session_id,
                    self.active,
                    approval_id,
                    answer.decision,
                    answer.comment,
                    answer.scope,
                    duration_seconds=answer.seconds,
                )
            )

    async def set_policy(self, text: str) -> SetApprovalPolicyReply:
        """`ask`, `all`, `none`, or a duration for which nothing is asked."""
        match text:
            case "ask" | "all" | "none":
                wish = SetApprovalPolicy(text)
            case _:
                seconds = self.around.seconds(text)
                if seconds is None:
                    raise ProtocolError("INVALID_REQUEST", f"{text[:40]!r}: use ask, all, none or a duration like 10m")
                wish = SetApprovalPolicy("until", seconds)
        return await self.client.request(wish, SetApprovalPolicyReply, await self.ensure())

    async def fork(self, seq: int) -> str:
        """A new session with what was said up to here."""
        reply = await self.client.request(ForkSession(seq), ForkSessionReply, self.session_id)
        return reply.session_id

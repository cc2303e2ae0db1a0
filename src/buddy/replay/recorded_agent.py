"""Another agent that does again what it did.

Invariants: each of its events comes at the place of the recording where it made a difference; what our side makes of
an event by itself (a turn that begins, a message that is whole, a call that is closed) is not told, only caused.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

from buddy.approvals.permissions import ALWAYS
from buddy.approvals.questions import Question
from buddy.backends.contract import Run
from buddy.backends.external.adapter import AgentOptions, ExternalBackend
from buddy.backends.external.contract import (
    Agent,
    AgentEvent,
    AgentRequest,
    AgentResult,
    Completion,
    Delta,
    Failure,
    Message,
    Permission,
    PermissionAnswer,
    SessionLost,
    SystemNote,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UsageReport,
    once,
)
from buddy.backends.external.history import LOST, SESSION, STARTING
from buddy.backends.external.permission_bridge import PermissionBridge
from buddy.backends.runstate import CONTINUES
from buddy.protocol.codes import ApprovalKind, Tier
from buddy.protocol.events import (
    ApprovalReceived,
    ApprovalRequired,
    AssistantDone,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    Error,
    EventBody,
    ModelRequest,
    Progress,
    RunCancelling,
    RunComplete,
    Status,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolOutput,
    ToolResult,
    Usage,
    WarningRaised,
)
from buddy.protocol.intents import Intent, Other, recorded_intent
from buddy.replay.recorded_model import failure, names
from buddy.replay.recorded_tools import had_room
from buddy.replay.replay_cursor import ReplayCursor, wait_for_ever
from buddy.sessions.ending import is_closing
from buddy.targets.contract import Target

_CORRECTED = "the agent corrected itself"


class RecordedExternal(ExternalBackend):
    """The backend itself, with an agent that was recorded; what it is told of was recorded again."""

    def __init__(self, runtime: str, session_id: str, cursor: ReplayCursor, blobs: Mapping[str, bytes]) -> None:
        async def start_agent(target: Target, project: str) -> Agent:
            del target, project
            return RecordedAgent(runtime, cursor, blobs)

        model = names(cursor, switched=False)[1]
        super().__init__(
            runtime,
            session_id,
            start_agent,
            AgentOptions(model=model or None, reports_cost=True),
            lambda: had_room(cursor),
        )
        self._cursor = cursor

    def observe(self, seq: int, body: EventBody) -> None:
        super().observe(seq, body)
        self._cursor.advance(seq)

    def permission_bridge(self, run: Run) -> PermissionBridge:
        return _RecordedBridge(run, self.name, self._cursor)


class _Asked(Permission, frozen=True, kw_only=True, tag="permission"):
    """What was shown then."""

    intent: Intent


class _RecordedBridge(PermissionBridge):
    """Shows what was shown, and claims when it was claimed."""

    def __init__(self, run: Run, agent: str, cursor: ReplayCursor) -> None:
        super().__init__(run, agent, lambda: had_room(cursor))
        self._cursor = cursor

    async def _intent(self, asked: Permission) -> Intent:
        return asked.intent if isinstance(asked, _Asked) else await super()._intent(asked)

    async def _claim(self, question: Question) -> None:
        await self._wait_claim(question.call_id)
        await super()._claim(question)

    async def _wait_claim(self, call_id: str) -> None:
        for event, body in self._cursor.after(self._cursor.reached):
            if isinstance(body, ToolClaimed) and body.call_id == call_id:
                await self._cursor.wait_before(event.seq)
                return
            if isinstance(body, RunComplete):
                return


class RecordedAgent:
    """Satisfies `Agent`."""

    reports_cost = True
    is_available = True

    def __init__(self, name: str, cursor: ReplayCursor, blobs: Mapping[str, bytes]) -> None:
        self.name = name
        self._cursor = cursor
        self._blobs = blobs

    def check(self) -> None:
        """It was there."""

    async def start(self, target: Target, project: str) -> None:
        """It was started."""

    async def execute(self, request: AgentRequest) -> "RecordedExecutor":
        for event, body in self._cursor.after(self._cursor.reached):
            match body:
                case Status() if body.source == "delegate" and body.phase == SESSION:
                    return RecordedExecutor(body.detail or "", self._cursor, self._blobs)
                case WarningRaised() if body.code == LOST and request.session_id is not None:
                    raise SessionLost(body.detail or "")
                case Error():
                    await self._cursor.wait_before(event.seq)
                    raise failure(body)
                case ModelRequest():
                    break
                case RunCancelling() | RunComplete():
                    await wait_for_ever()
                case _:
                    pass
        return RecordedExecutor(request.session_id or "", self._cursor, self._blobs)

    async def execute_once(self, request: AgentRequest) -> AgentResult:
        return await once(self, request)

    async def ping(self) -> None:
        """It answered."""

    async def close(self) -> None:
        """Nothing to close."""


class RecordedExecutor:
    """Satisfies `Executor`."""

    def __init__(self, session_id: str, cursor: ReplayCursor, blobs: Mapping[str, bytes]) -> None:
        self.backend_session_id = session_id
        self.errors: deque[Exception] = deque()
        self.is_closed = False
        self._cursor = cursor
        self._blobs = blobs
        self._position = 0
        self._is_cancelled = False
        self._pending: set[str] = set()

    @property
    def done(self) -> asyncio.Event:
        """Set where it was started anew for what comes next."""
        gone = asyncio.Event()
        for _, body in self._cursor.after(self._cursor.reached):
            if isinstance(body, Status) and body.phase == STARTING:
                gone.set()
            if isinstance(body, ModelRequest | Status):
                break
        return gone

    async def send_message(self, text: str) -> None:
        del text
        self._position = self._cursor.reached
        self._is_cancelled = False

    async def cancel(self) -> None:
        self._is_cancelled = True

    async def wait(self) -> int:
        return 0

    async def close(self) -> None:
        self.is_closed = True

    async def events(self) -> AsyncIterator[AgentEvent]:
        if self._is_cancelled:
            yield Completion("cancelled")
            return
        if (first := self._beginning(self._position)) is not None:
            yield first
        for event, body in self._cursor.after(self._position):
            if event.seq <= self._position:
                continue
            self._position = event.seq
            told = self._told(event.seq, body)
            is_over = isinstance(told, Exception) or isinstance(body, RunCancelling | RunComplete)
            for lane in self._trailing(event.seq) if is_over else ():
                yield lane
            if told is not None:
                await self._cursor.wait_before(self._cause(event.seq))
                yield _raised(told)
            if is_over:
                break
        await wait_for_ever()

    def _cause(self, seq: int) -> int:
        """The first of the events that the one at `seq` came together with: they are its doing, too."""
        while (entry := self._cursor.at(seq - 1)) is not None and _is_caused(entry[1]):
            seq -= 1
        return seq

    def _told(self, seq: int, body: EventBody) -> AgentEvent | Exception | None:  # noqa: C901 - one arm per event
        match body:
            case AssistantToken():
                return Delta(body.text, self._message(seq))
            case ThinkingToken():
                return Delta(body.text, thinking=True)
            case ModelRequest():
                return self._beginning(seq)
            case AssistantRestart() if body.reason == _CORRECTED:
                return self._corrected(seq)
            case AssistantMessage() if body.finish != CONTINUES:
                return self._completion(seq, body)
            case ToolCall() if body.call_id is not None:
                return ToolStarted(body.call_id, body.tool_name, body.args)
            case ToolOutput():
                return ToolProgress(body.call_id, body.text)
            case ToolResult() if body.source == "delegate" and not _is_unknown(body) and not is_closing(body):
                return ToolEnded(body.call_id or "", self._whole(body), body.is_error)
            case ApprovalRequired() if body.call_id is not None:
                self._pending.add(body.approval_id)
                return self._asked(seq, body.call_id, body)
            case ApprovalReceived() if body.call_id is not None and body.approval_id not in self._pending:
                return self._asked(seq, body.call_id, None)
            case Usage():
                used = body.context.used
                return UsageReport(
                    body.input_tokens, body.output_tokens, body.cached_tokens, body.cost_usd, body.context.limit, used
                )
            case Status() if body.source == "delegate":
                return SystemNote(body.detail or "")
            case WarningRaised() if body.code == "BACKEND_ERROR":
                return Failure(body.message)
            case Error():
                return self._failed(seq, body)
            case RunComplete():
                return _ended(body)
            case _:
                return None

    # --- what it says -----------------------------------------------------------------------------------------------

    def _message(self, seq: int) -> str:
        """Pieces that became one message have one id."""
        found = self._cursor.next(AssistantMessage, seq)
        return found.message_id if found else ""

    def _beginning(self, seq: int) -> Delta | None:
        """A turn begins with the first piece of it, which may have been held back; a call says so by itself."""
        for _, body in self._cursor.after(seq):
            match body:
                case ToolCall():
                    return None
                case AssistantToken() | ThinkingToken():
                    return Delta("", self._message(seq), thinking=isinstance(body, ThinkingToken))
                case AssistantMessage() | RunComplete():
                    return Delta("", self._message(seq))
                case _:
                    pass
        return None

    def _corrected(self, seq: int) -> Message | None:
        entry = self._cursor.at(seq + 1)
        if entry is None or not isinstance(entry[1], AssistantToken):
            return None
        self._position = seq + 1
        return Message(entry[1].text, self._message(seq))

    def _completion(self, seq: int, body: AssistantMessage) -> Completion:
        match body.finish:
            case "error":
                error = self._cursor.next(Error, seq)
                return Completion("error", body.text, error.message if error else "")
            case "cancelled":
                return Completion("cancelled", body.text)
            case "truncated":
                return Completion("truncated", body.text)
            case _:
                return Completion("completed", body.text)

    def _failed(self, seq: int, body: Error) -> Completion | Exception:
        """It said that it failed, and what was open was closed; or it was gone, and nothing was."""
        before = self._cursor.at(seq - 1)
        if before is not None and isinstance(before[1], ToolResult) and _is_unknown(before[1]):
            return Completion("error", error=body.message)
        return failure(body)

    def _trailing(self, seq: int) -> list[Delta]:
        """Texts that only came out when the run ended: that there is such a text must be known before."""
        lanes: dict[bool, Delta] = {}
        for _, body in self._cursor.after(seq):
            if isinstance(body, RunComplete):
                break
            if isinstance(body, AssistantToken | ThinkingToken):
                thinking = isinstance(body, ThinkingToken)
                lanes[thinking] = Delta("", self._message(seq), thinking=thinking)
        return list(lanes.values())

    # --- what it does -----------------------------------------------------------------------------------------------

    def _whole(self, result: ToolResult) -> str:
        kept = self._blobs.get(result.output or "")
        return kept.decode(errors="replace") if kept is not None else result.text

    def _asked(self, seq: int, call_id: str, shown: ApprovalRequired | None) -> _Asked:
        name, args = self._call(seq, call_id)
        intent = Other(title=name, summary=name, shown={"digest": call_id})
        if shown is not None:
            details = {key: value for key, value in shown.details.items() if key not in (ALWAYS, "why")}
            intent = recorded_intent(shown.kind, shown.title, shown.summary, details)
        kind: ApprovalKind = "write" if self._tier(seq, call_id) == "side-effecting" else "tool"
        return _Asked(call_id, name, intent.kind if shown else kind, _hear, args=args, intent=intent)

    def _call(self, seq: int, call_id: str) -> tuple[str, dict[str, Any]]:
        while (entry := self._cursor.at(seq)) is not None:
            if isinstance(entry[1], ToolCall) and entry[1].call_id == call_id:
                return entry[1].tool_name, entry[1].args
            seq -= 1
        return "tool", {}

    def _tier(self, seq: int, call_id: str) -> Tier:
        for _, body in self._cursor.after(seq):
            if isinstance(body, ToolClaimed) and body.call_id == call_id:
                return body.tier
        return "privileged"


def _raised(told: AgentEvent | Exception) -> AgentEvent:
    if isinstance(told, Exception):
        raise told
    return told


async def _hear(answer: PermissionAnswer) -> None:
    """It was answered."""
    del answer


def _is_unknown(result: ToolResult) -> bool:
    return result.structured_error is not None and result.structured_error.type == "UNKNOWN_OUTCOME"


def _is_caused(body: EventBody | None) -> bool:
    match body:
        case Progress():
            return body.kind == "provider_call"
        case AssistantMessage():
            return body.finish == CONTINUES
        case ToolResult():
            return _is_unknown(body)
        case ModelRequest() | AssistantDone():
            return True
        case _:
            return False


def _ended(complete: RunComplete) -> AgentEvent | None:
    """What ended a run without leaving a trace of its own."""
    if complete.reason == "interrupted":
        return Completion("cancelled")
    if complete.reason == "budget_exceeded" and "seconds" not in complete.summary:
        return ToolStarted("one-too-many", "tool")
    return None

"""Which messages an external agent has received, and its session id: a fold of the session's events."""

from collections.abc import Sequence

from msgspec import Struct

from buddy.backends.external.shown_images import LEFT_OUT, images_of, note
from buddy.backends.hooks import render_context
from buddy.backends.restored import restored_note
from buddy.backends.runstate import OpenCall
from buddy.models.contract import Image
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
    Status,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
    WarningRaised,
    events_where,
)

LASTING = events_where(lambda facts: facts.lasts_for_agents)
SESSION = "backend session"
STARTING = "starting backend"
LOST = "BACKEND_SESSION_LOST"
MAX_CALL = 4000
MAX_REPLAYED = 24_000
"""How many characters of an earlier conversation a new agent session receives."""


class _Unsent(Struct, frozen=True):
    message_id: str
    text: str
    images: tuple[Image, ...] = ()


class History:
    def __init__(self) -> None:
        self.session_id: str | None = None
        self.starts = 0
        self._is_new_session = False
        self._unsent: list[_Unsent] = []
        self._current = _Unsent("", "")
        self._said: list[str] = []
        self.calls: set[str] = set()
        """The ids of all calls in the session so far."""

    def observe(self, body: EventBody) -> None:
        match body:
            case UserMessage():
                self._unsent.append(_Unsent(body.message_id, body.expanded or body.text, images_of(body.attachments)))
            case HookFinished() | FilesRestored():
                self._note(body)
            case ModelRequest():
                self._mark_sent()
            case AssistantMessage():
                if body.text:
                    self._remember(f"You: {body.text}")
            case Status() | WarningRaised() | SessionForked():
                self._take_report(body)
            case ToolCall():
                if body.call_id is not None:
                    self.calls.add(body.call_id)
            case (
                Informational()
                | SessionStarted()
                | ThinkingToken()
                | AssistantToken()
                | ToolResult()
                | ApprovalRequired()
                | ApprovalReceived()
                | RunComplete()
                | RunStarted()
                | RunCancelling()
                | CancelScheduled()
                | ChildStarted()
                | ChildFinished()
                | AssistantRestart()
                | ToolClaimed()
                | ApprovalExpired()
                | ApprovalPolicyChanged()
                | Usage()
                | ModelSwitched()
                | SessionCompacted()
                | AcceptanceResult()
                | QuestionAsked()
                | QuestionAnswered()
            ):
                pass  # nothing that the agent has to be sent

    def _take_report(self, report: Status | WarningRaised | SessionForked) -> None:
        """What the agent, or its connection, reported of itself; a copy of the session has none."""
        if isinstance(report, SessionForked):
            self._forget_session()
        elif isinstance(report, WarningRaised):
            if report.code == LOST:
                self._forget_session()
            elif report.code == LEFT_OUT:
                self._leave_out_images()
        elif report.source == "delegate" and report.phase == SESSION:
            self.session_id = report.detail
        elif report.source == "delegate" and report.phase == STARTING:
            self.starts += 1

    def _note(self, body: HookFinished | FilesRestored) -> None:
        if isinstance(body, FilesRestored):
            self._unsent.append(_Unsent("", restored_note(body).strip()))
        else:
            self._hook(body)

    def _hook(self, body: HookFinished) -> None:
        """What a hook adds goes with the next message; one that it refused is not sent."""
        if body.event == "UserPromptSubmit" and body.verdict == "deny":
            self._unsent = [one for one in self._unsent if one.message_id != body.message_id]
        elif body.context is not None and body.call_id is None:
            self._unsent.append(_Unsent("", render_context(body).strip()))

    @property
    def _unsent_text(self) -> str:
        return "\n\n".join(one.text for one in self._unsent if one.text)

    @property
    def _unsent_images(self) -> tuple[Image, ...]:
        return tuple(image for one in self._unsent for image in one.images)

    def message(self, *, interrupted: bool, held: Sequence[OpenCall] = ()) -> str:
        """The next message for the agent; `held` are calls that waited for a decision when it was interrupted."""
        text = self._unsent_text
        if interrupted:
            text = (
                "You were interrupted while working, and what was in progress may or may not have completed: "
                f"check before you repeat it, then continue. {_request_again(held)}"
                f"The task was:\n\n{self._current.text}\n\n{text}"
            ).rstrip()
        if self._is_new_session and self._said:
            earlier = "\n\n".join(self._said)[-MAX_REPLAYED:]
            text = f"This is your earlier conversation, from another session:\n\n{earlier}\n\n---\n\n{text}"
        return text

    def images(self, *, interrupted: bool) -> tuple[Image, ...]:
        """The images of the next message."""
        return (*self._current.images, *self._unsent_images) if interrupted else self._unsent_images

    def _mark_sent(self) -> None:
        """The unsent messages are now on their way."""
        if self._unsent:
            self._current = _Unsent("", self._unsent_text, self._unsent_images)
            shown = "".join(f" [{image.describe()}]" for image in self._current.images)
            self._remember(f"User: {self._current.text}{shown}")
        self._unsent = []
        self._is_new_session = False

    def _forget_session(self) -> None:
        self.session_id = None
        self._is_new_session = True

    def _leave_out_images(self) -> None:
        """The agent failed on the images of its message: it gets the text again, in a session without them."""
        notes = [note(image, "it was refused") for image in self._current.images]
        text = "\n\n".join(part for part in (self._current.text, *notes) if part)
        self._unsent.insert(0, _Unsent("", text))
        self._current = _Unsent("", "")
        if self._said:
            self._said.pop()  # the message that is sent again
        self._forget_session()

    def _remember(self, said: str) -> None:
        self._said.append(said)
        while len(self._said) > 1 and sum(map(len, self._said)) > MAX_REPLAYED:
            del self._said[0]


def _request_again(held: Sequence[OpenCall]) -> str:
    """A call that is made again as it was finds its question, and perhaps the decision, where it was."""
    if not held:
        return ""
    calls = "\n".join(f"{call.item.name} {call.item.arguments[:MAX_CALL]}" for call in held)
    return f"These calls waited for a decision and have not started; make them again, exactly as they were:\n{calls}\n"

"""What another agent has been told and what not, and which of its sessions it was: a fold of the session's events."""

from buddy.protocol.events import (
    AssistantMessage,
    EventBody,
    ModelRequest,
    SessionForked,
    Status,
    ToolCall,
    UserMessage,
)
from buddy.protocol.events import Warning as Warned

LASTING = frozenset(
    {"user_message", "model_request", "assistant_message", "status", "tool_call", "session_forked", "warning"}
)
"""The events from which something is left here when their run is over."""
SESSION = "backend session"
STARTING = "starting backend"
LOST = "BACKEND_SESSION_LOST"
TOLD_AGAIN = 24_000
"""How many characters of an earlier conversation an agent that does not know it is told."""


class History:
    def __init__(self) -> None:
        self.session_id: str | None = None
        self.starts = 0
        self._is_stranger = False
        self._unsent: list[str] = []
        self._current = ""
        self._said: list[str] = []
        self.calls: set[str] = set()
        """The ids of all calls of the session so far."""

    def observe(self, body: EventBody) -> None:
        match body:
            case UserMessage():
                self._unsent.append(body.text)
            case ModelRequest():
                self._told()
            case AssistantMessage() if body.text:
                self._remember(f"You: {body.text}")
            case Status() if body.source == "delegate" and body.phase == SESSION:
                self.session_id = body.detail
            case Status() if body.source == "delegate" and body.phase == STARTING:
                self.starts += 1
            case ToolCall() if body.call_id is not None:
                self.calls.add(body.call_id)
            case SessionForked():
                self._start_anew()
            case Warned() if body.code == LOST:
                self._start_anew()
            case _:
                pass

    def message(self, *, interrupted: bool) -> str:
        """What to tell it now."""
        text = "\n\n".join(self._unsent)
        if interrupted:
            text = (
                "You were interrupted in the middle of your work and what was under way may or may not have been done: "
                f"find out before you repeat it, then go on. The task was:\n\n{self._current}\n\n{text}"
            ).rstrip()
        if self._is_stranger and self._said:
            earlier = "\n\n".join(self._said)[-TOLD_AGAIN:]
            text = f"This conversation took place before, with another instance of you:\n\n{earlier}\n\n---\n\n{text}"
        return text

    def _told(self) -> None:
        """What was to be said is on its way."""
        if self._unsent:
            self._current = "\n\n".join(self._unsent)
            self._remember(f"User: {self._current}")
        self._unsent = []
        self._is_stranger = False

    def _start_anew(self) -> None:
        self.session_id = None
        self._is_stranger = True

    def _remember(self, said: str) -> None:
        self._said.append(said)
        while len(self._said) > 1 and sum(map(len, self._said)) > TOLD_AGAIN:
            del self._said[0]

"""Selects the texts to remember: of people, of the agent, and of tool results."""

from msgspec import Struct

from buddy.protocol.actors import RuntimeActor
from buddy.protocol.events import AssistantMessage, EventBody, ToolResult, UserMessage

REMEMBERED = frozenset({"user_message", "assistant_message", "tool_result"})
_RUNTIME = (RuntimeActor.ACCEPTANCE, RuntimeActor.HOOK)
LONGEST_TEXT = 64 * 1024


class SessionText(Struct, frozen=True):
    """A text of a session, before it is cut into chunks."""

    seq: int
    ts: int
    role: str
    text: str


def text_in(seq: int, ts: int, body: EventBody) -> SessionText | None:
    """The text that this event adds to memory; None for most."""
    match body:
        case UserMessage() if body.by not in _RUNTIME and not body.as_is:  # sent once, not for ever
            return SessionText(seq, ts, "user", body.text[:LONGEST_TEXT])
        case AssistantMessage() if body.text:
            return SessionText(seq, ts, "assistant", body.text[:LONGEST_TEXT])
        case ToolResult() if body.text and not body.is_error:
            return SessionText(seq, ts, f"tool {body.tool_name}", body.text[:LONGEST_TEXT])
        case _:
            return None


def project_of(root: str, user: str | None) -> str:
    """What recall is limited to: a folder, and where a daemon has several users, one user's sessions in it."""
    return root if user is None else f"{user}\0{root}"

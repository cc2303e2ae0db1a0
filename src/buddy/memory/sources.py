"""Which events are worth remembering, and as what: what people said, what the agent said, what tools gave."""

from msgspec import Struct

from buddy.protocol.actors import RuntimeActor
from buddy.protocol.events import AssistantMessage, EventBody, ToolResult, UserMessage

REMEMBERED = frozenset({"user_message", "assistant_message", "tool_result"})
LONGEST_TEXT = 64 * 1024


class Said(Struct, frozen=True):
    """A text of a session, before it is cut into chunks."""

    seq: int
    ts: int
    role: str
    text: str


def said_in(seq: int, ts: int, body: EventBody) -> Said | None:
    """What this event adds to memory; None for most."""
    match body:
        case UserMessage() if body.by != RuntimeActor.ACCEPTANCE:
            return Said(seq, ts, "user", body.text[:LONGEST_TEXT])
        case AssistantMessage() if body.text:
            return Said(seq, ts, "assistant", body.text[:LONGEST_TEXT])
        case ToolResult() if body.text and not body.is_error:
            return Said(seq, ts, f"tool {body.tool_name}", body.text[:LONGEST_TEXT])
        case _:
            return None

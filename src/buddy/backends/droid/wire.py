"""Droid's wire format: JSON-RPC, one message per line, parsed at the edge.

Invariants: invalid data is reported and never guessed at; unknown kinds of notification are ignored, as each version
adds new ones.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

API_VERSION = "1.0.0"
NOTIFICATION = "droid.session_notification"


class Problem(Struct, frozen=True):
    message: str = ""
    code: int = 0


class Envelope(Struct, frozen=True):
    """One line. Droid omits the `id` of some responses."""

    type: str
    id: str | int | None = None
    method: str = ""
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"{}")
    error: Problem | None = None


class SessionOpened(Struct, frozen=True, rename="camel"):
    """The response to `initialize_session` and, as far as it has these fields, to `load_session`."""

    session_id: str = ""
    token_usage: "TokenCounts | None" = None
    inclusive_token_usage: "TokenCounts | None" = None


class TokenCounts(Struct, frozen=True, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0


class ToolUse(Struct, frozen=True):
    id: str
    name: str
    input: dict[str, Any] = {}


class Block(Struct, frozen=True, rename="camel"):
    """A block of a message, of any type."""

    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] = {}
    tool_use_id: str = ""
    content: "str | list[Block]" = ""
    is_error: bool | None = None


class WireMessage(Struct, frozen=True):
    id: str
    role: str
    content: list[Block] = []
    visibility: str = ""


class CreateMessage(Struct, frozen=True, rename="camel", tag="create_message"):
    message: WireMessage
    request_id: str | None = None


class TextDelta(Struct, frozen=True, rename="camel", tag="assistant_text_delta"):
    message_id: str
    text_delta: str


class ThinkingDelta(Struct, frozen=True, rename="camel", tag="thinking_text_delta"):
    message_id: str
    text_delta: str


class ToolCalled(Struct, frozen=True, rename="camel", tag="tool_call"):
    tool_use: ToolUse


class Update(Struct, frozen=True, rename="camel"):
    full_output: str = ""


class ToolProgressed(Struct, frozen=True, rename="camel", tag="tool_progress_update"):
    tool_use_id: str
    update: Update = Update()
    tool_name: str = "tool"


class ToolReturned(Struct, frozen=True, rename="camel", tag="tool_result"):
    tool_use_id: str
    content: str | list[Block] = ""
    is_error: bool | None = None


class StateChanged(Struct, frozen=True, rename="camel", tag="droid_working_state_changed"):
    new_state: str


class TurnCompleted(Struct, frozen=True, rename="camel", tag="agent_turn_completed"):
    reason: str = "completed"
    turn_id: str = ""
    cumulative_token_usage: TokenCounts | None = None


class Failed(Struct, frozen=True, tag="error"):
    message: str = ""
    error: Problem | None = None


class UsageChanged(Struct, frozen=True, rename="camel", tag="session_token_usage_changed"):
    token_usage: TokenCounts
    session_id: str = ""
    inclusive_token_usage: TokenCounts | None = None
    last_call_token_usage: TokenCounts | None = None


class PermissionResolved(Struct, frozen=True, rename="camel", tag="permission_resolved"):
    request_id: str


class Retrying(Struct, frozen=True, tag="llm_retry"):
    attempt: int = 0
    reason: str = ""


Notification = (
    CreateMessage
    | TextDelta
    | ThinkingDelta
    | ToolCalled
    | ToolProgressed
    | ToolReturned
    | StateChanged
    | TurnCompleted
    | Failed
    | UsageChanged
    | PermissionResolved
    | Retrying
)


class Confirmation(Struct, frozen=True, rename="camel"):
    """One call that needs permission."""

    tool_use: ToolUse
    confirmation_type: str = ""
    details: dict[str, Any] = {}


class PermissionRequest(Struct, frozen=True, rename="camel"):
    tool_uses: list[Confirmation]


class Query(Struct, frozen=True):
    question: str = ""


class Questions(Struct, frozen=True):
    questions: list[Query] = []


class _NotificationParams(Struct, frozen=True, rename="camel"):
    notification: Raw
    session_id: str = ""


class _Kind(Struct, frozen=True):
    type: str


def read_notification(params: Raw, session_id: str) -> Notification | None:
    """None for a notification of another session or of an unknown kind."""
    envelope = msgspec.json.decode(params, type=_NotificationParams)
    if envelope.session_id not in ("", session_id):
        return None
    if msgspec.json.decode(envelope.notification, type=_Kind).type not in _KNOWN:
        return None
    return msgspec.json.decode(envelope.notification, type=Notification)


def request(request_id: str, method: str, params: Mapping[str, Any]) -> bytes:
    return _line({"type": "request", "id": request_id, "method": f"droid.{method}", "params": params})


def response(request_id: str | int | None, result: dict[str, Any]) -> bytes:
    return _line({"type": "response", "id": request_id, "result": result})


def refusal(request_id: str | int | None, method: str) -> bytes:
    problem = {"code": -32601, "message": f"unknown method {method}"}
    return _line({"type": "response", "id": request_id, "error": problem})


def plain(content: str | list[Block]) -> str:
    """The text of a tool's result."""
    return content if isinstance(content, str) else "\n".join(block.text for block in content if block.text)


def _line(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "factoryApiVersion": API_VERSION, **fields}) + b"\n"


_KNOWN = frozenset(str(kind.__struct_config__.tag) for kind in Notification.__args__)

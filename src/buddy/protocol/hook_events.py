"""The event that each hook leaves: what a person's script decided at a set point of a session."""

from typing import Any, Literal

from buddy.protocol.facts import EventFacts, Payload
from buddy.protocol.shapes import Count

HookEvent = Literal[
    "PreToolUse",
    "PostToolUse",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "PreCompact",
    "Notification",
    "PermissionRequest",
]
HookVerdict = Literal["none", "allow", "deny", "ask", "changed", "failed"]


class HookFinished(Payload, frozen=True, kw_only=True):
    """A hook ran. `verdict` is its effect: an `allow` that may not count is recorded as `none`.

    `input` are the arguments that replace those of the call, `context` is text for the model, `message` is text for
    the user. `stop`: the hook wants the run to end. `message_id` is the message that `UserPromptSubmit` is about.
    `again`: it was asked about input that another hook had changed.
    """

    facts = EventFacts(lasts=True, lasts_for_agents=True, copied=True)
    hook: str
    event: HookEvent
    verdict: HookVerdict
    duration_ms: Count
    call_id: str | None = None
    reason: str | None = None
    owner: Literal["user", "project"] | None = None
    input: dict[str, Any] | None = None
    context: str | None = None
    message: str | None = None
    message_id: str | None = None
    stop: bool = False
    again: bool = False

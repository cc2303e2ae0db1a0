"""What runs at the set points of a session, seen from below: the call of the hooks, and what they answered.

Invariants: hooks are scripts, run elsewhere; here, only what they left in the log has an effect, so that a recovered
run and a replay decide as the first one did.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from buddy.protocol.hook_events import HookEvent, HookFinished, HookVerdict
from buddy.protocol.intents import Intent

FAIL_CLOSED: tuple[HookEvent, ...] = ("PreToolUse", "PermissionRequest")
"""The events whose hooks guard something: without a verdict, the call needs a person."""
BLOCKED = "[A hook blocked this message; its text is not shown.]"
_STRICTNESS: tuple[HookVerdict, ...] = ("none", "allow", "changed", "ask", "failed", "deny")


class HookCall(Struct, frozen=True):
    """A set point that was reached. `tool` and `arguments` are ours; `fields` go to the scripts as they are.

    `matched` is what a matcher is compared with, if the event is not about a tool. `may_allow`: an `allow` counts;
    `may_change`: so does changed input. `again`: a hook, `changed_by`, has changed the input, and the others judge it.
    """

    event: HookEvent
    call_id: str | None = None
    tool: str = ""
    arguments: str = ""
    intent: Intent | None = None
    matched: str = ""
    message_id: str | None = None
    fields: Mapping[str, Any] = {}
    may_allow: bool = False
    may_change: bool = False
    again: bool = False
    changed_by: tuple[int, str] = (-1, "")
    """Its place among those that answered, and its name."""


class Hooks(Protocol):
    """The hooks of one session."""

    def watches(self, event: HookEvent) -> bool:
        """Whether any hook is defined for this event."""
        ...

    async def wait_ready(self) -> None:
        """Until a run may begin; a replay waits for what was recorded before it."""
        ...

    async def close(self) -> None:
        """Stop what runs in the background."""
        ...

    async def run(self, call: HookCall) -> tuple[HookFinished, ...]:
        """Run those that match, together; what each answered, in the order of their definition."""
        ...


class NoHooks:
    """Nothing is defined."""

    def watches(self, event: HookEvent) -> bool:
        del event
        return False

    async def wait_ready(self) -> None:
        return

    async def close(self) -> None:
        return

    async def run(self, call: HookCall) -> tuple[HookFinished, ...]:
        del call
        return ()


NO_HOOKS = NoHooks()


def strictest(finished: Iterable[HookFinished]) -> HookFinished | None:
    """The answer that decides; of equally strict ones, the first."""
    return max(finished, key=lambda one: _STRICTNESS.index(one.verdict), default=None)


def is_stricter(verdict: HookVerdict, than: HookVerdict) -> bool:
    return _STRICTNESS.index(verdict) > _STRICTNESS.index(than)


def render_context(finished: HookFinished) -> str:
    """What a hook adds to a message or a result, marked as its own."""
    text = (finished.context or "").replace("</hook-context", "<\\/hook-context")  # it cannot end its own block
    return f'\n\n<hook-context event="{finished.event}">\n{text}\n</hook-context>'


def explain(finished: HookFinished) -> str:
    """What a hook said, for the model and the user."""
    said = f": {finished.reason}" if finished.reason else ""
    if finished.verdict == "failed":
        return f"the hook {finished.hook} gave no verdict{said}"
    return f"the hook {finished.hook} {_VERBS.get(finished.verdict, 'answered')}{said}"


_VERBS: dict[HookVerdict, str] = {"deny": "refused", "ask": "wants a person to decide", "allow": "allowed it"}

"""What hooks have to say in the decision on a call: those before it, and those before a person is asked."""

from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.approvals.decide import Decision, Mode, may_allow, tighten
from buddy.approvals.questions import Opinion, Question
from buddy.backends.hooks import HookCall, explain, strictest
from buddy.backends.runstate import OpenCall
from buddy.protocol.actors import RuntimeActor
from buddy.sessions.hook_points import HookPoints

if TYPE_CHECKING:
    from buddy.approvals.permissions import Permissions


def judge(permissions: "Permissions", call: OpenCall, question: Question) -> Opinion:
    """What the rules say, and the hooks that have answered about the call."""
    return tighten(permissions.judge(question), call.hooked, call.hooked_why)


class AskedHooks(Struct, frozen=True):
    """The hooks for permission requests of one run."""

    hooks: HookPoints
    run_id: str
    mode: Mode

    async def decide(self, call: OpenCall, question: Question, opinion: Opinion) -> Decision | None:
        """What they decide, before a person is asked; None if they leave it open."""
        request = HookCall(
            "PermissionRequest",
            call.item.call_id,
            question.tool,
            call.arguments,
            question.intent,
            may_allow=may_allow(question, opinion),
        )
        said = strictest(await self.hooks.run(request, self.run_id))
        if said is not None and said.verdict == "failed" and self.mode.headless and not self.mode.attended:
            return Decision("deny", RuntimeActor.HOOK, explain(said))
        if said is None or said.verdict not in ("allow", "deny"):
            return None
        return Decision("approve" if said.verdict == "allow" else "deny", RuntimeActor.HOOK, explain(said))

"""The set points of a run: before and after a call, for each message of the user, before a compaction, at its end.

Invariants: hooks answer once about a call, and once more about input that one of them changed; what they answered
survives a restart; an answer that cannot be given effect is as strict as the one that could, or stricter.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from buddy.approvals.decide import may_allow
from buddy.approvals.questions import Opinion, Question
from buddy.backends.hooks import HookCall, explain, strictest
from buddy.backends.runstate import OpenCall
from buddy.errors import RunDenied
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.events import ToolResult, UserMessage, WarningRaised
from buddy.protocol.intents import Keys
from buddy.sessions.hook_points import WARNING, HookPoints

if TYPE_CHECKING:
    from buddy.backends.contract import Run

MAX_REFUSALS = 8
"""How often hooks may keep a run from ending."""


class RunHooks:
    def __init__(self, run: "Run", points: HookPoints) -> None:
        self._run = run
        self._points = points
        self._consulted: set[tuple[str, bool]] = set()
        self._screened: set[str] = set()

    async def before_call(self, call: OpenCall, question: Question, judge: Callable[[Question], Opinion]) -> str | None:
        """Have the hooks answer about a call; the arguments that they put in place of its own, if they did."""
        if not self._points.watches("PreToolUse"):
            return None
        again = call.changed is not None and not call.is_rechecked
        is_known = (question.digest, again) in self._consulted or call.digest == question.digest
        is_over = not call.is_delegate and (call.stage != "called" or (call.hooked is not None and not again))
        if is_known or is_over:
            return None
        self._consulted.add((question.digest, again))
        request = HookCall(
            "PreToolUse",
            question.call_id,
            question.tool,
            self._run.arguments_of(call),
            question.intent,
            may_allow=may_allow(question, judge(question)),
            may_change=not call.is_delegate and not isinstance(question.intent, Keys),
            again=again,
            changed_by=call.changed_by,
        )
        finished = await self._points.run(request, self._run.run_id)
        changes = [body.input for body in finished if body.input is not None]
        return msgspec.json.encode(changes[-1]).decode() if changes else None

    async def after_call(self, call: OpenCall, result: ToolResult) -> None:
        if result.outcome != "returned" or not self._points.watches("PostToolUse"):
            return
        response = {"text": result.text, "isError": result.is_error, "exitCode": result.exit_code}
        fields = {"tool_response": response, "duration_ms": result.duration_ms}
        name, call_id = call.item.name, call.item.call_id
        request = HookCall("PostToolUse", call_id, name, call.arguments, fields=fields)
        for said in await self._points.run(request, self._run.run_id):
            if said.stop:
                raise RunDenied(explain(said))

    async def screen_messages(self) -> None:
        """Have each message of the user checked before the model sees it."""
        await self._points.wait_started()
        for message_id, text in list(self._run.state.unscreened.items()):
            if message_id in self._screened:
                continue
            self._screened.add(message_id)
            call = HookCall("UserPromptSubmit", message_id=message_id, fields={"prompt": text})

            said = strictest(await self._points.run(call, self._run.run_id))
            if said is not None and (said.verdict == "deny" or said.stop):
                raise RunDenied(explain(said))

    async def is_kept_going(self) -> bool:
        """Whether a hook refuses the end of the run; its reason is the next message."""
        state = self._run.state
        if not state.answered or state.truncated:
            return False
        fields = {"stop_hook_active": state.stop_refusals > 0, "last_assistant_message": state.last_text}
        said = strictest(await self._points.run(HookCall("Stop", fields=fields), self._run.run_id))
        if said is None or said.verdict != "deny" or said.stop:
            return False
        if state.stop_refusals >= MAX_REFUSALS:
            message = f"the hook {said.hook} refused the end of this run {MAX_REFUSALS} times; it ends now"
            self._run.emit(WarningRaised(code=WARNING, message=message))
            return False
        number = state.stop_refusals + 1
        text = said.reason or "Continue."
        self._run.emit(UserMessage(message_id=f"{self._run.run_id}.stop{number}", text=text, by=RuntimeActor.HOOK))
        await self._run.commit()
        return True

    async def may_compact(self) -> bool:
        said = strictest(await self._points.run(compact_call("auto"), self._run.run_id))
        return said is None or said.verdict != "deny"


def compact_call(trigger: str) -> HookCall:
    return HookCall("PreCompact", matched=trigger, fields={"trigger": trigger, "custom_instructions": ""})

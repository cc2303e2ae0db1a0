"""Tools and rules as they were recorded: they answer what they answered then.

Invariants: nothing is run; each answer waits for its place in the recording, so that the order is the recorded one.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from buddy.approvals.permissions import ALWAYS, Permissions
from buddy.approvals.questions import Opinion, Question
from buddy.errors import ToolError
from buddy.protocol.actors import SESSION_GRANT, RuleActor, parse_actor
from buddy.protocol.codes import Source, Tier
from buddy.protocol.events import ApprovalRequired, ToolResult
from buddy.protocol.intents import Intent, Other, recorded_intent
from buddy.replay.recorded_calls import RecordedCall
from buddy.replay.replay_cursor import ReplayCursor, wait_for_ever
from buddy.tools.contract import Call, Output, Place
from buddy.tools.registry import Definition, Registry


class RecordedArgs(Struct, frozen=True):
    arguments: str


class RecordedTool:
    """Satisfies `Tool`."""

    description = "recorded"
    args: type[Struct] = RecordedArgs
    timeout: float | None = None

    def __init__(self, name: str, tier: Tier, source: Source, tools: "RecordedTools") -> None:
        self.name = name
        self.tier: Tier = tier
        self.source: Source = source
        self._tools = tools

    async def intent(self, args: RecordedArgs, place: Place) -> Intent:
        del place
        call = self._tools.open_call(self.name, args.arguments)
        asked = self._tools.question_about(call)
        if asked is None:
            return Other(title=self.name, summary=self.name, shown={"digest": call.digest if call else ""})
        return intent_of(asked)

    async def run(self, args: RecordedArgs, call: Call) -> Output:
        del args
        return await self._tools.answer(call)


class RecordedTools(Registry):
    """The tools of a recording; `blobs` has the texts that were stored separately."""

    def __init__(
        self,
        cursor: ReplayCursor,
        calls: Mapping[str, RecordedCall],
        tiers: Mapping[str, Tier],
        blobs: Mapping[str, bytes],
        specs: tuple[Definition, ...] = (),
    ) -> None:
        self._cursor = cursor
        self._calls = calls
        self._blobs = blobs
        self._recorded_specs = specs
        super().__init__(RecordedTool(name, tier, self._source_of(name), self) for name, tier in tiers.items())

    def get(self, name: str) -> Any:
        if name not in self._tools:
            named = (call.rejected for call in self._calls.values() if call.item.name == name)
            raise _error_of(next((result for result in named if result is not None), None))
        return super().get(name)

    def specs(self) -> tuple[Definition, ...]:
        """Those of the tools that the session had: the length of a prompt depends on them."""
        return self._recorded_specs

    def parse(self, tool: Any, arguments_json: str) -> Struct:
        call = self.open_call(tool.name, arguments_json)
        if call is not None and call.rejected is not None:
            raise _error_of(call.rejected)
        return RecordedArgs(arguments_json)

    def open_call(self, name: str, arguments: str) -> RecordedCall | None:
        """The first call with these arguments that has no result yet."""
        for call in self._calls.values():
            is_open = call.result is None or call.ready_at > self._cursor.reached
            if is_open and (call.item.name, call.item.arguments) == (name, arguments):
                return call
        return None

    def question_about(self, call: RecordedCall | None) -> ApprovalRequired | None:
        """What was asked about this call, or about one that would have done exactly the same."""
        if call is None or call.asked is not None:
            return call.asked if call else None
        same = (other.asked for other in self._calls.values() if other.digest == call.digest and call.digest)
        return next((asked for asked in same if asked is not None), None)

    async def answer(self, running: Call) -> Output:
        call = self._calls[running.call_id]
        shown = 0
        try:
            for seq, output in call.outputs:
                await self._cursor.wait_before(seq)
                shown += 1
                await running.on_output(output.stream, output.text.encode())
            if call.crash is not None:
                await self._cursor.wait_before(call.crash[0])
                raise RuntimeError(call.crash[1])
            if call.result is None or call.result.outcome == "closed":
                await wait_for_ever()
            await self._cursor.wait_before(call.ready_at)
        except asyncio.CancelledError:
            for _, output in call.outputs[shown:]:  # held back by the scrubber until the call was over
                await running.on_output(output.stream, output.text.encode())
            raise
        return self._output_of(call.result)

    def _output_of(self, result: ToolResult | None) -> Output:
        if result is None or result.outcome == "failed":
            raise _error_of(result)
        stored = self._blobs.get(result.output or "")
        text = stored.decode(errors="replace") if stored is not None else result.text
        kind = result.structured_error.type if result.structured_error else "UNKNOWN"
        return Output(text, result.exit_code, result.is_error, kind)

    def _source_of(self, name: str) -> Source:
        """As the first call said that could be prepared, or whose result knew it."""
        for call in self._calls.values():
            for event in (call.called, call.result):
                if call.item.name == name and event is not None and event.source != "unknown":
                    return event.source
        return "unknown"


def _error_of(result: ToolResult | None) -> ToolError:
    failure = result.structured_error if result else None
    if failure is None:
        return ToolError("no result was recorded")
    return ToolError(failure.message, code=failure.type, retryable=failure.retryable, detail=failure.detail)


def intent_of(asked: ApprovalRequired) -> Intent:
    """What was shown, without what the rules added to it."""
    details = {name: value for name, value in asked.details.items() if name not in (ALWAYS, "why")}
    return recorded_intent(asked.kind, asked.title, asked.summary, details)


class RecordedPermissions(Permissions):
    """Rules that decide as they did."""

    def __init__(self, root: str, calls: Mapping[str, RecordedCall]) -> None:
        super().__init__(root)
        self._calls = calls

    def judge(self, question: Question) -> Opinion:
        call = self._calls.get(question.call_id)
        decided = call.decided if call else None
        actor = parse_actor(decided.by) if decided is not None else None
        if decided is not None and isinstance(actor, RuleActor) and actor != SESSION_GRANT:
            decision = "allow" if decided.decision == "approve" else "deny"
            return Opinion(decision, decided.comment or "", actor.id)
        asked = call.asked if call else None
        return Opinion("ask", str(asked.details.get("why", ""))) if asked else Opinion(None, "")

    def offer(self, question: Question) -> dict[str, object]:
        call = self._calls.get(question.call_id)
        shown = call.asked.details.get(ALWAYS) if call and call.asked else None
        return {ALWAYS: shown} if shown is not None else {}

    def remember(self, approval: object) -> None:
        """The rule was stored then."""

    def grant(self, approval: object, expires_at: int) -> None:
        """What it allowed is recorded like what any other rule allowed."""

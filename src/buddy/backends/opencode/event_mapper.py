"""Maps the parts of OpenCode's messages to events, for one user message.

Invariants: a text is reported once, whether it arrives in pieces, grows, or arrives complete; after a gap in the
stream, a text in progress is reported only when it is complete, as its beginning is unknown; a call starts once and
ends once; a step is charged once.
"""

from typing import Any

from msgspec import Struct, field

from buddy.backends.external import lenient
from buddy.backends.external.contract import (
    AgentEvent,
    Delta,
    Failure,
    Message,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UsageReport,
)
from buddy.backends.opencode.wire import Json

EFFECTS = ("bash", "edit", "write", "apply_patch", "webfetch")
"""Tools that need permission; if one ran without, that is at least reported."""
INVALID = "invalid"
"""The tool that OpenCode calls instead of one that it does not have; it only says so."""
LONGEST = 500
Key = tuple[str, str]
"""A call: its message and its id there. The id alone is not unique."""


class TextPart(Struct):
    is_thinking: bool
    reported: str = ""
    has_gap: bool = False
    is_over: bool = False


class OpenCodeCall(Struct):
    call_id: str
    name: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    is_started: bool = False
    is_over: bool = False
    is_asked: bool = False
    output: str = ""


class OpenCodeEventMapper:
    def __init__(self) -> None:
        self.calls: dict[Key, OpenCodeCall] = {}
        self.last_text = ""
        self._texts: dict[str, TextPart] = {}
        self._paid: set[str] = set()

    def mark_gap(self) -> None:
        """Part of the stream was missed."""
        for text in self._texts.values():
            text.has_gap = True

    def part(self, part: Json, *, is_own: bool) -> list[AgentEvent]:
        """A part in its current state; the text of sub-agents is not reported."""
        match part.get("type"):
            case "text" | "reasoning" if is_own and not part.get("synthetic"):
                return self._text(part)
            case "tool":
                return self._tool(part)
            case "step-finish":
                return self._step(part)
            case _:
                return []

    def delta(self, body: Json) -> list[AgentEvent]:
        part_id, piece = lenient.text(body.get("partID")), lenient.text(body.get("delta"))
        text = self._texts.get(part_id)
        if text is None or text.has_gap or text.is_over or body.get("field") != "text" or not piece:
            return []
        text.reported += piece
        return [Delta(piece, part_id, text.is_thinking)]

    def _text(self, part: Json) -> list[AgentEvent]:
        part_id, complete = lenient.text(part.get("id")), lenient.text(part.get("text"))
        text = self._texts.setdefault(part_id, TextPart(part.get("type") == "reasoning"))
        if text.is_over:
            return []
        text.is_over = "end" in lenient.mapping(part.get("time"))
        before, text.reported = text.reported, complete
        if text.is_over and not text.is_thinking:
            self.last_text = complete or self.last_text
            return [Message(complete, part_id)] if complete else []
        if not complete.startswith(before):
            # Reported when it is complete.
            text.has_gap, text.reported = True, before
            return []
        return [Delta(complete[len(before) :], part_id, text.is_thinking)] if len(complete) > len(before) else []

    def _tool(self, part: Json) -> list[AgentEvent]:
        call, state = self._call(part), lenient.mapping(part.get("state"))
        status = state.get("status")
        if call.is_over or status not in ("running", "completed", "error"):
            return []
        events: list[AgentEvent] = []
        if not call.is_started:
            call.is_started, call.args = True, lenient.mapping(state.get("input"))
            events.append(ToolStarted(call.call_id, call.name, call.args))
        if status == "running":
            return events + self._progress(call, lenient.text(lenient.mapping(state.get("metadata")).get("output")))
        call.is_over = True
        failed = status == "error" or part.get("tool") == INVALID
        text = lenient.text(state.get("error" if status == "error" else "output"))
        events.append(ToolEnded(call.call_id, text, failed))
        if not failed and not call.is_asked and call.name in EFFECTS:
            events.append(Failure(f"OpenCode did this without asking: {call.name} {call.args}"[:LONGEST]))
        return events

    def _call(self, part: Json) -> OpenCodeCall:
        key = lenient.text(part.get("messageID")), lenient.text(part.get("callID"))
        if key not in self.calls:
            name = lenient.text(part.get("tool")) or "tool"
            self.calls[key] = OpenCodeCall(self.unused_id(key[1] or lenient.text(part.get("id"))), name)
        return self.calls[key]

    def unused_id(self, wanted: str) -> str:
        used, number = {call.call_id for call in self.calls.values()}, 1
        call_id = wanted
        while call_id in used:
            number += 1
            call_id = f"{wanted}.{number}"
        return call_id

    def _progress(self, call: OpenCodeCall, output: str) -> list[AgentEvent]:
        """`output` is the complete output so far, or only its end once it gets long."""
        fresh = output[len(call.output) :] if output.startswith(call.output) else ""
        call.output = output
        return [ToolProgress(call.call_id, fresh)] if fresh else []

    def _step(self, part: Json) -> list[AgentEvent]:
        part_id, tokens = lenient.text(part.get("id")), lenient.mapping(part.get("tokens"))
        if part_id in self._paid:
            return []
        self._paid.add(part_id)
        cache = lenient.mapping(tokens.get("cache"))
        cached = lenient.count(cache.get("read"))
        input_tokens = lenient.count(tokens.get("input")) + cached + lenient.count(cache.get("write"))
        output_tokens = lenient.count(tokens.get("output")) + lenient.count(tokens.get("reasoning"))
        cost = part.get("cost")
        # OpenCode reports 0 for a model without a price: the cost is unknown.
        paid = float(cost) if isinstance(cost, int | float) and cost > 0 else None
        return [UsageReport(input_tokens, output_tokens, cached, paid)] if input_tokens or output_tokens else []

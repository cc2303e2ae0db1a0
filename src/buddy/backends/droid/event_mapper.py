"""Maps Droid's notifications to the events common to all agents.

Invariants: each message, call and result is reported once, however often it arrives; a call is reported when all its
arguments are known; an id that a model gave to two calls becomes two ids; usage is reported as the difference.
"""

import re
from collections.abc import Iterator
from typing import Any

from buddy.backends.droid.wire import (
    Block,
    CreateMessage,
    Failed,
    Notification,
    PermissionResolved,
    Retrying,
    StateChanged,
    TextDelta,
    ThinkingDelta,
    TokenCounts,
    ToolCalled,
    ToolProgressed,
    ToolReturned,
    ToolUse,
    TurnCompleted,
    UsageChanged,
    plain,
)
from buddy.backends.external.contract import (
    AgentEvent,
    Delta,
    Failure,
    Message,
    SystemNote,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UsageReport,
)

_EXITED = re.compile(r"\[Process exited with code (\d+)\]\s*\Z")


class DroidCall:
    """A call of Droid's; `call_id` is ours."""

    def __init__(self, call_id: str, name: str, args: dict[str, Any]) -> None:
        self.call_id = call_id
        self.name = name
        self.args = args
        self.is_announced = False
        self.is_over = False
        self.shown = ""


class DroidEventMapper:
    def __init__(self) -> None:
        self.last_text = ""
        self.last_error = ""
        """Why its last attempt failed; empty again as soon as it makes progress."""
        self._calls: dict[str, DroidCall] = {}
        self._count = 0
        self._messages: set[str] = set()
        self._thinking: set[str] = set()
        self._spent = TokenCounts()

    def set_spent(self, spent: TokenCounts | None) -> None:
        """For a resumed session: the usage so far, which was already reported."""
        self._spent = spent or TokenCounts()

    def begin(self) -> None:
        """A new user message: earlier text does not answer it."""
        self.last_text = self.last_error = ""

    def map(self, note: Notification) -> Iterator[AgentEvent]:
        match note:
            case CreateMessage():
                yield from self._message(note)
            case TextDelta() | ThinkingDelta():
                yield from self._delta(note)
            case ToolCalled():
                self._note(note.tool_use)
            case ToolProgressed():
                yield from self._progress(note)
            case ToolReturned():
                yield from self._result(note.tool_use_id, plain(note.content), note.is_error)
            case UsageChanged() | TurnCompleted():
                yield from self._usage_of(note)
            case Failed():
                yield self._failure(note)
            case Retrying():
                yield SystemNote(f"retrying ({note.attempt}): {note.reason}")
            case StateChanged() | PermissionResolved():
                pass

    def announce(self, use: ToolUse) -> tuple[DroidCall, list[AgentEvent]]:
        """The call that Droid asks about, and the events to publish first."""
        call = self._begin(use)
        return call, list(self._announce_once(call))

    # --- what it says -----------------------------------------------------------------------------------------------

    def _message(self, note: CreateMessage) -> Iterator[AgentEvent]:
        message = note.message
        if message.id in self._messages:
            return
        self._messages.add(message.id)
        if message.role == "assistant":
            yield from self._content(message.id, message.content)
        for block in message.content:
            if block.type == "tool_use" and block.id:
                yield from self._announce_once(self._begin(ToolUse(block.id, block.name, block.input)))
            elif block.type == "tool_result":
                yield from self._result(block.tool_use_id, plain(block.content), block.is_error)

    def _delta(self, note: TextDelta | ThinkingDelta) -> Iterator[AgentEvent]:
        if note.message_id in self._messages:
            return
        if isinstance(note, ThinkingDelta):
            self._thinking.add(note.message_id)
        else:
            self.last_error = ""
        yield Delta(note.text_delta, note.message_id, thinking=isinstance(note, ThinkingDelta))

    def _failure(self, note: Failed) -> Failure:
        inner = note.error.message if note.error else ""
        self.last_error = note.message or inner or "it gave no reason"
        return Failure(self.last_error)

    def _content(self, message_id: str, content: list[Block]) -> Iterator[AgentEvent]:
        thoughts = "".join(block.thinking for block in content if block.type == "thinking")
        if thoughts and message_id not in self._thinking:
            yield Delta(thoughts, message_id, thinking=True)
        if text := "".join(block.text for block in content if block.type == "text"):
            self.last_text, self.last_error = text, ""
            yield Message(text, message_id)

    # --- what it does -----------------------------------------------------------------------------------------------

    def _note(self, use: ToolUse) -> None:
        """Its arguments are still arriving; remember what is known so far."""
        call = self._calls.get(use.id)
        if call is not None and not call.is_announced:
            call.name, call.args = use.name, use.input or call.args
        elif call is None:
            self._calls[use.id] = self._new(use)

    def _begin(self, use: ToolUse) -> DroidCall:
        call = self._calls.get(use.id)
        if call is None or call.is_over:
            call = self._calls[use.id] = self._new(use)
        elif not call.is_announced:
            call.name, call.args = use.name, use.input
        self.last_error = ""
        return call

    def _new(self, use: ToolUse) -> DroidCall:
        self._count += 1
        known = use.id in self._calls
        return DroidCall(f"{use.id}~{self._count}" if known else use.id, use.name, use.input)

    def _announce_once(self, call: DroidCall) -> Iterator[AgentEvent]:
        if not call.is_announced:
            call.is_announced = True
            yield ToolStarted(call.call_id, call.name, call.args)

    def _progress(self, note: ToolProgressed) -> Iterator[AgentEvent]:
        """Each update contains the complete output so far."""
        output = note.update.full_output
        call = self._calls.get(note.tool_use_id)
        if call is None or call.is_over or not output.startswith(call.shown) or output == call.shown:
            return
        yield from self._announce_once(call)
        yield ToolProgress(call.call_id, output[len(call.shown) :])
        call.shown = output

    def _result(self, tool_use_id: str, text: str, is_error: bool | None) -> Iterator[AgentEvent]:
        call = self._calls.setdefault(tool_use_id, DroidCall(tool_use_id, "tool", {}))
        if call.is_over:
            return
        yield from self._announce_once(call)
        call.is_over, call.args, call.shown = True, {}, ""  # only its id is needed from here on
        exited = _EXITED.search(text)
        failed = exited is not None and exited[1] != "0" if is_error is None else is_error
        yield ToolEnded(call.call_id, text, failed)

    # --- what it spends ---------------------------------------------------------------------------------------------

    def _usage_of(self, note: UsageChanged | TurnCompleted) -> Iterator[AgentEvent]:
        if isinstance(note, UsageChanged):
            yield from self._usage(note.inclusive_token_usage or note.token_usage, note.last_call_token_usage)
        elif note.cumulative_token_usage is not None:
            yield from self._usage(note.cumulative_token_usage, None)

    def _usage(self, total: TokenCounts, last: TokenCounts | None) -> Iterator[AgentEvent]:
        before = self._spent
        now = TokenCounts(
            max(total.input_tokens, before.input_tokens),
            max(total.output_tokens, before.output_tokens),
            max(total.cache_creation_tokens, before.cache_creation_tokens),
            max(total.cache_read_tokens, before.cache_read_tokens),
        )
        self._spent = now
        cached = now.cache_read_tokens - before.cache_read_tokens
        read = _read(now) - _read(before)
        written = now.output_tokens - before.output_tokens
        if read or written:
            used = _read(last) + last.output_tokens if last else None
            yield UsageReport(read, written, cached, context_used=used)


def _read(tokens: TokenCounts) -> int:
    """All input tokens; Droid's count excludes cached ones."""
    return tokens.input_tokens + tokens.cache_creation_tokens + tokens.cache_read_tokens

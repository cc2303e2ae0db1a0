"""The events of a session as the updates that an editor shows.

Invariants: text that was streamed is not sent again when its message is complete; a call is announced before anything
else is said of it; a to-do list is the plan, and no call.
"""

from msgspec import Struct

from buddy.editor.json_rpc import Json
from buddy.editor.tool_calls import TODO, CallView, clear, plan_of, view_of
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    Error,
    EventBody,
    FilesRestored,
    Recovery,
    SessionCompacted,
    SessionRenamed,
    SessionStarted,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolOutput,
    ToolResult,
    Usage,
    UserMessage,
    WarningRaised,
)
from buddy.protocol.titles import title_of


class Display(Struct, frozen=True):
    """What the editor can show."""

    terminals: bool = False
    notices: bool = False


class Updates:
    def __init__(self, display: Display) -> None:
        self.calls: dict[str, CallView] = {}
        self.unsent: set[str] = set()
        """The calls with output that was not sent yet."""
        self.root = ""
        self._display = display
        self._plans: dict[str, Json | None] = {}
        self._streamed = ""  # the id under which the current reply is being sent
        self._cost = 0.0
        self._has_title = False

    def of(self, event: Event, body: EventBody, *, own: bool) -> list[Json]:
        """`own`: the editor has sent this message itself, and shows it already."""
        match body:
            case SessionStarted():
                self.root = body.repo.root_path if body.repo else ""
                return []
            case UserMessage():
                return self._of_message(body, own=own)
            case AssistantToken() | ThinkingToken():
                return [self._stream(event, body)]
            case AssistantMessage():
                return self._end_reply(body)
            case AssistantRestart():
                was_streaming, self._streamed = self._streamed, ""
                return [self.note(f"The reply was lost ({body.reason}) and starts again.")] if was_streaming else []
            case ToolCall() | ToolClaimed() | ToolOutput() | ToolResult():
                return self._of_call(event, body)
            case Usage():
                return [self._usage(body)]
            case SessionRenamed():
                self._has_title = True
                return [{"sessionUpdate": "session_info_update", "title": body.title}]
            case WarningRaised() | Error() | Recovery() | SessionCompacted() | FilesRestored():
                return self._of_notice(body)
            case _:  # the rest changes settings or asks something, or is of no interest to a reader
                return []

    def _of_message(self, body: UserMessage, *, own: bool) -> list[Json]:
        """The message, unless the editor shows it already; the first one is also the title."""
        updates: list[Json] = []
        if not own:
            names = [f"\n[image {one.name or one.blob[:12]}]" for one in body.attachments]
            updates.append(chunk("user_message_chunk", "".join((body.text, *names)), body.message_id))
        title = "" if self._has_title else title_of(body.text or next((one.name for one in body.attachments), ""))
        if title:
            self._has_title = True
            updates.append({"sessionUpdate": "session_info_update", "title": title})
        return updates

    def note(self, text: str, severity: str = "info") -> Json:
        """Something that Buddy itself has to say."""
        if self._display.notices:
            return {"sessionUpdate": "notice", "severity": severity, "title": clear(text)}
        return chunk("agent_thought_chunk", f"{clear(text)}\n")

    def flush(self) -> list[Json]:
        """The output of calls that was not sent yet."""
        views = [self.calls[call_id] for call_id in self.unsent if call_id in self.calls]
        self.unsent.clear()
        return [view.update(content=view.shown()) for view in views]

    def _stream(self, event: Event, body: AssistantToken | ThinkingToken) -> Json:
        self._streamed = self._streamed or f"{event.run_id}-{event.seq}"
        kind = "agent_message_chunk" if isinstance(body, AssistantToken) else "agent_thought_chunk"
        return chunk(kind, body.text, self._streamed)

    def _end_reply(self, body: AssistantMessage) -> list[Json]:
        was_streamed, self._streamed = bool(self._streamed), ""
        return [chunk("agent_message_chunk", body.text, body.message_id)] if body.text and not was_streamed else []

    def _of_call(self, event: Event, body: ToolCall | ToolClaimed | ToolOutput | ToolResult) -> list[Json]:
        call_id = body.call_id or f"call-{event.seq}"
        match body:
            case ToolCall() if body.tool_name == TODO:
                self._plans[call_id] = plan_of(body.args)
                return []
            case ToolCall():
                view = view_of(body, call_id, self.root, has_terminals=self._display.terminals)
                self.calls[call_id] = view
                return [view.announce()]
            case ToolClaimed():
                view = self.calls.get(call_id)
                return [view.update(status="in_progress")] if view is not None else []
            case ToolOutput():
                return self._add_output(body)
            case ToolResult():
                return self._end_call(call_id, body)

    def _add_output(self, body: ToolOutput) -> list[Json]:
        view = self.calls.get(body.call_id)
        if view is None:
            return []
        update = view.add_output(body.text)
        if update is None:
            self.unsent.add(body.call_id)
        return [update] if update else []

    def _end_call(self, call_id: str, body: ToolResult) -> list[Json]:
        self.unsent.discard(call_id)
        if call_id in self._plans:
            plan = self._plans.pop(call_id)
            return [plan] if plan is not None and not body.is_error else []
        view = self.calls.pop(call_id, None)
        return [view.finish(body)] if view is not None else []

    def _usage(self, body: Usage) -> Json:
        update: Json = {"sessionUpdate": "usage_update", "used": body.context.used, "size": body.context.limit}
        if body.cost_usd is not None:
            self._cost += body.cost_usd
            update["cost"] = {"amount": self._cost, "currency": "USD"}
        return update

    def _of_notice(self, body: WarningRaised | Error | Recovery | SessionCompacted | FilesRestored) -> list[Json]:
        match body:
            case WarningRaised():
                return [self.note(body.message, "warning")]
            case Error():
                return [self.note(body.message, "error")]
            case Recovery():
                return [self.note(body.message, "warning")] if body.message else []
            case SessionCompacted():
                return [self.note(f"The history was compacted: {body.before_tokens} → {body.after_tokens} tokens.")]
            case FilesRestored():
                return [self.note(f"Changes of {len(body.files)} files were undone.")]


def chunk(kind: str, text: str, message_id: str | None = None) -> Json:
    update: Json = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return {**update, "messageId": message_id} if message_id else update

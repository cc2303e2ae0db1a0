"""Events in, finished blocks out, plus the few lines that are still changing.

Invariants: a block is written once, when it is complete; what is still changing stays small, however much streams in;
tokens of a replayed log are not shown twice.
"""

from collections.abc import Awaitable, Callable

from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    INTERRUPTED,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    CancelScheduled,
    Error,
    EventBody,
    Progress,
    QuestionAsked,
    RunCancelling,
    RunComplete,
    RunStarted,
    ThinkingToken,
    ToolCall,
    ToolOutput,
    ToolResult,
    Usage,
    UserMessage,
)
from buddy.terminal.activity_line import ActivityLine
from buddy.terminal.blocks import event_block, outcome_block, thought_block
from buddy.terminal.current_session import CurrentSession
from buddy.terminal.escape import escape
from buddy.terminal.markdown import Markdown
from buddy.terminal.phrases import format_tokens
from buddy.terminal.question_text import answer_form, question_lines
from buddy.terminal.settings import DisplayOptions
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut, wrap_words

BUFFERED_OUTPUT = 2000
OUTPUT_LINES = 3

ReadFull = Callable[[Event], Awaitable[EventBody | None]]


class EventRenderer:
    def __init__(
        self,
        session: CurrentSession,
        display: DisplayOptions,
        style: Style,
        columns: Callable[[], int],
        write: Callable[[str], None],
        answer: Callable[[str], None] | None = None,
        fold: Callable[[str], str] = str,
    ) -> None:
        """`write` receives finished blocks; with `answer`, the model's replies go there instead, unrendered.

        `fold` wraps what is not a reply, which is wrapped already, or is code.
        """
        self._session = session
        self._display = display
        self._style = style
        self._columns = columns
        self._write = write
        self._answer = answer
        self._fold = fold
        self.activity = ActivityLine(style)
        self.reset()

    def reset(self) -> None:
        self._markdown = Markdown(self._style, self._columns)
        self._held = ""
        self._thought = ""
        self._output = ""
        self._has_streamed = False
        self._call: ToolCall | None = None
        self._denied: set[str] = set()
        self._failure = ""
        self._deferred: list[str] = []
        self._has_written = False

    async def render(self, event: Event, read_full: ReadFull) -> None:
        """Show an event that the session has folded."""
        body = event.body()
        self._flush_call(body)
        match body:
            case None:
                return
            case ToolCall():
                self._call = body
            case AssistantToken():
                self._stream(body.text)
            case ThinkingToken():
                self._thought += body.text
            case AssistantRestart():
                if self._has_streamed:
                    self._block(self._style.dim(f"  ↻ Reply interrupted ({escape(body.reason)}); asking again"))
                self._end_reply()
            case AssistantMessage():
                full = await read_full(event) if body.blobs and not self._has_streamed else body
                self._finish_reply(full if isinstance(full, AssistantMessage) else body)
            case ToolOutput():
                self._output = (self._output + body.text)[-BUFFERED_OUTPUT:]
            case _:
                self._other(event, body)

    def tail(self, columns: int, rows: int) -> list[str]:
        """What is still changing: the end of the paragraph, the thought or the output."""
        most = max(2, rows // 3)
        pending = self._markdown.pending
        lines = self._dim_tail(self._thought, "✻ ", columns)
        if pending and self._answer is None:
            lines += list(wrap_words(escape(pending[-columns * most :]), columns - 1))[-most:]
        return lines or self._dim_tail(self._output, "    ", columns)

    def _dim_tail(self, text: str, sign: str, columns: int) -> list[str]:
        lines = [line for line in escape(text).rstrip("\n").split("\n") if line.strip()][-OUTPUT_LINES:]
        return [self._style.dim(cut(f"{sign}{line}", columns - 1)) for line in lines]

    def _stream(self, text: str) -> None:
        if self._session.is_replaying or self._answer is not None:
            self._held += text
            return
        self._end_thought()
        text, self._held = self._held + text, ""
        self._has_streamed = True
        for block in self._markdown.feed(text):
            self._reply_block(block)

    def _finish_reply(self, body: AssistantMessage) -> None:
        self._end_thought()
        if self._answer is not None:
            if body.text:
                self._answer(body.text)
        else:
            for block in self._markdown.finish() if self._has_streamed else self._markdown_blocks(body.text):
                self._reply_block(block)
        if body.truncated and body.finish != INTERRUPTED:
            self._block(self._style.yellow("  ! Reply truncated"))
        self._end_reply()

    def _markdown_blocks(self, text: str) -> list[str]:
        self._markdown.reset()
        return [*self._markdown.feed(text), *self._markdown.finish()]

    def _other(self, event: Event, body: EventBody) -> None:
        self._update_activity(event, body)
        match body:
            case Usage() if self._display.show_tokens:
                text = f"  {format_tokens(body.input_tokens)} tokens in, {format_tokens(body.output_tokens)} out"
                self._block(self._style.dim(text))
            case ApprovalReceived(decision="deny", call_id=str(call_id)):
                self._denied.add(call_id)
            case RunComplete():
                self._cut_off()
                run = self._session.view.runs[body.run_id]
                self._block(outcome_block(body, run, self._style, self._failure), apart=True)
            case QuestionAsked():
                self._block(self._question(event), apart=True)
            case Error():
                self._failure = body.message
            case ToolResult():
                self._output = ""
                # The result of a denied call only repeats the denial to the model.
                if body.call_id in self._denied or not self._display.show_tool_calls:
                    return
            case _:
                pass
        self._note(event, body)

    def _question(self, event: Event) -> str:
        found = event.to_json()
        if found["type"] != "question_asked":
            return ""
        asked, style = found["payload"], self._style
        first, *more = question_lines(asked)
        how = "/answer, once you have opened it" if asked["mode"] == "url" else f"/answer {answer_form(asked)}".rstrip()
        return "\n".join([style.yellow(first), *more, style.dim(f"  {how} · /decline")])

    def _update_activity(self, event: Event, body: EventBody) -> None:
        match body:
            case RunStarted():
                self.activity.start_run(event.ts)
            case Progress():
                self.activity.update(body, event.ts)
            case ApprovalReceived():
                self.activity.restart_step(event.ts)
            case RunCancelling():
                self.activity.stop_run()
            case CancelScheduled():
                self.activity.set_deadline(body.at / 1000)
            case RunComplete():
                self.activity.end_run()
            case _:
                pass

    def _note(self, event: Event, body: EventBody) -> None:
        block = event_block(body, self._style, ts=event.ts)
        if block is not None and isinstance(body, (RunCancelling, Error)) and (self._has_streamed or self._held):
            self._deferred.append(block)
        elif block is not None:
            self._block(block, apart=isinstance(body, UserMessage))

    def _flush_call(self, body: EventBody | None) -> None:
        """Show a call with the event after it: if that asks for approval, the prompt shows the call in full."""
        call = self._call
        if call is None or body is None or isinstance(body, (Progress, Usage)):
            return
        self._call = None
        if not self._display.show_tool_calls:
            return
        if not isinstance(body, ApprovalRequired) or self._session.is_replaying:
            self._block(event_block(call, self._style) or "", apart=True)

    def _end_thought(self) -> None:
        thought, self._thought = self._thought.strip(), ""
        if thought:
            self._block(thought_block(thought, self._style), apart=True)

    def _cut_off(self) -> None:
        """Keep on the screen what was read of a reply that will never be complete."""
        self._end_thought()
        if self._answer is None:
            for block in self._markdown.finish() if self._has_streamed else self._markdown_blocks(self._held):
                self._reply_block(block)
        self._end_reply()

    def _end_reply(self) -> None:
        """Forget the reply, and show what had to wait until it was over."""
        self._markdown.reset()
        self._held = self._thought = self._output = ""
        self._has_streamed = False
        for block in self._deferred:
            self._block(block)
        self._deferred.clear()

    def _block(self, text: str, *, apart: bool = False) -> None:
        """Write one block; an empty line sets apart those that begin something."""
        separate = apart and self._has_written
        self._has_written = True
        text = self._fold(text)
        self._write(f"\n{text}" if separate else text)

    def _reply_block(self, text: str) -> None:
        separate, self._has_written = self._has_written, True
        self._write(f"\n{text}" if separate else text)

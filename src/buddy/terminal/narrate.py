"""The story on the screen: events in, finished blocks out, and the few lines that are still changing.

What always holds: a block is written once, when it is whole; what is still changing is small, however much streams in;
while a log is replayed its tokens are not shown twice.
"""

from collections.abc import Awaitable, Callable

from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    ApprovalRequired,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    Error,
    EventBody,
    Progress,
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
from buddy.terminal.blocks import outcome_block, thought_block, told
from buddy.terminal.conversation import Conversation
from buddy.terminal.escape import escape
from buddy.terminal.liveness import Liveness, amount
from buddy.terminal.markdown import Markdown
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut, wrap_words

KEPT_OUTPUT = 2000
OUTPUT_LINES = 3


class Narrator:
    def __init__(
        self,
        talk: Conversation,
        style: Style,
        columns: Callable[[], int],
        write: Callable[[str], None],
        answer: Callable[[str], None] | None = None,
    ) -> None:
        """`write` takes finished blocks; with `answer`, what the model says goes there, as it is."""
        self._talk = talk
        self._style = style
        self._columns = columns
        self._write = write
        self._answer = answer
        self.liveness = Liveness(style)
        self.reset()

    def reset(self) -> None:
        self._markdown = Markdown(self._style, self._columns)
        self._held = ""
        self._thought = ""
        self._output = ""
        self._streamed = False
        self._call: ToolCall | None = None
        self._failure = ""
        self._late: list[str] = []
        self._last = ""

    async def take(self, event: Event, read_whole: Callable[[Event], Awaitable[EventBody | None]]) -> None:
        """Show an event that the conversation has taken up."""
        body = event.body()
        self._flush_call(body)
        match body:
            case None:
                return
            case ToolCall():
                self._call = body
            case AssistantToken():
                self._token(body.text)
            case ThinkingToken():
                self._thought += body.text
            case AssistantRestart():
                if self._streamed:
                    self._block("note", self._style.dim(f"  ↻ the reply starts over: {escape(body.reason)}"))
                self._forget()
            case AssistantMessage():
                whole = await read_whole(event) if body.blobs and not self._streamed else body
                self._message(whole if isinstance(whole, AssistantMessage) else body)
            case ToolOutput():
                self._output = (self._output + body.text)[-KEPT_OUTPUT:]
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

    def _token(self, text: str) -> None:
        if self._talk.is_replaying or self._answer is not None:
            self._held += text
            return
        self._end_thought()
        text, self._held = self._held + text, ""
        self._streamed = True
        for block in self._markdown.feed(text):
            self._block("answer", block, apart=True)

    def _message(self, body: AssistantMessage) -> None:
        self._end_thought()
        if self._answer is not None:
            if body.text:
                self._answer(body.text)
        else:
            blocks = self._markdown.finish() if self._streamed else self._render(body.text)
            for block in blocks:
                self._block("answer", block, apart=True)
        if body.truncated:
            self._block("note", self._style.yellow("  ! the reply was cut off here"))
        self._forget()

    def _render(self, text: str) -> list[str]:
        self._markdown.reset()
        return [*self._markdown.feed(text), *self._markdown.finish()]

    def _other(self, event: Event, body: EventBody) -> None:
        match body:
            case Progress():
                self.liveness.message = body.message
            case RunStarted():
                self.liveness.message, self.liveness.started_ts = "", event.ts
            case Usage() if self._talk.around.show_tokens:
                text = f"  {amount(body.input_tokens)} tokens in, {amount(body.output_tokens)} out"
                self._block("note", self._style.dim(text))
            case RunCancelling():
                self.liveness.message = "cancelling"
            case RunComplete():
                self._cut_off()
                self.liveness.deadline = None
                run = self._talk.view.runs[body.run_id]
                self._block("outcome", outcome_block(body, run, self._style, self._failure), apart=True)
            case Error():
                self._failure = body.message
            case ToolResult():
                self._output = ""
                if not self._talk.around.show_tool_calls:
                    return
            case _:
                pass
        self._note(body)

    def _note(self, body: EventBody) -> None:
        block = told(body, self._style)
        if block is not None and isinstance(body, (RunCancelling, Error)) and (self._streamed or self._held):
            self._late.append(block)
        elif block is not None:
            self._block("note", block, apart=isinstance(body, UserMessage))

    def _flush_call(self, body: EventBody | None) -> None:
        """A call is told with the next thing that happens: a question that follows shows it better."""
        call = self._call
        if call is None or body is None or isinstance(body, (Progress, Usage)):
            return
        self._call = None
        if not self._talk.around.show_tool_calls:
            return
        if not isinstance(body, ApprovalRequired) or self._talk.is_replaying:
            self._block("call", told(call, self._style) or "", apart=True)

    def _end_thought(self) -> None:
        thought, self._thought = self._thought.strip(), ""
        if thought:
            self._block("thought", thought_block(thought, self._style), apart=True)

    def _cut_off(self) -> None:
        """What came of a reply that is not going to be whole stays where it was read."""
        self._end_thought()
        if self._answer is None:
            for block in self._markdown.finish() if self._streamed else self._render(self._held):
                self._block("answer", block, apart=True)
        self._forget()

    def _forget(self) -> None:
        """The reply is over, and what had to wait for its end is told."""
        self._markdown.reset()
        self._held = self._thought = self._output = ""
        self._streamed = False
        for block in self._late:
            self._block("note", block)
        self._late.clear()

    def _block(self, kind: str, text: str, *, apart: bool = False) -> None:
        """One block; an empty line sets those apart that begin something."""
        separate = apart and self._last
        self._last = kind
        self._write(f"\n{text}" if separate else text)

"""Folds an Anthropic Messages stream into one reply, event by event.

Invariants:
- the text deltas of one batch are one delta, and all deltas joined are the reply's text;
- a reply is complete if the server said so (a stop reason, or the end of the message); otherwise it is marked as
  truncated, and a truncated reply has no calls;
- thinking is kept with its signature, as it arrived, with its position among the texts and calls;
- a block that starts is a new one, whatever its index; an event or a block of an unknown type changes nothing.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import msgspec

from buddy.errors import ProviderError
from buddy.models.api_errors import stream_error
from buddy.models.calls import finish_calls
from buddy.models.contract import CUT_OFF, EmptyResponse, Piece, Reply, TokenUsage
from buddy.models.limits import MAX_KEPT_CALLS, TOO_LONG, Size, refuse
from buddy.models.long_events import EventData, is_end
from buddy.models.message_events import Block, BlockDelta, Event, MessageUsage, read_event, read_message
from buddy.models.message_items import API
from buddy.models.outputs import Item, Kind
from buddy.models.speech import Speech
from buddy.models.turns import layout, opaque

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_CUT = {"length", "content_filter"}
_KINDS: dict[str | None, Kind] = {
    "text": "message",
    "tool_use": "function_call",
    "thinking": "kept",
    "redacted_thinking": "kept",
}
_DELTAS: dict[str | None, Kind] = {
    "text_delta": "message",
    "input_json_delta": "function_call",
    "thinking_delta": "kept",
    "signature_delta": "kept",
}

# A block of an unknown type: its deltas are not for another one.
_IGNORED = Item("kept")


class MessageFold:
    """A partial reply of the server `origin`."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._blocks: list[Item] = []
        self._by_index: dict[int, Item] = {}
        self._open: Item | None = None
        self._thinking: dict[Item, _Thinking] = {}
        self._size = Size()
        self._speech = Speech(self._size)
        self._usage: MessageUsage | None = None
        self.finish = ""
        self.done = False

    def feed(self, events: Sequence[EventData]) -> list[Piece]:
        """Process the events of one batch; returns at most one thinking delta and one text delta."""
        for data in events:
            if self.done or is_end(data):
                self.done = True
                break
            self._take(read_event(data))
            self._end_if_full()
        return self._speech.pieces()

    def feed_object(self, body: EventData) -> list[Piece]:
        """Process a response that is one JSON object."""
        message = read_message(body)
        if message.error or message.type == "error":
            raise stream_error(message.error or "no reason given")
        self._count(message.usage)
        for block in message.content or ():
            self._start(None, block)
            self._end_if_full()
        self._stop(message.stop_reason)
        self.done = self.done or message.content is not None
        return self._speech.pieces()

    def has_text(self) -> bool:
        return bool(self._speech.text)

    def reply(self, taken: AbstractSet[str]) -> Reply:
        """The reply at the end of the stream, or ProviderError if it is unusable."""
        text = "".join(self._speech.text)
        if not self.finish and not self._blocks and not self.done:
            raise EmptyResponse
        if not self.finish and not self._has_substance():
            raise EmptyResponse
        if not self.finish and not self.done:
            if not text:
                raise ProviderError("the response ended before it was complete", retryable=True)
            return Reply(text, (), CUT_OFF, True, self._tokens(), self._opaque(is_cut=True))
        if self.finish in _CUT:
            return Reply(text, (), self.finish, True, self._tokens(), self._opaque(is_cut=True))
        made = (
            (block.call_id, block.name, "".join(block.arguments))
            for block in self._blocks
            if block.kind == "function_call"
        )
        calls = finish_calls(made, taken)
        finish = "tool_calls" if calls else "stop"
        return Reply(text, calls, finish, False, self._tokens(), self._opaque(is_cut=False))

    def _take(self, event: Event) -> None:
        if event.error or event.type == "error":
            raise stream_error(event.error or "no reason given")
        match event.type:
            case "message_start":
                self._count(event.message and event.message.usage)
            case "content_block_start":
                if event.content_block:
                    self._start(event.index, event.content_block)
            case "content_block_delta":
                if event.delta:
                    self._grow(event.index, event.delta)
            case "message_delta":
                self._count(event.usage)
                self._stop(event.delta and event.delta.stop_reason)
            case "message_stop":
                self.done = True
            case _:
                pass

    def _start(self, index: int | None, start: Block) -> None:
        kind = _KINDS.get(start.type)
        block = self._begin(kind or _IGNORED, index)
        match kind:
            case "message":
                self._speech.say(block, start.text or "")
            case "function_call":
                block.call_id, block.name = start.id or "", start.name or ""
                given = start.input or ""
                self._argue(block, given if isinstance(given, str) else msgspec.json.encode(given).decode())
            case "kept":
                self._think(block, start.thinking or "", start.signature or "", start.data)
            case None:
                pass

    def _grow(self, index: int | None, delta: BlockDelta) -> None:
        kind = _DELTAS.get(delta.type)
        if kind is None:
            return
        known = self._open if index is None else self._by_index.get(index)
        if known is _IGNORED:
            return
        block = known if known is not None and known.kind == kind else self._begin(kind, index)
        match kind:
            case "message":
                self._speech.say(block, self._size.cut_delta(delta.text or ""))
            case "function_call":
                self._argue(block, delta.partial_json or "")
            case "kept":
                self._think(block, self._size.cut_delta(delta.thinking or ""), delta.signature or "", None)

    def _begin(self, kind: Kind | Item, index: int | None) -> Item:
        """A new block, or the one that stands for those of unknown types."""
        block = self._open = kind if isinstance(kind, Item) else Item(kind)
        if index is not None:
            self._by_index[index] = block
        if block is not _IGNORED:
            self._blocks.append(block)
        return block

    def _argue(self, call: Item, text: str) -> None:
        if self._size.is_arguments_full:
            return
        call.arguments.append(text)
        self._size.add_arguments(text)
        if self._size.is_arguments_full:
            call.arguments = [refuse(TOO_LONG)]

    def _think(self, block: Item, thought: str, signature: str, data: str | None) -> None:
        kept = self._thinking.setdefault(block, _Thinking())
        kept.data = data or kept.data
        kept.thought.append(thought)
        kept.signature.append(signature)
        self._size.add_kept(len(signature) + len(data or ""))
        if thought:
            self._speech.think(block, thought)

    def _stop(self, reason: str | None) -> None:
        if reason:
            self.finish = _FINISH.get(reason, reason)

    def _count(self, usage: MessageUsage | None) -> None:
        if usage is not None:
            self._usage = self._usage.updated(usage) if self._usage else usage

    def _tokens(self) -> TokenUsage | None:
        return self._usage.tokens() if self._usage else None

    def _end_if_full(self) -> None:
        """Read no more of a reply that has reached a limit: it would never need to end."""
        is_full = self._size.is_arguments_full or len(self._blocks) > 2 * MAX_KEPT_CALLS
        if not self.done and (is_full or self._size.is_text_full):
            self.finish = "tool_calls" if is_full else "length"
            self.done = True

    def _has_substance(self) -> bool:
        thoughts = (part for kept in self._thinking.values() for part in (*kept.thought, kept.data))
        return bool(self._speech.text or any(block.kind == "function_call" for block in self._blocks) or any(thoughts))

    def _opaque(self, *, is_cut: bool) -> dict[str, object] | None:
        for block, kept in self._thinking.items():
            block.raw = kept.encode()
        entries = layout(self._blocks, has_parts=not self._speech.is_woven, is_cut=is_cut)
        return opaque(entries, API, self._origin)


class _Thinking:
    """A block of thinking: its text and signature, or only what is encrypted."""

    def __init__(self) -> None:
        self.thought: list[str] = []
        self.signature: list[str] = []
        self.data = ""

    def encode(self) -> str:
        """The block as the server wants it back; empty if there is nothing in it."""
        if self.data:
            return msgspec.json.encode({"type": "redacted_thinking", "data": self.data}).decode()
        thought, signature = "".join(self.thought), "".join(self.signature)
        if not thought and not signature:
            return ""
        return msgspec.json.encode({"type": "thinking", "thinking": thought, "signature": signature}).decode()

"""Folds a Chat Completions response into one reply, chunk by chunk.

Invariants:
- the text deltas of one batch are one delta, and all deltas joined are the reply's text;
- a reply is complete if the server said so (`[DONE]` or a finish reason); otherwise it is marked as truncated, and a
  truncated reply has no calls;
- reasoning and other fields of the message and of its calls are kept under their names, to be returned unmodified;
  unknown fields are marked with the server that sent them.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from buddy.errors import ProviderError
from buddy.models.api_errors import stream_error
from buddy.models.calls import CALL_FIELDS, ORIGIN, Calls
from buddy.models.chunks import CallDelta, Choice, Chunk, Delta, read_chunk, read_fault
from buddy.models.contract import CUT_OFF, EmptyResponse, Piece, Reply, TextDelta, ThinkingDelta, TokenUsage
from buddy.models.limits import Size
from buddy.models.long_events import EventData, LongEvent, is_end, size_of
from buddy.protocol.shapes import ToolCallItem

_CUT = {"length", "max_tokens", "model_length", "content_filter"}
_NONE: dict[str, object] = {}
_THOUGHT = ("reasoning", "thinking", "thought")


class Fold:
    """A partial reply of the server `origin`."""

    def __init__(self, origin: str = "") -> None:
        self._origin = origin
        self._text: list[str] = []
        self._reasoning: dict[str, list[str]] = {}
        self._details: list[object] = []
        self._rest: dict[str, object] = {}
        self._calls = Calls()
        self._size = Size()
        self._usage: TokenUsage | None = None
        self.finish = ""
        self.done = False

    def feed(self, events: Sequence[EventData]) -> list[Piece]:
        """Process the events of one batch; returns at most one thinking delta and one text delta."""
        before = len(self._text)
        thoughts: list[str] = []
        for data in events:
            if self.done or is_end(data):
                self.done = True
                break
            chunk = self._check(data)
            choice = _first(chunk)
            if choice is not None and (delta := choice.delta):
                self._say(delta, thoughts, self._size.cut_delta)
                self._size.add_kept(size_of(data) if delta.rest or delta.reasoning_details else 0)
            if choice is not None:
                self._finish(choice.finish_reason)
            self._end_if_full()
        return _pieces("".join(thoughts), "".join(self._text[before:]))

    def feed_object(self, body: EventData) -> list[Piece]:
        """Process a response that is one JSON object."""
        chunk = self._check(body) if isinstance(body, LongEvent) or body.strip() else Chunk()
        thoughts: list[str] = []
        choice = _first(chunk)
        if choice is not None and (message := choice.message):
            # Without a stream every entry is a separate call, with or without an id.
            self._say(msgspec.structs.replace(message, tool_calls=_numbered(message.tool_calls or ())), thoughts, str)
            self._finish(choice.finish_reason)
            self.done = True
        return _pieces("".join(thoughts), "".join(self._text))

    def reply(self, taken: AbstractSet[str]) -> Reply:
        """The reply at the end of the stream, or ProviderError if it is unusable."""
        text = "".join(self._text)
        if not self.finish and not self._has_substance():
            raise EmptyResponse
        if not self.finish and not self.done:
            if not text:
                raise ProviderError("the response ended before it was complete", retryable=True)
            return Reply(text, finish=CUT_OFF, truncated=True, usage=self._usage, opaque=self._opaque(()))
        finish = self.finish or ("tool_calls" if self._calls else "stop")
        cut = finish in _CUT
        calls = () if cut else self._calls.items(taken)
        return Reply(text, calls, finish, cut, self._usage, self._opaque(calls))

    def has_text(self) -> bool:
        return bool(self._text)

    def _check(self, data: EventData) -> Chunk:
        chunk = read_chunk(data)
        if chunk.error:
            raise stream_error(chunk.error)
        if chunk.object == "error":
            raise stream_error(read_fault(data) or "no reason given")
        if chunk.usage is not None:
            self._usage = chunk.usage.tokens() or self._usage
        return chunk

    def _say(self, delta: Delta, thoughts: list[str], cut: Callable[[str], str]) -> None:
        if text := cut(delta.text()):
            self._size.add_text(text)
            self._text.append(text)
        # Some servers send the same thought in both fields: both are kept, one is shown.
        if thought := cut(delta.reasoning_content or delta.reasoning or ""):
            self._size.add_text(thought)
            thoughts.append(thought)
        for name, value in (delta.rest or _NONE).items():
            self._keep(name, value, thoughts, cut)
        if delta.reasoning_content is not None:
            self._reasoning.setdefault("reasoning_content", []).append(cut(delta.reasoning_content))
        if delta.reasoning is not None:
            self._reasoning.setdefault("reasoning", []).append(cut(delta.reasoning))
        if delta.reasoning_details:
            self._details.extend(delta.reasoning_details)
        for call in delta.tool_calls or ():
            self._calls.add(call)

    def _end_if_full(self) -> None:
        """Read no more of a reply that has reached a limit: it would never need to end."""
        if self._calls.is_full or self._size.is_text_full:
            self.finish = "tool_calls" if self._calls.is_full else "length"
            self.done = True

    def _keep(self, name: str, value: object, thoughts: list[str], cut: Callable[[str], str]) -> None:
        """An unknown field: reasoning text arrives in pieces, anything else is a single value."""
        is_thought = any(word in name for word in _THOUGHT)
        if isinstance(value, str) and is_thought and "signature" not in name:
            thought = cut(value)
            self._reasoning.setdefault(name, []).append(thought)
            thoughts.append(thought)
        else:
            self._rest[name] = value

    def _finish(self, reason: str | None) -> None:
        if reason == "error":
            raise ProviderError("the model API failed in the middle of a response", retryable=True)
        self.finish = reason or self.finish

    def _has_substance(self) -> bool:
        return bool(self._text or self._calls or self._details or any(map(any, self._reasoning.values())))

    def _opaque(self, calls: tuple[ToolCallItem, ...]) -> dict[str, object] | None:
        opaque: dict[str, object] = self._rest | {name: "".join(parts) for name, parts in self._reasoning.items()}
        # Many servers send an empty `reasoning` with every word; only `reasoning_content` is required when empty.
        if not opaque.get("reasoning"):
            opaque.pop("reasoning", None)
        if self._details:
            opaque["reasoning_details"] = self._details
        if rests := self._calls.rests(calls):
            opaque[CALL_FIELDS] = rests
        if self._rest or rests:
            opaque[ORIGIN] = self._origin
        return opaque or None


def _first(chunk: Chunk) -> Choice | None:
    """The choice with index 0, wherever it is; a server may send others, which nobody asked for."""
    for choice in chunk.choices or ():
        if choice.index in (0, None):
            return choice
    return None


def _numbered(calls: tuple[CallDelta, ...]) -> tuple[CallDelta, ...]:
    """Calls with an index each; an id that came before is dropped, because its call is a separate one."""
    ids = [call.id for call in calls]
    return tuple(
        msgspec.structs.replace(call, index=at, id=None if call.id in ids[:at] else call.id)
        for at, call in enumerate(calls)
    )


def _pieces(thought: str, text: str) -> list[Piece]:
    pieces: list[Piece] = []
    if thought:
        pieces.append(ThinkingDelta(thought))
    if text:
        pieces.append(TextDelta(text))
    return pieces

"""Folds a Gemini stream into one reply, chunk by chunk.

Invariants:
- the text deltas of one batch are one delta, and all deltas joined are the reply's text;
- a reply is complete only if the server said why it ended; otherwise it is marked as truncated, and a truncated reply
  has no calls;
- a signature is kept as it arrived, on the part that it came with; arguments are kept byte for byte.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from buddy.errors import ProviderError
from buddy.models.api_errors import stream_error
from buddy.models.calls import finish_calls
from buddy.models.contract import CUT_OFF, EmptyResponse, Piece, Reply, TokenUsage
from buddy.models.gemini_events import Candidate, FunctionCall, Generated, Part, read_generated
from buddy.models.gemini_items import API
from buddy.models.limits import MAX_KEPT_CALLS, TOO_LONG, Size, refuse
from buddy.models.long_events import EventData, LongEvent, is_end
from buddy.models.outputs import Item, Kind
from buddy.models.speech import Speech
from buddy.models.turns import layout, opaque

_FINISH = {"STOP": "stop", "FINISH_REASON_UNSPECIFIED": "stop", "MAX_TOKENS": "length"}
_CUT = {"length", "content_filter"}
# The model tried something that the server could not read: it may do better the next time.
_FAILED = {
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "UNEXPECTED_TOOL_CALL",
    "MISSING_THOUGHT_SIGNATURE",
    "OTHER",
}
_THOUGHTS = "thoughts"


class GeminiFold:
    """A partial reply of the server `origin`."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._items: list[Item] = []
        self._speaking: Item | None = None
        self._calling: Item | None = None
        self._size = Size()
        self._speech = Speech(self._size, separator="")
        self._usage: TokenUsage | None = None
        self._long: LongEvent | None = None
        self.finish = ""
        self.done = False

    def feed(self, events: Sequence[EventData]) -> list[Piece]:
        """Process the events of one batch; returns at most one thinking delta and one text delta."""
        for data in events:
            if self.done or is_end(data):
                break
            self._take(data, self._size.cut_delta)
        # The usage comes with the end, or in the same batch.
        self.done = self.done or bool(self.finish)
        return self._speech.pieces()

    def feed_object(self, body: EventData) -> list[Piece]:
        """Process a response that is one JSON object."""
        self._take(body, str)
        self.done = self.done or bool(self.finish or self._items)
        return self._speech.pieces()

    def has_text(self) -> bool:
        return bool(self._speech.text)

    def reply(self, taken: AbstractSet[str]) -> Reply:
        """The reply at the end of the stream, or ProviderError if it is unusable."""
        text = "".join(self._speech.text)
        if not self.finish and not self._items:
            raise EmptyResponse
        if not self.finish and not self.done:
            if not text:
                raise ProviderError("the response ended before it was complete", retryable=True)
            return Reply(text, (), CUT_OFF, True, self._usage, self._opaque(is_cut=True))
        if self.finish in _CUT:
            return Reply(text, (), self.finish, True, self._usage, self._opaque(is_cut=True))
        made = (
            (item.call_id, item.name, "".join(item.arguments)) for item in self._items if item.kind == "function_call"
        )
        calls = finish_calls(made, taken)
        return Reply(text, calls, "tool_calls" if calls else "stop", False, self._usage, self._opaque(is_cut=False))

    def _take(self, data: EventData, cut: Callable[[str], str]) -> None:
        self._long = data if isinstance(data, LongEvent) else None
        chunk = read_generated(data)
        if chunk.error or chunk.object == "error":
            raise stream_error(chunk.error or "no reason given")
        self._usage = (chunk.usage and chunk.usage.tokens()) or self._usage
        candidate = _first(chunk)
        if candidate is None:
            self._check_blocked(chunk)
            return
        for part in (candidate.content.parts if candidate.content else None) or ():
            self._add(part, cut(part.text or ""))
            self._end_if_full()
            if self.done:
                return
        self._stop(candidate)

    def _check_blocked(self, chunk: Generated) -> None:
        reason = chunk.feedback.reason if chunk.feedback else None
        if reason:
            hint = "say it in another way"
            raise ProviderError(f"the model API blocked the prompt: {reason[:80]}", retryable=False, hint=hint)

    def _add(self, part: Part, text: str) -> None:
        if part.call is not None:
            self._call(part.call, part.signature or "")
        elif part.thought:
            if text:
                self._speech.think(_THOUGHTS, text)
            self._keep({"text": text, "thought": True}, part.signature)
        elif text:
            self._say(text, part.signature or "")
        else:
            self._keep({"text": ""}, part.signature)

    def _say(self, text: str, signature: str) -> None:
        # A part with a signature stays a part of its own.
        if self._speaking is None or signature:
            self._speaking = self._begin("message")
            self._speaking.phase = signature
            self._size.add_kept(len(signature))
        self._speech.say(self._speaking, text)
        if signature:
            self._speaking = None

    def _call(self, call: FunctionCall, signature: str) -> None:
        item = self._calling or self._begin("function_call")
        self._calling = item if call.will_continue else None
        item.call_id, item.name = item.call_id or call.id or "", item.name or call.name or ""
        item.phase = item.phase or signature
        self._size.add_kept(len(signature))
        raw = bytes(call.args)
        arguments = (self._long.restore_raw(raw) if self._long else raw).decode("utf-8", "replace")
        item.arguments.append("" if arguments == "null" else arguments)
        self._size.add_arguments(arguments)
        if self._size.is_arguments_full:
            item.arguments = [refuse(TOO_LONG)]

    def _keep(self, part: dict[str, object], signature: str | None) -> None:
        """A part that only its server can use."""
        if signature:
            item = self._begin("kept")
            item.raw = msgspec.json.encode({**part, "thoughtSignature": signature}).decode()
            self._size.add_kept(len(item.raw))

    def _begin(self, kind: Kind) -> Item:
        item = Item(kind)
        self._items.append(item)
        self._speaking = None
        return item

    def _stop(self, candidate: Candidate) -> None:
        reason = candidate.finish
        if not reason:
            return
        if reason in _FAILED:
            said = f" ({candidate.message[:300]})" if candidate.message else ""
            raise ProviderError(f"the model API ended the reply: {reason}{said}", retryable=True)
        self.finish = _FINISH.get(reason, "content_filter")

    def _end_if_full(self) -> None:
        """Read no more of a reply that has reached a limit: it would never need to end."""
        is_full = self._size.is_arguments_full or len(self._items) > 2 * MAX_KEPT_CALLS
        if not self.done and (is_full or self._size.is_text_full):
            self.finish = "stop" if is_full else "length"
            self.done = True

    def _opaque(self, *, is_cut: bool) -> dict[str, object] | None:
        entries = layout(self._items, has_parts=not self._speech.is_woven, is_cut=is_cut)
        return opaque(entries, API, self._origin)


def _first(chunk: Generated) -> Candidate | None:
    return next((candidate for candidate in chunk.candidates or () if candidate.index in (0, None)), None)

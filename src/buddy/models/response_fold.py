"""Folds a Responses stream into one reply, event by event.

Invariants:
- the text deltas of one batch are one delta, and all deltas joined are the reply's text;
- a reply is complete only if the server said so; otherwise it is marked as truncated and has no calls;
- reasoning and items of unknown types are kept verbatim, with their position among the others;
- an event of an unknown type changes nothing.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from msgspec import Raw

from buddy.errors import ProviderError
from buddy.models.api_errors import stream_error
from buddy.models.calls import finish_calls
from buddy.models.chunks import Fault
from buddy.models.contract import CUT_OFF, EmptyResponse, Piece, Reply, TokenUsage
from buddy.models.limits import MAX_KEPT_CALLS, TOO_LONG, Size, refuse
from buddy.models.long_events import EventData, LongEvent, is_end
from buddy.models.outputs import Item, Kind, Outputs, arguments_of
from buddy.models.response_events import Event, Final, Output, read_event, read_final, read_output
from buddy.models.response_items import API
from buddy.models.speech import Speech
from buddy.models.turns import layout, opaque

_CUT = {"max_output_tokens": "length", "max_tokens": "length"}
_ENDS = {"incomplete", "failed", "cancelled"}


class ResponseFold:
    """A partial reply of the server `origin`."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._outputs = Outputs()
        self._size = Size()
        self._speech = Speech(self._size)
        self._usage: TokenUsage | None = None
        self._long: LongEvent | None = None  # the event that is being processed, if it is one
        self._ended = ""
        self.finish = ""
        self.done = False

    def feed(self, events: Sequence[EventData]) -> list[Piece]:
        """Process the events of one batch; returns at most one thinking delta and one text delta."""
        for data in events:
            if self.done or is_end(data):
                self.done = True
                break
            self._long = data if isinstance(data, LongEvent) else None
            self._take(read_event(data))
            self._end_if_full()
        return self._speech.pieces()

    def feed_object(self, body: EventData) -> list[Piece]:
        """Process a response that is one JSON object."""
        self._long = body if isinstance(body, LongEvent) else None
        final = read_final(body)
        if final.object == "error":
            raise stream_error(final.message or "no reason given")
        if final.status or final.output or final.output_text or final.error:
            self._end(final, final.status or "completed")
        return self._speech.pieces()

    def has_text(self) -> bool:
        return bool(self._speech.text)

    def reply(self, taken: AbstractSet[str]) -> Reply:
        """The reply at the end of the stream, or ProviderError if it is unusable."""
        text = "".join(self._speech.text)
        if not self._ended:
            if not text:
                if not self._outputs.items:
                    raise EmptyResponse
                raise ProviderError("the response ended before it was complete", retryable=True)
            return Reply(text, (), CUT_OFF, True, self._usage, self._opaque(is_cut=True))
        if self._ended != "completed":
            return Reply(text, (), self._ended, True, self._usage, self._opaque(is_cut=True))
        begun = self._outputs.of("function_call")
        made = ((call.call_id or call.item_id, call.name, "".join(call.arguments)) for call in begun)
        calls = finish_calls(made, taken)
        finish = "tool_calls" if calls else "stop"
        return Reply(text, calls, finish, False, self._usage, self._opaque(is_cut=False))

    def _take(self, event: Event) -> None:
        if event.error:
            raise stream_error(event.error)
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                item = self._outputs.find("message", event.output_index, event.item_id)
                self._speech.say(item, self._size.cut_delta(event.delta or ""))
            case "response.output_text.done" | "response.refusal.done":
                item = self._outputs.find("message", event.output_index, event.item_id)
                self._complete(item, event.text or event.refusal or "")
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._think(event)
            case "response.function_call_arguments.delta":
                call = self._outputs.find("function_call", event.output_index, event.item_id)
                self._argue(call, event.delta or "")
            case "response.function_call_arguments.done":
                call = self._outputs.find("function_call", event.output_index, event.item_id)
                self._settle_arguments(call, event.arguments or "")
            case _:
                self._take_item(event)

    def _argue(self, call: Item, text: str) -> None:
        call.arguments.append(text)
        self._size.add_arguments(text)
        if self._size.is_arguments_full:
            call.arguments = [refuse(TOO_LONG)]

    def _settle_arguments(self, call: Item, text: str) -> None:
        """The complete arguments replace those that arrived in pieces."""
        if text and not self._size.is_arguments_full:
            rest = text[sum(map(len, call.arguments)) :]
            call.arguments = [text[: len(text) - len(rest)]]
            self._argue(call, rest)

    def _end_if_full(self) -> None:
        """Read no more of a reply that has reached a limit: it would never need to end."""
        is_full = self._size.is_arguments_full or len(self._outputs.items) > 2 * MAX_KEPT_CALLS
        if not self.done and (is_full or self._size.is_text_full):
            self._ended = self.finish = "completed" if is_full else "length"
            self.done = True

    def _take_item(self, event: Event) -> None:
        match event.type:
            case "response.output_item.added":
                output = read_output(event.item, self._long)
                if kind := _kind(output):
                    item = self._outputs.add(kind, event.output_index, output)
                    self._name(item, output)
            case "response.output_item.done":
                output = read_output(event.item, self._long)
                if kind := _kind(output):
                    self._settle(self._outputs.finish(kind, event.output_index, output), output, event.item)
            case "error":
                raise stream_error(Fault(message=event.message, code=event.code))
            case "response.completed" | "response.done" | "response.incomplete" | "response.failed":
                self._usage = (event.usage and event.usage.tokens()) or self._usage
                final = read_final(event.response, self._long)
                status = event.type.removeprefix("response.").replace("done", "completed")
                self._end(final, final.status if final.status in _ENDS else status)
            case "response.cancelled":
                raise ProviderError("the model API cancelled its response", retryable=True)
            case _:
                pass

    def _end(self, final: Final, status: str) -> None:
        if final.error or status == "failed":
            raise stream_error(final.error or "no reason given")
        if status == "cancelled":
            raise ProviderError("the model API cancelled its response", retryable=True)
        self._usage = (final.usage and final.usage.tokens()) or self._usage
        for raw in final.output or ():
            output = read_output(raw, self._long)
            if kind := _kind(output):
                self._settle(self._outputs.list_entry(kind, output), output, raw)
        if final.output_text and not self._speech.text:
            self._speech.say(self._outputs.find("message", None, None), final.output_text)
        reason = (final.incomplete_details and final.incomplete_details.reason) or "length"
        self._ended = "completed" if status == "completed" else _CUT.get(reason, reason)
        self.finish = self._ended
        self.done = True

    def _name(self, item: Item, output: Output) -> None:
        item.call_id = output.call_id or item.call_id
        item.item_id = item.item_id or output.id or ""
        item.name = item.name or output.name or ""
        item.phase = output.phase or item.phase

    def _settle(self, item: Item, output: Output, raw: Raw) -> None:
        """An item is complete: add what no delta contained."""
        self._name(item, output)
        match item.kind:
            case "message":
                self._complete(item, output.text())
            case "function_call":
                self._settle_arguments(item, arguments_of(output))
            case "kept":
                item.raw = item.raw or _raw_text(
                    output, self._long.restore_raw(bytes(raw)) if self._long else bytes(raw)
                )
                self._size.add_kept(len(item.raw))
                if not item.thought and output.type == "reasoning" and (thought := output.thought()):
                    item.thought = True
                    self._speech.think(item, thought)

    def _complete(self, item: Item, text: str) -> None:
        said = "".join(item.text)
        if len(text) > len(said) and text.startswith(said):
            self._speech.say(item, text[len(said) :])

    def _think(self, event: Event) -> None:
        item = self._outputs.find("kept", event.output_index, event.item_id)
        item.thought = True
        source = (item, event.type, event.summary_index, event.content_index)
        self._speech.think(source, self._size.cut_delta(event.delta or ""))

    def _opaque(self, *, is_cut: bool) -> dict[str, object] | None:
        kept = layout(self._outputs.items, has_parts=not self._speech.is_woven, is_cut=is_cut)
        return opaque(kept, API, self._origin)


def _kind(output: Output) -> Kind | None:
    match output.type:
        case "message" | "function_call":
            return output.type
        case None:
            return "message" if output.content else None
        case _:
            return "kept"


def _raw_text(output: Output, raw: bytes) -> str:
    # Without its content a reasoning item is only an id, which a server that stores nothing no longer knows.
    if output.type == "reasoning" and not (output.encrypted_content or output.content):
        return ""
    return raw.decode("utf-8", "replace")

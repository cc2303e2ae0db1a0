"""The measuring model's prepared HTTP replies for both APIs, streamed or complete.

Invariants: a streamed reply has one HTTP chunk per server-sent event, as servers send them, and ends with the
usage; a word of an answer is one delta.
"""

import functools
import json
from collections.abc import Sequence
from typing import Literal, NamedTuple

Api = Literal["completions", "responses"]
Json = dict[str, object]
WORD = "word "
_SERVED = {"id": "chatcmpl-0123456789", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "bench"}
_TOKENS = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
_USED = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Call(NamedTuple):
    id: str
    name: str
    arguments: str


@functools.cache
def say(api: Api, deltas: int, *, stream: bool = True) -> bytes:
    """An answer with this number of words."""
    if not stream:
        return complete(_message(api, WORD * deltas, ()))
    if api == "completions":
        word = _event({**_SERVED, "choices": [_choice({"content": WORD})]})
        return _stream([word] * deltas + _completions_end("stop"))
    place: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item = _output_message("")
    delta: Json = {"type": "response.output_text.delta", **place, "delta": WORD}
    events: list[Json] = [
        {"type": "response.created", "response": _response(())},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        {"type": "response.content_part.added", **place, "part": _part("")},
        *[delta] * deltas,
        {"type": "response.output_text.done", **place, "text": WORD * deltas},
        {"type": "response.content_part.done", **place, "part": _part(WORD * deltas)},
        {"type": "response.output_item.done", "output_index": 0, "item": _output_message(WORD * deltas)},
        {"type": "response.completed", "response": _response([_output_message(WORD * deltas)])},
    ]
    return _number(events)


def say_at_once(text: str) -> bytes:
    """An answer in one delta, over Chat Completions."""
    return _stream([_event({**_SERVED, "choices": [_choice({"content": text})]}), *_completions_end("stop")])


def send_data(text: str) -> bytes:
    """An event that nobody should send: its data is this text."""
    return _stream([b"data: " + text.encode() + b"\n\n"])


@functools.cache
def call(api: Api, calls: tuple[Call, ...], *, stream: bool = True) -> bytes:
    """A reply that calls these tools."""
    if not stream:
        return complete(_message(api, "", calls))
    if api == "completions":
        wanted = [_tool_call(one, at) for at, one in enumerate(calls)]
        choices = [[_choice({"role": "assistant", "tool_calls": [one]})] for one in wanted]
        deltas = [_event({**_SERVED, "choices": choice}) for choice in choices]
        return _stream(deltas + _completions_end("tool_calls"))
    events: list[Json] = [{"type": "response.created", "response": _response(())}]
    for at, one in enumerate(calls):
        item = _output_call(one)
        place: Json = {"item_id": f"fc_{one.id}", "output_index": at}
        begun: Json = {**item, "arguments": "", "status": "in_progress"}
        more: list[Json] = [
            {"type": "response.output_item.added", "output_index": at, "item": begun},
            {"type": "response.function_call_arguments.delta", **place, "delta": one.arguments},
            {"type": "response.function_call_arguments.done", **place, "arguments": one.arguments},
            {"type": "response.output_item.done", "output_index": at, "item": item},
        ]
        events += more
    events.append({"type": "response.completed", "response": _response([_output_call(one) for one in calls])})
    return _number(events)


def complete(body: object, status: str = "200 OK") -> bytes:
    """One JSON body with its length."""
    data = json.dumps(body, separators=(",", ":")).encode()
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        status.encode(),
        len(data),
        data,
    )


def _message(api: Api, text: str, calls: Sequence[Call]) -> object:
    if api == "responses":
        return _response([_output_call(one) for one in calls] or [_output_message(text)])
    message: Json = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [_tool_call(one, at) for at, one in enumerate(calls)]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {**_SERVED, "object": "chat.completion", "choices": [choice], "usage": _TOKENS}


def _completions_end(finish: str) -> list[bytes]:
    end = {**_SERVED, "choices": [_choice({}, finish)]}
    return [_event(end), _event({**_SERVED, "choices": [], "usage": _TOKENS}), b"data: [DONE]\n\n"]


def _choice(delta: Json, finish: str | None = None) -> Json:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _tool_call(one: Call, at: int) -> Json:
    return {"index": at, "id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}


def _response(output: Sequence[object]) -> Json:
    made: Json = {"id": "resp_1", "object": "response", "created_at": 1_700_000_000, "model": "bench"}
    made |= {"status": "completed" if output else "in_progress", "output": list(output), "error": None}
    made |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "incomplete_details": None}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    made["usage"] = {**_USED, **details} if output else None
    return made


def _output_message(text: str) -> Json:
    content = [_part(text)] if text else []
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": list[str]()}


def _output_call(one: Call) -> Json:
    item: Json = {"type": "function_call", "id": f"fc_{one.id}", "call_id": one.id, "status": "completed"}
    return {**item, "name": one.name, "arguments": one.arguments}


def _number(events: Sequence[Json]) -> bytes:
    pieces = [
        b"event: %b\n%b" % (str(event["type"]).encode(), _event({**event, "sequence_number": number}))
        for number, event in enumerate(events)
    ]
    return _stream(pieces)


def _event(data: object) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def _stream(pieces: Sequence[bytes]) -> bytes:
    return _STREAM + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"

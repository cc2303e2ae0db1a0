"""Events of megabytes: read as short ones are, with their texts decoded in steps."""

import json
from typing import Any

import pytest

from buddy.errors import ProviderError
from buddy.models.contract import Reply, TextDelta
from buddy.models.folding import Fold
from buddy.models.long_events import MAX_VALUES, LongEvent, read_long
from buddy.models.response_fold import ResponseFold
from buddy.steps import PART, at_once

TEXT = 'x\n"é😀\\' * (PART // 4)
ARGUMENTS = json.dumps({"path": "a", "content": TEXT})
REASONING = {"type": "reasoning", "id": "rs", "encrypted_content": "e" * 2 * PART, "content": TEXT}
CALL = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "write_file", "arguments": ARGUMENTS}


def chunk(**delta: object) -> dict[str, object]:
    return {"choices": [{"delta": delta, "finish_reason": "stop"}], "extra": TEXT}


CHUNKS = [
    chunk(content=TEXT, reasoning_content=TEXT),
    chunk(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "write_file", "arguments": ARGUMENTS}}]),
    chunk(content=[{"text": TEXT}, {"text": "end"}], reasoning_details=[{"text": TEXT, "list": [TEXT, 1]}]),
]
RESPONSES = [
    [{"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": TEXT}],
    [{"type": "response.output_item.done", "output_index": 0, "item": CALL}],
    [{"type": "response.output_item.done", "output_index": 0, "item": REASONING}],
    [{"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc", "arguments": ARGUMENTS}],
]
END = {"type": "response.completed", "response": {"status": "completed", "output": [REASONING, CALL]}}


def events_of(*events: dict[str, Any]) -> tuple[list[bytes], list[bytes | LongEvent]]:
    plain = [json.dumps(event).encode() for event in events]
    return plain, [at_once(read_long(data)) for data in plain]


@pytest.mark.parametrize("event", CHUNKS)
def test_a_long_chunk_is_read_as_at_once(event: dict[str, Any]) -> None:
    plain, long = events_of(event)
    assert isinstance(long[0], LongEvent)
    whole, apart = Fold("here"), Fold("here")
    assert apart.feed(long) == whole.feed(plain)
    assert apart.reply(set()) == whole.reply(set())
    assert len(long[0].data) < 1000


@pytest.mark.parametrize("events", RESPONSES)
def test_a_long_event_of_responses_is_read_as_at_once(events: list[dict[str, Any]]) -> None:
    plain, long = events_of(*events, END)
    whole, apart = ResponseFold("here"), ResponseFold("here")
    assert apart.feed(long) == whole.feed(plain)
    assert apart.reply(set()) == whole.reply(set())


def test_a_long_response_without_a_stream_is_read_as_at_once() -> None:
    message = {
        "role": "assistant",
        "content": TEXT,
        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": ARGUMENTS}}],
    }
    body = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
    fold = Fold()
    assert fold.feed_object(at_once(read_long(body))) == [TextDelta(TEXT)]
    reply = fold.reply(set())
    assert isinstance(reply, Reply)
    assert (reply.text, reply.calls[0].arguments) == (TEXT, ARGUMENTS)
    final = json.dumps(END["response"]).encode()
    whole, apart = ResponseFold(""), ResponseFold("")
    assert apart.feed_object(at_once(read_long(final))) == whole.feed_object(final)
    assert apart.reply(set()) == whole.reply(set())


def test_an_event_of_too_many_values_is_refused() -> None:
    with pytest.raises(ProviderError, match=f"more than {MAX_VALUES} values"):
        at_once(read_long(b'{"choices": [' + b"{}," * 2 * MAX_VALUES + b"{}]}"))


@pytest.mark.parametrize(
    "data", [b"[" * 1_000_000, b"x" * 1_000_000, b'{"a": "' + b"x" * 1_000_000, b'{"choices": []}']
)
def test_what_has_no_long_text_is_left_as_it_is(data: bytes) -> None:
    assert at_once(read_long(data)) is data

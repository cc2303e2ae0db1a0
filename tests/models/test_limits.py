"""What one reply may contain: more is not read, and the model learns of it."""

import json

import pytest

from buddy.long_json import MAX_VALUES
from buddy.models.calls import Nesting, finish_calls
from buddy.models.contract import TextDelta, ThinkingDelta
from buddy.models.folding import Fold
from buddy.models.gemini_fold import GeminiFold
from buddy.models.limits import (
    LONG_NAME,
    MAX_ARGUMENTS,
    MAX_CALLS,
    MAX_DELTA,
    MAX_KEPT_CALLS,
    MAX_NAME,
    MAX_TEXT,
    TOO_DEEP,
    TOO_FULL,
    TOO_LONG,
    TOO_MANY,
    find_refusal,
    limit_calls,
)
from buddy.models.message_fold import MessageFold
from buddy.models.response_fold import ResponseFold
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import at_once

PART = "x" * 65_536


def completions(**delta: object) -> bytes:
    return json.dumps({"choices": [{"delta": delta}]}).encode()


def argument(text: str, index: int = 0, **more: object) -> bytes:
    return completions(tool_calls=[{"index": index, "function": {"arguments": text, **more}}])


def response(kind: str, **fields: object) -> bytes:
    return json.dumps({"type": f"response.{kind}", "output_index": 0, "item_id": "i", **fields}).encode()


def refusal_of(arguments: str) -> str:
    (call,) = at_once(limit_calls([ToolCallItem("a", "f", arguments)]))
    return find_refusal(call.arguments)


@pytest.mark.parametrize(
    ("fold", "event"),
    [
        (Fold(), argument(PART)),
        (Fold(), argument(PART, name="f")),
        (ResponseFold(""), response("function_call_arguments.delta", delta=PART)),
    ],
)
def test_endless_arguments_are_not_read_without_end(fold: Fold | ResponseFold, event: bytes) -> None:
    fed = 0
    while not fold.done:
        fold.feed([event])
        fed += len(PART)
        assert fed <= MAX_ARGUMENTS + len(PART)
    (call,) = fold.reply(set()).calls
    assert find_refusal(call.arguments) == TOO_LONG


@pytest.mark.parametrize(
    ("fold", "event"),
    [
        (Fold(), completions(content=PART)),
        (Fold(), completions(reasoning_content=PART)),
        (Fold(), completions(reasoning_details=[{"text": PART}])),
        (ResponseFold(""), response("output_text.delta", delta=PART)),
        (ResponseFold(""), response("reasoning_text.delta", delta=PART)),
    ],
)
def test_endless_text_is_cut_off(fold: Fold | ResponseFold, event: bytes) -> None:
    fed = 0
    while not fold.done:
        fold.feed([event])
        fed += len(PART)
        assert fed <= MAX_TEXT + len(PART)
    reply = fold.reply(set())
    assert reply.truncated
    assert reply.finish == "length"


def generated(**part: object) -> bytes:
    return json.dumps({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}).encode()


def block(**delta: object) -> bytes:
    return json.dumps({"type": "content_block_delta", "index": 0, "delta": delta}).encode()


def with_delta(wire: str, text: str, *, is_thought: bool) -> tuple[Fold | ResponseFold | MessageFold | GeminiFold, str]:
    """What a fold makes of a stream with one delta, and all that it says."""
    of_wire: dict[str, tuple[Fold | ResponseFold | MessageFold | GeminiFold, list[bytes]]] = {
        "completions": (
            Fold(),
            [
                completions(**{"reasoning_content" if is_thought else "content": text}),
                json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]}).encode(),
            ],
        ),
        "responses": (
            ResponseFold(""),
            [
                response("reasoning_text.delta" if is_thought else "output_text.delta", delta=text),
                response("completed", response={"status": "completed"}),
            ],
        ),
        "anthropic": (
            MessageFold(""),
            [
                block(type="thinking_delta", thinking=text) if is_thought else block(type="text_delta", text=text),
                json.dumps({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}).encode(),
                json.dumps({"type": "message_stop"}).encode(),
            ],
        ),
        "gemini": (GeminiFold(""), [generated(text=text, thought=is_thought)]),
    }
    fold, events = of_wire[wire]
    return fold, "".join(piece.text for piece in fold.feed(events) if isinstance(piece, TextDelta | ThinkingDelta))


@pytest.mark.parametrize("is_thought", [False, True])
@pytest.mark.parametrize("wire", ["completions", "responses", "anthropic", "gemini"])
def test_a_delta_beyond_its_limit_is_cut_and_ends_the_reply(wire: str, is_thought: bool) -> None:
    fold, said = with_delta(wire, "x" * MAX_DELTA, is_thought=is_thought)
    assert len(said) == MAX_DELTA
    if not is_thought:
        assert (fold.reply(set()).finish, fold.reply(set()).truncated) == ("stop", False)
    fold, said = with_delta(wire, "x" * (MAX_DELTA + 1), is_thought=is_thought)
    assert len(said) == MAX_DELTA
    assert (fold.done, fold.finish, fold.reply(set()).truncated) == (True, "length", True)


def test_a_reply_that_comes_as_a_whole_has_no_deltas_to_cut() -> None:
    text = "x" * (MAX_DELTA + 1)
    fold = Fold()
    fold.feed_object(json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode())
    other = GeminiFold("")
    other.feed_object(generated(text=text))
    for reply in (fold.reply(set()), other.reply(set())):
        assert (reply.text == text, reply.truncated) == (True, False)


def test_endless_calls_are_not_read_without_end() -> None:
    fold = Fold()
    for number in range(2 * MAX_KEPT_CALLS):
        fold.feed([argument("{}", number, name="f")])
    assert fold.done
    assert len(fold.reply(set()).calls) == MAX_KEPT_CALLS + 1


def test_calls_beyond_the_limit_say_so() -> None:
    calls = at_once(limit_calls(ToolCallItem(f"c{number}", "f", "{}") for number in range(2 * MAX_KEPT_CALLS)))
    assert len(calls) == MAX_KEPT_CALLS
    assert [find_refusal(call.arguments) for call in calls] == [""] * MAX_CALLS + [TOO_MANY] * (
        MAX_KEPT_CALLS - MAX_CALLS
    )


@pytest.mark.parametrize("opening", ['{"a":', "[", '{"a":[', '{"\\"":'])
def test_arguments_that_are_nested_too_deeply_say_so(opening: str) -> None:
    assert refusal_of(opening * 700_000) == TOO_DEEP


@pytest.mark.parametrize("text", ['{"a": "' + "[" * 1000 + '"}', '{"a": [' + "{}," * 1000 + "{}]}", "{" * 64])
def test_brackets_that_do_not_nest_are_no_depth(text: str) -> None:
    assert not refusal_of(text)


@pytest.mark.parametrize("value", ["0", "{}", '"x"', "[[]]"])
def test_arguments_of_too_many_values_say_so(value: str) -> None:
    assert refusal_of(f'{{"a": [{value}{f",{value}" * MAX_VALUES}]}}') == TOO_FULL
    assert not refusal_of(f'{{"a": [{value}{f",{value}" * 1000}]}}')
    assert not refusal_of(json.dumps({"a": f"{value}," * MAX_VALUES}))


def test_a_name_without_end_says_so() -> None:
    assert refusal_of('{"%s" : 1}' % ("k" * 100_000)) == LONG_NAME
    assert not refusal_of('{"k": "%s"}' % ("v" * 100_000))


def test_arguments_are_counted_in_bytes_over_all_calls() -> None:
    half = json.dumps({"a": "é" * (MAX_ARGUMENTS // 4)}, ensure_ascii=False)
    calls = at_once(limit_calls([ToolCallItem("a", "f", half)] * 2))
    assert [find_refusal(call.arguments) for call in calls] == ["", TOO_LONG]


@pytest.mark.parametrize("text", ['{"a": "}\\"{"}', "{}", '{"a": [1, {"b": "\\\\"}]}', ' {"a": "[["} '])
def test_a_call_is_complete_when_its_object_is(text: str) -> None:
    for cut in range(len(text) + 1):
        nesting = Nesting()
        nesting.add(text[:cut])
        assert not nesting.is_complete or not text[cut:].strip()
        nesting.add(text[cut:])
        assert nesting.is_complete
        nesting.add(text)
        assert not nesting.is_complete


def test_a_name_and_an_id_without_end_are_cut_and_the_ids_stay_different() -> None:
    long = "n" * 1_000_000
    calls = finish_calls([(long, long, "{}"), (long + "x", "f", "{}"), ("id", "f", "{}")], {"call_0"})
    assert [len(call.name) for call in calls] == [MAX_NAME, 1, 1]
    assert [call.call_id for call in calls] == ["call_0_2", "call_1", "id"]

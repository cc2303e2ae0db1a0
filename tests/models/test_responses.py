"""What is special about Responses; what holds for every wire is in test_wires.py."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.errors import ProviderError
from buddy.models.contract import (
    AssistantItem,
    Item,
    Prompt,
    Reply,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolItem,
    ToolSpec,
    UserItem,
)
from buddy.models.response_fold import ResponseFold
from buddy.models.response_items import encode_item
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import at_once
from tests.harness.dialects import DIALECTS, KEY, collect, says, serving
from tests.harness.fake_model import Answer, Chunk, FakeModel

RESPONSE = DIALECTS[1]
HELLO = Prompt("Be brief.", (UserItem("hi"),))


def added(index: int | None, **item: object) -> Chunk:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def finished(index: int | None, **item: object) -> Chunk:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def message(text: str, **more: object) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


def text(delta: str, **more: object) -> Chunk:
    return {"type": "response.output_text.delta", "delta": delta, **more}


def thought(delta: str, **more: object) -> Chunk:
    return {"type": "response.reasoning_summary_text.delta", "delta": delta, **more}


def ended(kind: str = "response.completed", **response: object) -> Chunk:
    return {"type": kind, "response": response}


F = {"type": "function_call", "name": "f", "arguments": '{"x":1}'}
CALLED = Reply("", (ToolCallItem("a", "f", '{"x":1}'),), "tool_calls")
G = {**F, "arguments": '{"x":2}'}
TWICE = Reply("", (*CALLED.calls, ToolCallItem("a_2", "f", '{"x":2}')), "tool_calls")
REPLIES: list[tuple[str, list[Chunk | str], Reply]] = [
    ("half an emoji", ['{"type":"response.output_text.delta","delta":"a\\ud83d"}', ended()], Reply("a\ufffd")),
    ("a refusal", [{"type": "response.refusal.delta", "delta": "No."}, ended()], Reply("No.")),
    ("text that came at once", [{"type": "response.output_text.done", "text": "Hi"}, ended()], Reply("Hi")),
    ("text of a finished item", [finished(0, id="m", **message("Hi")), ended()], Reply("Hi")),
    ("text of the last event", [ended(output=[message("Hi")])], Reply("Hi")),
    ("text of the last event, short form", [ended(output_text="Hi")], Reply("Hi")),
    ("the end of a text that no delta brought", [text("H", item_id="m"), finished(0, **message("Hi", id="m")), ended()],
     Reply("Hi")),
    ("the same text in every form", [
        added(0, id="m", type="message"), text("Hi", item_id="m", output_index=0),
        {"type": "response.output_text.done", "item_id": "m", "output_index": 0, "text": "Hi"},
        finished(0, id="m", **message("Hi")), ended(output=[message("Hi", id="m")])],
     Reply("Hi")),
    ("ids that change on the way", [
        added(0, id="m1", type="message"), text("Hi", item_id="m2", output_index=0),
        finished(0, **message("Hi", id="m3")),
        added(1, id="c1", type="function_call", name="f"),
        {"type": "response.function_call_arguments.delta", "item_id": "c2", "output_index": 1, "delta": '{"x":1}'},
        finished(1, id="c3", call_id="a", **F),
        ended(output=[message("Hi", id="m4"), {**F, "id": "c4", "call_id": "a"}])],
     Reply("Hi", CALLED.calls, "tool_calls")),
    ("response.done", [text("Hi"), ended("response.done")], Reply("Hi")),
    ("two messages", [text("One."), added(None, type="message", id="b"), text("Two.", item_id="b"), ended()],
     Reply("One.\n\nTwo.")),
    ("a call of a finished item", [finished(0, id="c", call_id="a", **F), ended()], CALLED),
    ("calls of finished items, all index 0", [finished(0, call_id="a", **F), finished(0, call_id="b", **F), ended()],
     Reply("", (*CALLED.calls, ToolCallItem("b", "f", '{"x":1}')), "tool_calls")),
    ("one id for two finished items", [
        finished(0, id="c", call_id="a", **F), finished(1, id="d", call_id="a", **G), ended()], TWICE),
    ("one id for two finished items, all index 0", [
        finished(0, id="c", call_id="a", **F), finished(0, id="c", call_id="a", **G), ended()], TWICE),
    ("one id for two calls of the last event", [ended(output=[{**F, "call_id": "a"}, {**G, "call_id": "a"}])], TWICE),
    ("one id for two calls, in every form", [
        added(0, id="c", call_id="a", type="function_call", name="f", arguments=""),
        added(1, id="c", call_id="a", type="function_call", name="f", arguments=""),
        {"type": "response.function_call_arguments.delta", "item_id": "c", "output_index": 1, "delta": '{"x":'},
        {"type": "response.function_call_arguments.done", "item_id": "c", "output_index": 0, "arguments": '{"x":1}'},
        {"type": "response.function_call_arguments.done", "item_id": "c", "output_index": 1, "arguments": '{"x":2}'},
        finished(0, id="c", call_id="a", **F), finished(1, id="c", call_id="a", **G),
        ended(output=[{**F, "id": "c", "call_id": "a"}, {**G, "id": "c", "call_id": "a"}])], TWICE),
    ("a finished item that is repeated", [
        finished(0, id="c", call_id="a", **F), finished(0, id="c", call_id="a", **F), ended()], CALLED),
    ("a call of the last event", [ended(output=[{**F, "call_id": "a"}])], CALLED),
    ("a call in every form", [
        added(0, id="c", call_id="a", type="function_call", name="f", arguments=""),
        {"type": "response.function_call_arguments.delta", "item_id": "c", "output_index": 0, "delta": '{"x":'},
        {"type": "response.function_call_arguments.done", "item_id": "c", "output_index": 0, "arguments": '{"x":1}'},
        finished(0, id="c", call_id="a", **F), ended(output=[{**F, "id": "c", "call_id": "a"}])],
     CALLED),
    ("the item's id where there is no call id", [finished(0, **F, id="c"), ended()],
     Reply("", (ToolCallItem("c", "f", '{"x":1}'),), "tool_calls")),
    ("arguments as an object", [finished(0, call_id="a", **{**F, "arguments": {"x": 1}}), ended()], CALLED),
    ("incomplete", [text("Hi"), finished(0, call_id="a", **F), ended("response.incomplete")],
     Reply("Hi", (), "length", truncated=True)),
    ("incomplete, by its status", [text("Hi"), ended(status="incomplete")], Reply("Hi", (), "length", truncated=True)),
    ("incomplete for another reason", [ended("response.incomplete", incomplete_details={"reason": "content_filter"})],
     Reply("", (), "content_filter", truncated=True)),
    ("usage beside the response", [{**ended(), "usage": {"input_tokens": 5, "output_tokens": 2}}],
     Reply("", usage=TokenUsage(5, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("chunks", "expected"), [case[1:] for case in REPLIES], ids=[case[0] for case in REPLIES])
async def test_the_events_of_a_response_become_one_reply(chunks: list[Chunk | str], expected: Reply) -> None:
    async with FakeModel([RESPONSE.answer(chunks)]) as model, serving(RESPONSE, model) as provider:
        pieces = await collect(provider.stream(HELLO))
    assert pieces[-1] == expected
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == expected.text


@pytest.mark.parametrize(
    ("chunk", "wanted", "retryable"),
    [
        ({"type": "error", "message": "busy", "code": "server_error"}, "busy", True),
        ({"type": "error", "error": {"message": "bad", "type": "invalid_request_error"}}, "bad", False),
        (ended("response.failed", error=None), "no reason given", False),
        (ended("response.failed", error={"message": "slow", "code": "rate_limit_exceeded"}), "slow", True),
        (ended(status="failed", error={"message": "bad", "code": "x"}), "bad", False),
        ({"type": "response.cancelled"}, "cancelled", True),
    ],
)
async def test_a_failed_response_is_an_error(chunk: Chunk, wanted: str, *, retryable: bool) -> None:
    async with FakeModel([RESPONSE.answer([chunk])]) as model, serving(RESPONSE, model) as provider:
        with pytest.raises(ProviderError, match=wanted) as failure:
            await collect(provider.stream(HELLO))
    assert failure.value.retryable is retryable


TOOL = ToolSpec("f", "Does f.", {"type": "object"})
ITEMS: tuple[Item, ...] = (
    UserItem("hi"),
    AssistantItem("Sure", (ToolCallItem("a", "f", '{"x": 1}'), ToolCallItem("b", "f", "{nope"))),
    ToolItem("a", "one"),
    ToolItem("b", "two"),
    AssistantItem("Yes", (), {"reasoning_content": "Hm", "completions_call_fields": {"a": {}}}),
)


async def test_the_request_has_the_format_of_the_wire() -> None:
    async with FakeModel([RESPONSE.answer(says(RESPONSE, "Yes"))]) as model, serving(RESPONSE, model) as provider:
        await collect(provider.stream(Prompt("Be brief.", ITEMS, (TOOL,), 0.5, 0.9)))
    assert model.requests[0].path == "/v1/responses"
    assert model.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert model.requests[0].body == {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sure"}]},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"x": 1}'},
            {"type": "function_call", "call_id": "b", "name": "f", "arguments": '{"unreadable":"{nope"}'},
            {"type": "function_call_output", "call_id": "a", "output": "one"},
            {"type": "function_call_output", "call_id": "b", "output": "two"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]},
        ],
        "tools": [
            {
                "type": "function",
                "name": "f",
                "description": "Does f.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
    }


async def test_with_a_login_the_request_has_the_format_its_server_requires() -> None:
    no = Answer(status=400, body=b"Stream must be set to true; store must be set to false")
    async with FakeModel([no]) as model, serving(RESPONSE, model, login=True) as provider:
        with pytest.raises(ProviderError, match="400"):
            await collect(provider.stream(Prompt("", ITEMS, (), 0.5, 0.9)))
    assert len(model.requests) == 1
    body = model.requests[0].body
    assert (body["store"], body["stream"], body["instructions"]) == (False, True, "")
    assert "temperature" not in body
    assert "top_p" not in body


async def test_fields_unknown_to_a_server_are_omitted_one_by_one() -> None:
    script = [
        Answer(status=400, body=b'{"error":{"message":"Unknown parameter: \'include\'."}}'),
        Answer(status=422, body=b'{"detail":[{"loc":["body","store"],"msg":"Extra inputs are not permitted"}]}'),
        RESPONSE.answer(says(RESPONSE, "One")),
        RESPONSE.answer(says(RESPONSE, "Two")),
    ]
    async with FakeModel(script) as model, serving(RESPONSE, model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("One")
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Two")
    given_by_request = [sorted({"include", "store", "stream"} & set(request.body)) for request in model.requests]
    assert given_by_request == [["include", "store", "stream"], ["store", "stream"], ["stream"], ["stream"]]


# What only the server understands

REASONING = '{"type": "reasoning","id":"rs_1", "summary":[],"encrypted_content":"gAAA\\u00fc+/=","n":1.50e3}'
SEARCH = '{"id":"ws_1","type":"web_search_call","status":"completed","action":{"b":1,"a":[ ]}}'
SECOND = '{"type":"reasoning","id":"rs_2","content":[{"type":"reasoning_text","text":"Hm"}],"summary":[]}'


def raw(index: int, item: str) -> str:
    return f'{{"type":"response.output_item.done","output_index":{index},"item":{item}}}'


TURN: list[Chunk | str] = [
    raw(0, REASONING),
    finished(1, **message("Let me look.", id="m1", phase="commentary")),
    raw(2, SEARCH),
    raw(3, SECOND),
    finished(4, call_id="a", **F),
    finished(5, **message("Soon.", id="m2", phase="final_answer")),
    finished(6, call_id="b", **F),
]


async def test_items_are_returned_byte_for_byte_and_in_order() -> None:
    script = [RESPONSE.answer([*TURN, ended()]), RESPONSE.answer(says(RESPONSE, "ok"))]
    async with FakeModel(script) as model, serving(RESPONSE, model) as provider:
        pieces = await collect(provider.stream(HELLO))
        reply = pieces[-1]
        assert isinstance(reply, Reply)
        # through the log and back
        opaque = msgspec.json.decode(msgspec.json.encode(reply.opaque), type=dict[str, Any])
        items = (UserItem("hi"), AssistantItem(reply.text, reply.calls, opaque), ToolItem("a", "1"), ToolItem("b", "2"))
        await collect(provider.stream(Prompt("", items)))
    assert reply.text == "Let me look.\n\nSoon."
    sent = model.requests[1].raw.decode()
    assert [sent.count(item) for item in (REASONING, SEARCH, SECOND)] == [1, 1, 1]
    assert [(item.get("type"), item.get("phase")) for item in model.requests[1].body["input"]] == [
        ("message", None),
        ("reasoning", None),
        ("message", "commentary"),
        ("web_search_call", None),
        ("reasoning", None),
        ("function_call", None),
        ("message", "final_answer"),
        ("function_call", None),
        ("function_call_output", None),
        ("function_call_output", None),
    ]
    texts = [item["content"][0]["text"] for item in model.requests[1].body["input"] if item["type"] == "message"]
    assert texts == ["hi", "Let me look.", "Soon."]


async def test_a_truncated_reply_drops_trailing_reasoning() -> None:
    cut = RESPONSE.answer([*TURN[:5], ended("response.incomplete")])
    async with FakeModel([cut]) as model, serving(RESPONSE, model) as provider:
        reply = (await collect(provider.stream(HELLO)))[-1]
    assert isinstance(reply, Reply)
    turn = AssistantItem(reply.text, reply.calls, reply.opaque)
    origin = (reply.opaque or {})["responses_origin"]
    assert [item["type"] for item in items_of(turn, origin)] == ["reasoning", "message"]
    assert [item["type"] for item in items_of(turn, "another server")] == ["message"]


def items_of(turn: AssistantItem, origin: str) -> list[dict[str, Any]]:
    return msgspec.json.decode(b"[" + at_once(encode_item(turn, origin)) + b"]", type=list[dict[str, Any]])


async def test_reasoning_without_content_is_only_shown() -> None:
    chunks = [finished(0, type="reasoning", id="rs", summary=[{"text": "Plan."}, {"text": "Do."}]), text("Hi"), ended()]
    async with FakeModel([RESPONSE.answer(chunks)]) as model, serving(RESPONSE, model) as provider:
        pieces = await collect(provider.stream(HELLO))
    assert "".join(piece.text for piece in pieces if isinstance(piece, ThinkingDelta)) == "Plan.\n\nDo."
    assert pieces[-1] == Reply("Hi")


async def test_parts_of_a_summary_are_paragraphs_and_shown_once() -> None:
    chunks = [
        added(0, id="rs", type="reasoning"),
        thought("**One", item_id="rs", output_index=0, summary_index=0),
        thought("**", item_id="rs", output_index=0, summary_index=0),
        thought("**Two**", item_id="rs", output_index=0, summary_index=1),
        finished(0, id="rs", type="reasoning", encrypted_content="zz", summary=[{"text": "**One**"}]),
        text("Hi"),
        ended(),
    ]
    async with FakeModel([RESPONSE.answer(chunks)]) as model, serving(RESPONSE, model) as provider:
        pieces = await collect(provider.stream(HELLO))
    assert "".join(piece.text for piece in pieces if isinstance(piece, ThinkingDelta)) == "**One**\n\n**Two**"


@pytest.mark.parametrize(
    "kept",
    [
        "nonsense",
        [{"item": 5}],
        [{"call": 7}, {"call": 0}, {"call": 0}, {"text": [0, 99]}],
        [{"text": [5, 1]}, {"text": [0, 3]}],
        [{"item": SEARCH}],
    ],
)
def test_a_turn_is_sent_completely_whatever_order_was_recorded(kept: object) -> None:
    item = AssistantItem("Yes", CALLED.calls, {"responses_items": kept, "responses_origin": "here"})
    sent = items_of(item, "here")
    assert [one["content"][0]["text"] for one in sent if one["type"] == "message"] == ["Yes"]
    assert [one["call_id"] for one in sent if one["type"] == "function_call"] == ["a"]


NAMES = [
    "type",
    "delta",
    "item",
    "item_id",
    "output_index",
    "response",
    "output",
    "content",
    "text",
    "arguments",
    "id",
    "call_id",
    "name",
    "status",
    "usage",
    "error",
    "summary",
    "encrypted_content",
    "incomplete_details",
    "phase",
]
TYPES = [
    "output_text.delta",
    "output_text.done",
    "reasoning_text.delta",
    "function_call_arguments.delta",
    "function_call_arguments.done",
    "output_item.added",
    "output_item.done",
    "completed",
    "incomplete",
]
kinds = st.sampled_from([*(f"response.{name}" for name in TYPES), "message", "function_call", "reasoning", "x"])
leaves = st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=4) | kinds
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=20,
)
events = st.fixed_dictionaries({"type": kinds}, optional=dict.fromkeys(NAMES[1:6], anything))


@given(st.lists(events | anything, max_size=8))
def test_any_events_are_a_reply_that_can_be_sent_back_or_a_provider_error(values: list[object]) -> None:
    fold = ResponseFold("here")
    try:
        pieces = fold.feed([msgspec.json.encode(value) for value in values])
        reply = fold.reply({"a"})
    except ProviderError:
        return
    assert not (reply.truncated and reply.calls)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == reply.text
    sent = b"[" + at_once(encode_item(AssistantItem(reply.text, reply.calls, reply.opaque), "here")) + b"]"
    items = msgspec.json.decode(sent, type=list[Sent])
    assert sum(item.type == "function_call" for item in items) == len(reply.calls)
    assert len({call.call_id for call in reply.calls}) == len(reply.calls)


class Sent(msgspec.Struct):
    type: str

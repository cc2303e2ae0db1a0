"""What is special about Chat Completions; what holds for every wire is in test_wires.py."""

import msgspec
import pytest

from buddy.errors import ProviderError, UserError
from buddy.models.completions import Completions
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
from buddy.protocol.shapes import ToolCallItem
from tests.harness.dialects import DIALECTS, KEY, collect, serving
from tests.harness.fake_model import Answer, Chunk, FakeModel, calls, delta, ending, says

CHAT = DIALECTS[0]
HELLO = Prompt("Be brief.", (UserItem("hi"),))


def call(index: int | None = None, call_id: str | None = None, **function: object) -> Chunk:
    return delta(tool_calls=[{"index": index, "id": call_id, "function": function}])


def item(call_id: str, name: str, arguments: str) -> ToolCallItem:
    return ToolCallItem(call_id, name, arguments)


ASKED = ending("tool_calls", None)
REPLIES: list[tuple[str, Answer, Reply]] = [
    ("half an emoji", Answer(['{"choices":[{"delta":{"content":"a\\ud83d"}}]}']), Reply("a\ufffd")),
    ("no finish reason", Answer(says("Hello", finish=None)), Reply("Hello")),
    ("an empty finish reason", Answer(says("Hello", finish="")), Reply("Hello")),
    ("a refusal", Answer([delta(refusal="No."), *ending("stop", None)]), Reply("No.")),
    ("content in parts", Answer([delta(content=[{"type": "text", "text": "Hel"}, {"x": 1}])]), Reply("Hel")),
    # odd chunks
    ("null choices", Answer([{"choices": None}, {}, {"choices": []}, *says("Hello")]), Reply("Hello")),
    ("null delta", Answer([{"choices": [{"delta": None}]}, *says("Hello")]), Reply("Hello")),
    ("odd types", Answer([{"choices": [{"delta": {"role": 5, "content": "Hel"}, "finish_reason": 7}], "usage": "?"}]),
     Reply("Hel")),
    ("a number as text", Answer([delta(content=5, reasoning=[1]), *says("Hello")]), Reply("Hello")),
    ("lists for objects", Answer(["[]", '"x"', "1", "null", '{"choices":{}}', *says("Hello")]), Reply("Hello")),
    # calls
    ("finish stop with calls", Answer(calls(("f", "{}"), finish="stop")), Reply("", (item("id_0", "f", "{}"),))),
    ("no finish with calls", Answer(calls(("f", "{}"), finish=None)),
     Reply("", (item("id_0", "f", "{}"),), "tool_calls")),
    ("arguments in pieces, interleaved", Answer([
        call(0, "a", name="f", arguments=""), call(1, "b", name="g", arguments='{"y'), call(0, arguments='{"x'),
        call(1, arguments='":2}'), call(0, "", name=None, arguments='":1}'), *ASKED]),
     Reply("", (item("a", "f", '{"x":1}'), item("b", "g", '{"y":2}')), "tool_calls")),
    ("arguments byte by byte", Answer([call(0, "a", name="f"), *(call(0, arguments=c) for c in '{"x": [1]}'), *ASKED]),
     Reply("", (item("a", "f", '{"x": [1]}'),), "tool_calls")),
    ("no ids", Answer([call(0, name="f", arguments="{}"), call(1, name="f", arguments="{}"), *ASKED]),
     Reply("", (item("call_0", "f", "{}"), item("call_1", "f", "{}")), "tool_calls")),
    ("index 0 for all, no ids", Answer([
        call(0, name="f", arguments='{"x":1}'), call(0, name="f", arguments="{}"), call(0, name="g", arguments="{}"),
        *ASKED]),
     Reply("", (item("call_0", "f", '{"x":1}'), item("call_1", "f", "{}"), item("call_2", "g", "{}")), "tool_calls")),
    ("the id, another index", Answer([call(0, "a", name="f", arguments="{"), call(3, "a", arguments="}"), *ASKED]),
     Reply("", (item("a", "f", "{}"),), "tool_calls")),
    ("the id comes late", Answer([call(0, name="f"), call(0, "a", arguments="{}"), *ASKED]),
     Reply("", (item("a", "f", "{}"),), "tool_calls")),
    ("the name comes late", Answer([call(0, "a", arguments='{"x":'), call(0, name="f", arguments="1}"), *ASKED]),
     Reply("", (item("a", "f", '{"x":1}'),), "tool_calls")),
    ("the name every time", Answer([call(0, "a", name="f", arguments="{"), call(0, "a", name="f", arguments="}"),
                                    call(0, name="f", arguments=""), *ASKED]),
     Reply("", (item("a", "f", "{}"),), "tool_calls")),
    ("empty arguments", Answer([call(0, "a", name="f"), call(1, "b", name="g", arguments=" "), *ASKED]),
     Reply("", (item("a", "f", "{}"), item("b", "g", "{}")), "tool_calls")),
    ("arguments as an object", Answer([call(0, "a", name="f", arguments={"x": [1]}), *ASKED]),
     Reply("", (item("a", "f", '{"x":[1]}'),), "tool_calls")),
    ("an odd index", Answer([delta(tool_calls=[{"index": "0", "id": "a", "function": {"name": "f"}}, 7]), *ASKED]),
     Reply("", (item("a", "f", "{}"),), "tool_calls")),
    ("the same id twice in a reply", Answer([call(0, "a", name="f"), call(1, "a", arguments='{"x":1}'), *ASKED]),
     Reply("", (item("a", "f", '{"x":1}'),), "tool_calls")),
    ("the same id twice, complete calls", Answer([call(0, "a", name="f", arguments='{"x":1}'),
                                                  call(1, "a", name="f", arguments='{"x":2}'), *ASKED]),
     Reply("", (item("a", "f", '{"x":1}'), item("a_2", "f", '{"x":2}')), "tool_calls")),
    ("the same id twice, no index", Answer([call(None, "a", name="f", arguments='{"x":1}'),
                                            call(None, "a", name="f", arguments='{"x":2}'), *ASKED]),
     Reply("", (item("a", "f", '{"x":1}'), item("a_2", "f", '{"x":2}')), "tool_calls")),
    ("the same id twice, in one piece", Answer(body=msgspec.json.encode({"choices": [{"message": {"tool_calls": [
        {"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"id": "a", "function": {"arguments": '{"x":2}'}}]}, "finish_reason": "tool_calls"}]})),
     Reply("", (item("a", "f", '{"x":1}'), item("call_1", "unnamed", '{"x":2}')), "tool_calls")),
    # reasoning
    ("reasoning_content", Answer([delta(reasoning_content="Hm"), delta(reasoning_content="."), *says("Yes")]),
     Reply("Yes", opaque={"reasoning_content": "Hm."})),
    ("reasoning", Answer([delta(reasoning="Hm", content=""), *says("Yes")]), Reply("Yes", opaque={"reasoning": "Hm"})),
    ("reasoning_details", Answer([delta(reasoning="a", reasoning_details=[{"type": "reasoning.text", "text": "a"}]),
                                  delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "zz"}]),
                                  *says("Yes")]),
     Reply("Yes", opaque={"reasoning": "a", "reasoning_details": [
         {"type": "reasoning.text", "text": "a"}, {"type": "reasoning.encrypted", "data": "zz"}]})),
    ("empty reasoning", Answer([delta(reasoning="", content="Yes"), *ending("stop", None)]), Reply("Yes")),
    # usage
    ("usage in every chunk", Answer([{**delta(content="Hi"), "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
                                     {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}, {"usage": None}]),
     Reply("Hi", usage=TokenUsage(5, 2))),
    ("usage before the finish", Answer([{**delta(content="Hi"), "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
                                        *ending("stop", None)]),
     Reply("Hi", usage=TokenUsage(5, 1))),
    ("cached tokens and cost", Answer(says("Hi", usage={
        "prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}, "cost": 0.25})),
     Reply("Hi", usage=TokenUsage(5, 2, 3, 0.25))),
    ("the other names", Answer(says("Hi", usage={"input_tokens": 5.0, "output_tokens": 2, "cost": "?",
                                                 "prompt_cache_hit_tokens": 4})),
     Reply("Hi", usage=TokenUsage(5, 2, 4))),
    # no stream
    ("a JSON body", Answer(body=msgspec.json.encode({
        "choices": [{"message": {"content": "Hi", "tool_calls": [
            {"function": {"name": "f", "arguments": ""}}, {"function": {"name": "f", "arguments": ""}}]},
            "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2}})),
     Reply("Hi", (item("call_0", "f", "{}"), item("call_1", "f", "{}")), "tool_calls", usage=TokenUsage(5, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), [case[1:] for case in REPLIES], ids=[case[0] for case in REPLIES])
async def test_a_server_response_becomes_one_reply(answer: Answer, expected: Reply) -> None:
    async with FakeModel([answer]) as model, serving(CHAT, model) as provider:
        pieces = await collect(provider.stream(HELLO))
    assert pieces[-1] == expected
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == expected.text
    thoughts = (expected.opaque or {}).get("reasoning_content") or (expected.opaque or {}).get("reasoning", "")
    assert "".join(piece.text for piece in pieces if isinstance(piece, ThinkingDelta)) == thoughts


FAILURES: list[tuple[str, Answer, str, bool]] = [
    ("an error in words", Answer([{"error": {"message": "Rate limit reached", "type": "x"}}]), "Rate limit", True),
    ("an error for good", Answer([{"error": {"message": "bad tool", "code": 400}}]), "bad tool", False),
    ("an error as the object", Answer([{"object": "error", "message": "bad", "code": 400}]), "bad", False),
    ("finish error", Answer(says("Hi", finish="error")), "in the middle", True),
]


@pytest.mark.parametrize(
    ("answer", "message", "retryable"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES]
)
async def test_an_invalid_response_is_an_error(answer: Answer, message: str, *, retryable: bool) -> None:
    async with FakeModel([answer]) as model, serving(CHAT, model) as provider:
        with pytest.raises(ProviderError, match=message) as failure:
            await collect(provider.stream(HELLO))
    assert failure.value.retryable is retryable


async def test_the_request_has_the_format_of_the_wire() -> None:
    items: tuple[Item, ...] = (
        UserItem("hi"),
        AssistantItem("", (ToolCallItem("a", "f", '{"x": 1}'), ToolCallItem("b", "f", "{nope"))),
        ToolItem("a", "one"),
        ToolItem("b", "two"),
        AssistantItem("Sure", (), {"reasoning": "Hm", "reasoning_details": [{"data": "zz"}]}),
    )
    tool = ToolSpec("f", "Does f.", {"type": "object"})
    async with FakeModel([Answer(says("Yes"))]) as model, serving(CHAT, model) as provider:
        await collect(provider.stream(Prompt("Be brief.", items, (tool,), 0.5, 0.9)))
    function = {"name": "f", "arguments": '{"x": 1}'}
    unreadable = {"name": "f", "arguments": '{"unreadable":"{nope"}'}
    assert model.requests[0].path == "/v1/chat/completions"
    assert model.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert model.requests[0].body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": function},
                    {"id": "b", "type": "function", "function": unreadable},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "tool", "tool_call_id": "b", "content": "two"},
            {"role": "assistant", "content": "Sure", "reasoning": "Hm", "reasoning_details": [{"data": "zz"}]},
        ],
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": {"type": "object"}}}
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_reasoning_is_returned_unchanged() -> None:
    script = [Answer([delta(reasoning_content="Hm."), *calls(("f", "{}"))]), Answer(says("Yes"))]
    async with FakeModel(script) as model, serving(CHAT, model) as provider:
        reply = (await collect(provider.stream(HELLO)))[-1]
        assert isinstance(reply, Reply)
        earlier = AssistantItem("", (ToolCallItem("z", "f", "{}"),))
        turn = AssistantItem(reply.text, reply.calls, reply.opaque)
        items = (UserItem("hi"), earlier, ToolItem("z", "1"), turn, ToolItem(reply.calls[0].call_id, "2"))
        await collect(provider.stream(Prompt("", items)))
    sent = model.requests[1].body["messages"]
    # a turn with calls that lacks the field gets it, empty, once there is reasoning
    assert [message.get("reasoning_content") for message in sent] == [None, "", None, "Hm.", None]


async def test_unknown_fields_are_returned_to_their_server_only() -> None:
    signed = {
        "index": 0,
        "id": "a",
        "function": {"name": "f"},
        "extra_content": {"google": {"thought_signature": "Cg"}},
    }
    script = [
        Answer(
            [
                delta(thinking="Hm", phase="draft", empty="", role="assistant"),
                delta(thinking=".", phase="final", thought_signature="zz", nothing=None),
                delta(tool_calls=[signed]),
                *ASKED,
            ]
        ),
        Answer(says("Yes")),
    ]
    async with FakeModel(script) as model, serving(CHAT, model) as provider:
        pieces = await collect(provider.stream(HELLO))
        reply = pieces[-1]
        assert isinstance(reply, Reply)
        assert "".join(piece.text for piece in pieces if isinstance(piece, ThinkingDelta)) == "Hm."
        turn = AssistantItem(reply.text, reply.calls, reply.opaque)
        history = Prompt("", (UserItem("hi"), turn, ToolItem("a", "1")))
        await collect(provider.stream(history))
    async with FakeModel([Answer(says("Yes"))]) as other, serving(CHAT, other) as provider:
        await collect(provider.stream(history))
    function = {"name": "f", "arguments": "{}"}
    assert model.requests[1].body["messages"][1] == {
        "role": "assistant",
        "content": None,
        "thinking": "Hm.",
        "phase": "final",
        "thought_signature": "zz",
        "tool_calls": [{"id": "a", "type": "function", "function": function, "extra_content": signed["extra_content"]}],
    }
    # another server would not know what they are
    assert other.requests[0].body["messages"][1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": function}],
    }


async def test_no_error_of_a_stream_contains_the_key() -> None:
    answer = Answer([{"error": {"message": f"bad {KEY}", "code": 500}}])
    async with FakeModel([answer]) as model, serving(CHAT, model) as provider:
        with pytest.raises(ProviderError, match=r"bad \[key\]") as failure:
            await collect(provider.stream(HELLO))
    assert failure.value.retryable


def test_a_key_with_invalid_characters_is_refused_without_showing_it() -> None:
    with pytest.raises(UserError) as failure:
        Completions("test", "http://127.0.0.1:1/v1", f"{KEY}\nx", "m", 8192)
    assert KEY not in str(failure.value)


async def test_a_server_without_stream_options_is_asked_once_with_them() -> None:
    no = Answer(status=400, body=b'{"error":{"message":"Unknown parameter: stream_options"}}')
    async with FakeModel([no, Answer(says("One")), Answer(says("Two"))]) as model, serving(CHAT, model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("One")
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Two")
    assert ["stream_options" in request.body for request in model.requests] == [True, False, False]


async def test_an_invalid_base_url_is_not_retried_and_has_a_hint() -> None:
    provider = Completions("test", "ftp://x.example", "", "m", 8192)
    with pytest.raises(ProviderError, match="base_url") as failure:
        await collect(provider.stream(HELLO))
    assert not failure.value.retryable
    await provider.close()

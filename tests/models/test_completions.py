"""One table of what servers send and the reply it must become, over real loopback HTTP."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from buddy.errors import ProviderError, UserError
from buddy.models.completions import Completions
from buddy.models.contract import (
    AssistantItem,
    Item,
    Piece,
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
from fake_model import Answer, Chunk, FakeModel, calls, delta, ending, says

KEY = "sk-canary-5551"
HELLO = Prompt("Be brief.", (UserItem("hi"),))


def call(index: int | None = None, call_id: str | None = None, **function: object) -> Chunk:
    return delta(tool_calls=[{"index": index, "id": call_id, "function": function}])


def item(call_id: str, name: str, arguments: str) -> ToolCallItem:
    return ToolCallItem(call_id, name, arguments)


ASKED = ending("tool_calls", None)
REPLIES: list[tuple[str, Answer, Reply]] = [
    ("text", Answer(says("Hello you there")), Reply("Hello you there")),
    ("CRLF", Answer(says("Hello you"), newline="\r\n"), Reply("Hello you")),
    ("CR alone", Answer(says("Hello you"), newline="\r"), Reply("Hello you")),
    ("keep-alive comments", Answer(says("Hello you"), comments=True), Reply("Hello you")),
    ("characters cut in bytes", Answer(says("grün 🌲 日本"), byte_by_byte=True), Reply("grün 🌲 日本")),
    ("half an emoji", Answer(['{"choices":[{"delta":{"content":"a\\ud83d"}}]}']), Reply("a\ufffd")),
    ("no [DONE]", Answer(says("Hello"), done=False), Reply("Hello")),
    ("no finish reason", Answer(says("Hello", finish=None)), Reply("Hello")),
    ("an empty finish reason", Answer(says("Hello", finish="")), Reply("Hello")),
    ("neither", Answer(says("Hello", finish=None), done=False), Reply("Hello", finish="cut", truncated=True)),
    ("length", Answer(says("Hello", finish="length")), Reply("Hello", finish="length", truncated=True)),
    ("length with calls", Answer(calls(("f", "{"), finish="length")), Reply("", (), "length", truncated=True)),
    ("nothing but a finish", Answer(ending("stop", None)), Reply("")),
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
    ("one call", Answer(calls(("f", '{"a":1}'))), Reply("", (item("id_0", "f", '{"a":1}'),), "tool_calls")),
    ("several calls", Answer(calls(("f", "{}"), ("g", "{}"))),
     Reply("", (item("id_0", "f", "{}"), item("id_1", "g", "{}")), "tool_calls")),
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
    ("index 0 for all", Answer([call(0, "a", name="f"), call(0, "b", name="f", arguments="{}"), *ASKED]),
     Reply("", (item("a", "f", "{}"), item("b", "f", "{}")), "tool_calls")),
    ("index 0 for all, no ids", Answer([
        call(0, name="f", arguments='{"x":1}'), call(0, name="f", arguments="{}"), call(0, name="g", arguments="{}"),
        *ASKED]),
     Reply("", (item("call_0", "f", '{"x":1}'), item("call_1", "f", "{}"), item("call_2", "g", "{}")), "tool_calls")),
    ("the id, another index", Answer([call(0, "a", name="f", arguments="{"), call(3, "a", arguments="}"), *ASKED]),
     Reply("", (item("a", "f", "{}"),), "tool_calls")),
    ("no index", Answer([call(None, "a", name="f", arguments="{"), call(None, None, arguments="}"),
                         call(None, "b", name="f"), *ASKED]),
     Reply("", (item("a", "f", "{}"), item("b", "f", "{}")), "tool_calls")),
    ("the first index is 1", Answer([call(1, "a", name="f", arguments="{"), call(1, arguments="}"), *ASKED]),
     Reply("", (item("a", "f", "{}"),), "tool_calls")),
    ("the id comes late", Answer([call(0, name="f"), call(0, "a", arguments="{}"), *ASKED]),
     Reply("", (item("a", "f", "{}"),), "tool_calls")),
    ("the name comes late", Answer([call(0, "a", arguments='{"x":'), call(0, name="f", arguments="1}"), *ASKED]),
     Reply("", (item("a", "f", '{"x":1}'),), "tool_calls")),
    ("the name every time", Answer([call(0, "a", name="f", arguments="{"), call(0, "a", name="f", arguments="}"),
                                    call(0, name="f", arguments=""), *ASKED]),
     Reply("", (item("a", "f", "{}"),), "tool_calls")),
    ("no name", Answer([call(0, "a", arguments="{}"), *ASKED]), Reply("", (item("a", "unnamed", "{}"),), "tool_calls")),
    ("empty arguments", Answer([call(0, "a", name="f"), call(1, "b", name="g", arguments=" "), *ASKED]),
     Reply("", (item("a", "f", "{}"), item("b", "g", "{}")), "tool_calls")),
    ("arguments as an object", Answer([call(0, "a", name="f", arguments={"x": [1]}), *ASKED]),
     Reply("", (item("a", "f", '{"x":[1]}'),), "tool_calls")),
    ("an odd index", Answer([delta(tool_calls=[{"index": "0", "id": "a", "function": {"name": "f"}}, 7]), *ASKED]),
     Reply("", (item("a", "f", "{}"),), "tool_calls")),
    ("the same id twice in a reply", Answer([call(0, "a", name="f"), call(1, "a", arguments='{"x":1}'), *ASKED]),
     Reply("", (item("a", "f", '{"x":1}'),), "tool_calls")),
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
    ("usage at the end", Answer(says("Hi", usage={"prompt_tokens": 5, "completion_tokens": 2})),
     Reply("Hi", usage=TokenUsage(5, 2))),
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
    ("usage without counts", Answer(says("Hi", usage={"total": 5})), Reply("Hi")),
    # no stream
    ("a JSON body", Answer(body=msgspec.json.encode({
        "choices": [{"message": {"content": "Hi", "tool_calls": [
            {"function": {"name": "f", "arguments": ""}}, {"function": {"name": "f", "arguments": ""}}]},
            "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2}})),
     Reply("Hi", (item("call_0", "f", "{}"), item("call_1", "f", "{}")), "tool_calls", usage=TokenUsage(5, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), [case[1:] for case in REPLIES], ids=[case[0] for case in REPLIES])
async def test_what_a_server_sends_becomes_one_reply(answer: Answer, expected: Reply) -> None:
    async with FakeModel([answer]) as model, serving(model) as provider:
        pieces = await collect(provider.stream(HELLO))
    assert pieces[-1] == expected
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == expected.text
    thoughts = (expected.opaque or {}).get("reasoning_content") or (expected.opaque or {}).get("reasoning", "")
    assert "".join(piece.text for piece in pieces if isinstance(piece, ThinkingDelta)) == thoughts


FAILURES: list[tuple[str, Answer, str, bool]] = [
    ("nothing", Answer(done=False), "empty response", True),
    ("only [DONE]", Answer(), "empty response", True),
    ("an empty JSON body", Answer(body=b""), "empty response", True),
    ("only half a call", Answer([call(0, "a", name="f", arguments="{")], done=False), "before it was whole", True),
    ("garbage", Answer(["{nope"]), "not JSON", True),
    ("an error object", Answer([{"error": {"message": "overloaded", "code": 503}}]), "overloaded", True),
    ("an error in words", Answer([{"error": {"message": "Rate limit reached", "type": "x"}}]), "Rate limit", True),
    ("an error for good", Answer([{"error": {"message": "bad tool", "code": 400}}]), "bad tool", False),
    ("an error text", Answer([{"error": "model not loaded"}]), "model not loaded", False),
    ("an error after text", Answer([*says("Hi", finish=None), {"error": {"code": "server_error"}}]), "server_er", True),
    ("an error as the object", Answer([{"object": "error", "message": "bad", "code": 400}]), "bad", False),
    ("finish error", Answer(says("Hi", finish="error")), "in the middle", True),
    ("a web page", Answer(body=b"<html>", headers={"content-type": "text/html; charset=utf-8"}), "web page", False),
    ("400", Answer(status=400, body=b'{"error":{"message":"bad temperature"}}'), "400: bad temperature", False),
    ("400 in plain text", Answer(status=400, body=b"x" * 9000), "400: x{500}$", False),
    ("422 with a list", Answer(status=422, body=b'{"detail":[{"msg":"nope"}]}'), "422: .*nope", False),
    ("500", Answer(status=500, body=b""), "answered 500$", True),
    ("529", Answer(status=529, body=b'{"error":{"message":"Overloaded"}}'), "Overloaded", True),
    ("a redirect", Answer(status=308, headers={"location": "https://x.example/v1"}, body=b""), "308", False),
]


@pytest.mark.parametrize(
    ("answer", "message", "retryable"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES]
)
async def test_what_cannot_be_a_reply_is_an_error(answer: Answer, message: str, *, retryable: bool) -> None:
    async with FakeModel([answer]) as model, serving(model) as provider:
        with pytest.raises(ProviderError, match=message) as failure:
            await collect(provider.stream(HELLO))
    assert failure.value.retryable is retryable


@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_a_stream_cut_at_any_frame_is_truncated_or_an_error(framing: Any) -> None:
    whole = Answer([*says("one two three", finish=None), *calls(("f", "{}"))])
    frames = whole.frames()
    said = ["one ", "two ", "three", "", "", ""]
    for at in range(len(frames) - 2):
        for extra in (0, 9, len(frames[at]) - 3):
            cut = msgspec.structs.replace(whole, cut_at=sum(map(len, frames[:at])) + extra or 1, framing=framing)
            text = "".join(said[:at])
            async with FakeModel([cut]) as model, serving(model) as provider:
                if not text:
                    with pytest.raises(ProviderError) as failure:
                        await collect(provider.stream(HELLO))
                    assert failure.value.retryable
                    continue
                reply = (await collect(provider.stream(HELLO)))[-1]
            assert isinstance(reply, Reply)
            assert reply.truncated
            assert reply.calls == ()
            assert reply.text == text


async def test_a_last_event_without_its_blank_line_counts() -> None:
    answer = Answer(says("one two", finish=None), done=False, framing="close")
    answer = msgspec.structs.replace(answer, cut_at=sum(map(len, answer.frames())) - 2)
    async with FakeModel([answer]) as model, serving(model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("one two", finish="cut", truncated=True)


async def test_a_reply_is_whole_though_the_connection_breaks_after_the_finish() -> None:
    answer = Answer(says("Hello"), done=False)
    answer = msgspec.structs.replace(answer, cut_at=sum(map(len, answer.frames())))
    async with FakeModel([answer]) as model, serving(model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Hello")


async def test_the_request_is_what_the_wire_asks_for() -> None:
    items: tuple[Item, ...] = (
        UserItem("hi"),
        AssistantItem("", (ToolCallItem("a", "f", '{"x": 1}'), ToolCallItem("b", "f", "{nope"))),
        ToolItem("a", "one"),
        ToolItem("b", "two"),
        AssistantItem("Sure", (), {"reasoning": "Hm", "reasoning_details": [{"data": "zz"}]}),
    )
    tool = ToolSpec("f", "Does f.", {"type": "object"})
    async with FakeModel([Answer(says("Yes"))]) as model, serving(model) as provider:
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


async def test_reasoning_goes_back_as_it_came() -> None:
    script = [Answer([delta(reasoning_content="Hm."), *calls(("f", "{}"))]), Answer(says("Yes"))]
    async with FakeModel(script) as model, serving(model) as provider:
        reply = (await collect(provider.stream(HELLO)))[-1]
        assert isinstance(reply, Reply)
        earlier = AssistantItem("", (ToolCallItem("z", "f", "{}"),))
        turn = AssistantItem(reply.text, reply.calls, reply.opaque)
        items = (UserItem("hi"), earlier, ToolItem("z", "1"), turn, ToolItem(reply.calls[0].call_id, "2"))
        await collect(provider.stream(Prompt("", items)))
    sent = model.requests[1].body["messages"]
    # a turn with calls that lacks the field gets it, empty, once there is reasoning
    assert [message.get("reasoning_content") for message in sent] == [None, "", None, "Hm.", None]


async def test_a_call_id_of_an_earlier_turn_gets_a_suffix() -> None:
    made_up = [call(5, "id_1", name="f"), call(6, name="g"), call(7, "call_1", name="h"), *ASKED]
    earlier = AssistantItem("", tuple(ToolCallItem(name, "f", "{}") for name in ("id_1", "id_1_2", "call_1")))
    async with FakeModel([Answer(made_up)]) as model, serving(model) as provider:
        reply = (await collect(provider.stream(Prompt("", (UserItem("hi"), earlier)))))[-1]
    assert isinstance(reply, Reply)
    assert [made.call_id for made in reply.calls] == ["id_1_3", "call_1_2", "call_1_3"]


async def test_a_burst_is_one_delta() -> None:
    words = " ".join(f"w{number}" for number in range(2000))
    body = b"".join(Answer(says(words)).frames())
    answer = Answer(body=body, headers={"content-type": "text/event-stream"})
    async with FakeModel([answer]) as model, serving(model) as provider:
        pieces = await collect(provider.stream(HELLO))
    assert pieces[-1] == Reply(words)
    assert len(pieces) < 200


async def test_a_delta_is_given_before_the_next_one_is_there() -> None:
    gate = asyncio.Event()
    async with FakeModel([Answer(says("one two"), gate=gate)]) as model, serving(model) as provider:
        stream = provider.stream(HELLO)
        assert await anext(stream) == TextDelta("one ")
        gate.set()
        assert await collect(stream) == [TextDelta("two"), Reply("one two")]


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "7"}, 7, 7),
        ({"retry-after": "1.5"}, 1.5, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25, 0.25),
        ({"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"}, 1e6, 1e10),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, 0, 0),
        ({"retry-after": "soon"}, None, None),
        ({"retry-after": "nan"}, None, None),
        ({}, None, None),
    ],
)
async def test_a_busy_server_may_say_when_to_come_back(
    headers: dict[str, str], low: float | None, high: float | None
) -> None:
    answer = Answer(status=429, headers=headers, body=b'{"error":{"message":"slow down"}}')
    async with FakeModel([answer]) as model, serving(model) as provider:
        with pytest.raises(ProviderError, match="429: slow down") as failure:
            await collect(provider.stream(HELLO))
    assert failure.value.retryable
    if low is None or high is None:
        assert failure.value.retry_after is None
    else:
        assert failure.value.retry_after is not None
        assert low <= failure.value.retry_after <= high


@pytest.mark.parametrize(("status", "hint"), [(401, "API key"), (403, "API key"), (404, 'api = "responses"')])
async def test_a_refusal_says_what_to_do_and_never_the_key(status: int, hint: str) -> None:
    body = f'{{"error":{{"message":"no access with {KEY}"}}}}'.encode()
    async with FakeModel([Answer(status=status, body=body)]) as model, serving(model) as provider:
        with pytest.raises(ProviderError) as failure:
            await collect(provider.stream(HELLO))
    assert str(failure.value) == f"the model API answered {status}: no access with [key]"
    assert not failure.value.retryable
    assert hint in failure.value.hint


async def test_the_key_is_in_no_error_of_a_stream() -> None:
    answer = Answer([{"error": {"message": f"bad {KEY}", "code": 500}}])
    async with FakeModel([answer]) as model, serving(model) as provider:
        with pytest.raises(ProviderError, match=r"bad \[key\]") as failure:
            await collect(provider.stream(HELLO))
    assert failure.value.retryable


def test_a_key_that_no_header_can_carry_is_refused_without_naming_it() -> None:
    with pytest.raises(UserError) as failure:
        Completions("test", "http://127.0.0.1:1/v1", f"{KEY}\nx", "m", 8192)
    assert KEY not in str(failure.value)


async def test_a_server_without_stream_options_is_asked_once_with_them() -> None:
    no = Answer(status=400, body=b'{"error":{"message":"Unknown parameter: stream_options"}}')
    async with FakeModel([no, Answer(says("One")), Answer(says("Two"))]) as model, serving(model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("One")
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Two")
    assert ["stream_options" in request.body for request in model.requests] == [True, False, False]


async def test_the_connection_is_kept_for_the_next_request() -> None:
    script = [Answer(says("One")), Answer(says("Two"))]
    async with FakeModel(script) as model, serving(model, linger=30.0) as provider:
        await collect(provider.stream(HELLO))
        await collect(provider.stream(HELLO))
        assert model.connections == 1


@pytest.mark.parametrize(
    "answer",
    [Answer(hang="headers"), Answer([delta(content="Hi")], done=False, hang="body")],
    ids=["before the headers", "in the body"],
)
async def test_a_server_that_goes_silent_is_given_up(answer: Answer) -> None:
    async with FakeModel([answer]) as model, serving(model, idle_timeout=0.05) as provider:
        with pytest.raises(ProviderError, match=r"no byte for 0\.05 s") as failure:
            await collect(provider.stream(HELLO))
        assert failure.value.retryable
        await model.wait_hung_up()


async def test_a_server_that_goes_silent_after_done_has_answered() -> None:
    async with FakeModel([Answer(says("Hi"), hang="body")]) as model, serving(model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Hi")
        await model.wait_hung_up()


async def test_a_server_that_is_not_there_may_come_back() -> None:
    async with FakeModel([]) as model:
        base_url = model.base_url
    provider = Completions("test", base_url, KEY, "m", 8192)
    with pytest.raises(ProviderError, match="no connection") as failure:
        await collect(provider.stream(HELLO))
    assert failure.value.retryable
    await provider.close()


async def test_a_base_url_that_is_none_is_the_persons_to_fix() -> None:
    provider = Completions("test", "ftp://x.example", "", "m", 8192)
    with pytest.raises(ProviderError, match="base_url") as failure:
        await collect(provider.stream(HELLO))
    assert not failure.value.retryable
    await provider.close()


@pytest.mark.parametrize("hang", ["headers", "body"])
async def test_cancelling_the_consumer_closes_the_connection(hang: Any) -> None:
    answer = Answer([delta(content="Hi")], done=False, hang=hang)
    async with FakeModel([answer]) as model, serving(model) as provider:
        consumer = asyncio.create_task(collect(provider.stream(HELLO)))
        await model.wait_requests(1)
        consumer.cancel()
        await asyncio.wait([consumer])
        assert consumer.cancelled()
        await model.wait_hung_up()


async def test_leaving_a_stream_early_closes_the_connection() -> None:
    answer = Answer([delta(content="Hi")], done=False, hang="body")
    async with FakeModel([answer]) as model, serving(model) as provider:
        stream = provider.stream(HELLO)
        assert await anext(stream) == TextDelta("Hi")
        del stream
        await model.wait_hung_up()


async def test_a_history_that_changed_is_sent_as_it_is_now() -> None:
    first, second, third = UserItem("1"), AssistantItem("2"), UserItem("3")
    histories: list[tuple[Item, ...]] = [
        (first,),
        (first, second, third),
        (first, AssistantItem("two"), third),
        (first, third),
        (third,),
        (first, second, third, AssistantItem("4")),
        (),
    ]
    async with FakeModel([Answer(says("ok"))] * len(histories)) as model, serving(model) as provider:
        for history in histories:
            await collect(provider.stream(Prompt("", history)))
    for request, history in zip(model.requests, histories, strict=True):
        assert [message["content"] for message in request.body["messages"]] == [item.text for item in history]


class serving:  # noqa: N801 - reads as a verb where it is used
    """A provider for the fake model, closed at the end."""

    def __init__(self, model: FakeModel, *, idle_timeout: float = 30.0, linger: float = 0.2) -> None:
        self.provider = Completions("test", model.base_url, KEY, "m", 8192, idle_timeout=idle_timeout, linger=linger)

    async def __aenter__(self) -> Completions:
        return self.provider

    async def __aexit__(self, *_: object) -> None:
        await self.provider.close()


async def collect(stream: AsyncIterator[Piece]) -> list[Piece]:
    return [piece async for piece in stream]

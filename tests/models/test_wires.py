"""One table of what servers send, for all wire protocols, over real loopback HTTP."""

import asyncio
from collections.abc import Callable
from typing import Literal

import msgspec
import pytest

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
    UserItem,
)
from buddy.models.limits import MAX_DELTA
from buddy.protocol.shapes import ToolCallItem
from tests.harness.dialects import DIALECTS, KEY, Dialect, calls, collect, says, serving
from tests.harness.fake_model import Answer, Chunk, FakeModel

HELLO = Prompt("Be brief.", (UserItem("hi"),))
every = pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])
Make = Callable[[Dialect], Answer]


def call(call_id: str, name: str, arguments: str) -> ToolCallItem:
    return ToolCallItem(call_id, name, arguments)


def made(*wanted: ToolCallItem) -> Reply:
    return Reply("", wanted, "tool_calls")


def interleaved(d: Dialect) -> Answer:
    chunks = [*d.opened(0, "a", "f"), *d.opened(1, "b", "g"), *d.grown(1, "b", '{"y'), *d.grown(0, "a", '{"x')]
    return d.answer([*chunks, *d.grown(1, "b", '":2}'), *d.grown(0, "a", '":1}'), *d.ends("tool_calls")])


def by_index_alone(d: Dialect) -> Answer:
    chunks = [*d.opened(0, "a", "f"), *d.opened(1, "b", "g"), *d.grown(1, None, "{}"), *d.grown(0, None, '{"x":1}')]
    return d.answer([*chunks, *d.ends("tool_calls")])


def all_at(d: Dialect, at: int | None, *ids: str | None) -> Answer:
    chunks: list[Chunk] = []
    for number, call_id in enumerate(ids):
        chunks += [*d.opened(at, call_id, f"f{number}"), *d.grown(at, call_id, '{"x":'), *d.grown(at, call_id, "1}")]
    return d.answer([*chunks, *d.ends("tool_calls")])


def byte_by_byte(d: Dialect) -> Answer:
    parts = [chunk for part in '{"x": ["ü"]}' for chunk in d.grown(0, "a", part)]
    return d.answer([*d.opened(0, "a", "f"), *parts, *d.ends("tool_calls")])


def in_one_piece(d: Dialect) -> Answer:
    return Answer(body=d.full_body("Hi", ("f", ""), ("f", '{"x":1}'), usage=d.usage(5, 2, 3)))


def two_with_one_id(d: Dialect, first: int, second: int, *, grown: str | None) -> Answer:
    chunks = [*d.opened(first, "a", "f"), *d.opened(second, "a", "f")]
    chunks += [*d.grown(second, grown, '{"y'), *d.grown(first, grown, '{"x'), *d.grown(second, grown, '":2}')]
    return d.answer([*chunks, *d.grown(first, grown, '":1}'), *d.ends("tool_calls")])


ONE = '{"x":1}'
ODD: list[Chunk | str] = [
    {},
    {"choices": []},
    {"choices": None},
    {"type": 5},
    {"type": "keepalive"},
    {"type": "response.brand_new", "delta": 7},
    {"type": "response.output_item.done", "item": 7},
    "[]",
    "null",
    "1",
]
TWO = made(call("a", "f", ONE), call("a_2", "f", '{"y":2}'))
REPLIES: list[tuple[str, Make, Reply]] = [
    ("text", lambda d: d.answer(says(d, "Hello you there")), Reply("Hello you there")),
    ("CRLF", lambda d: d.answer(says(d, "Hello you"), newline="\r\n"), Reply("Hello you")),
    ("CR alone", lambda d: d.answer(says(d, "Hello you"), newline="\r"), Reply("Hello you")),
    ("keep-alive comments", lambda d: d.answer(says(d, "Hello you"), comments=True), Reply("Hello you")),
    ("characters cut in bytes", lambda d: d.answer(says(d, "grün 🌲 日本"), byte_by_byte=True), Reply("grün 🌲 日本")),
    ("[DONE]", lambda d: d.answer(says(d, "Hello"), done=True), Reply("Hello")),
    ("no [DONE]", lambda d: d.answer(says(d, "Hello"), done=False), Reply("Hello")),
    ("nothing says the end", lambda d: d.answer(says(d, "Hello you", finish=None), done=False),
     Reply("Hello you", finish="cut", truncated=True)),
    ("text, then half a call", lambda d: d.answer([*d.text("Hm"), *d.opened(0, "a", "f"), *d.grown(0, "a", "{")],
                                                  done=False),
     Reply("Hm", finish="cut", truncated=True)),
    ("length", lambda d: d.answer(says(d, "Hello", finish="length")), Reply("Hello", finish="length", truncated=True)),
    ("length with calls", lambda d: d.answer(calls(d, ("f", "{}"), finish="length")),
     Reply("", (), "length", truncated=True)),
    ("nothing but an end", lambda d: d.answer(d.ends("stop")), Reply("")),
    ("the longest delta", lambda d: d.answer([*d.text("x" * MAX_DELTA), *d.ends("stop")]), Reply("x" * MAX_DELTA)),
    ("one that is longer", lambda d: d.answer([*d.text("x" * (MAX_DELTA + 1)), *d.ends("stop")]),
     Reply("x" * MAX_DELTA, (), "length", truncated=True)),
    ("10 MB in one event", lambda d: d.answer([*d.text("x" * 10_000_000), *d.ends("stop")]),
     Reply("x" * MAX_DELTA, (), "length", truncated=True)),
    ("empty choices, odd and unknown events",
     lambda d: d.answer([*ODD, *says(d, "Hello")]),
     Reply("Hello")),
    # calls
    ("one call", lambda d: d.answer(calls(d, ("f", ONE))), made(call("id_0", "f", ONE))),
    ("several calls", lambda d: d.answer(calls(d, ("f", "{}"), ("g", ONE), ("f", "{}"))),
     made(call("id_0", "f", "{}"), call("id_1", "g", ONE), call("id_2", "f", "{}"))),
    ("text and a call", lambda d: d.answer([*d.text("Look: "), *calls(d, ("f", ONE))]),
     Reply("Look: ", (call("id_0", "f", ONE),), "tool_calls")),
    ("interleaved", interleaved, made(call("a", "f", ONE), call("b", "g", '{"y":2}'))),
    ("interleaved, by index alone", by_index_alone, made(call("a", "f", ONE), call("b", "g", "{}"))),
    ("byte by byte", byte_by_byte, made(call("a", "f", '{"x": ["ü"]}'))),
    ("no ids", lambda d: d.answer([*d.opened(0, None, "f"), *d.grown(0, None, ONE), *d.opened(1, None, "f"),
                                   *d.ends("tool_calls")]),
     made(call("call_0", "f", ONE), call("call_1", "f", "{}"))),
    ("index 0 for all", lambda d: all_at(d, 0, "a", "b", "c"),
     made(call("a", "f0", ONE), call("b", "f1", ONE), call("c", "f2", ONE))),
    ("index 0 for all, no ids", lambda d: all_at(d, 0, None, None),
     made(call("call_0", "f0", ONE), call("call_1", "f1", ONE))),
    ("no index", lambda d: all_at(d, None, "a", "b"), made(call("a", "f0", ONE), call("b", "f1", ONE))),
    ("neither", lambda d: all_at(d, None, None, None), made(call("call_0", "f0", ONE), call("call_1", "f1", ONE))),
    ("one id for two calls", lambda d: two_with_one_id(d, 0, 1, grown="a"), TWO),
    ("one id for two calls, grown by index alone", lambda d: two_with_one_id(d, 0, 1, grown=None), TWO),
    ("one id for two calls, index 0 for both", lambda d: all_at(d, 0, "a", "a"),
     made(call("a", "f0", ONE), call("a_2", "f1", ONE))),
    ("one id for three equal calls, one after another",
     lambda d: d.answer([chunk for at in range(3) for chunk in (*d.opened(at, "a", "f"), *d.grown(at, "a", ONE))]
                        + [*d.ends("tool_calls")]),
     made(call("a", "f", ONE), call("a_2", "f", ONE), call("a_3", "f", ONE))),
    ("the first index is 1", lambda d: all_at(d, 1, "a"), made(call("a", "f0", ONE))),
    ("no arguments", lambda d: d.answer([*d.opened(0, "a", "f"), *d.ends("tool_calls")]), made(call("a", "f", "{}"))),
    ("no name", lambda d: d.answer([*d.opened(0, "a", None), *d.ends("tool_calls")]), made(call("a", "unnamed", "{}"))),
    # usage
    ("usage", lambda d: d.answer(says(d, "Hi", usage=d.usage(5, 2))), Reply("Hi", usage=TokenUsage(5, 2))),
    ("cached tokens and cost", lambda d: d.answer(says(d, "Hi", usage=d.usage(5, 2, 3) | {"cost": 0.25})),
     Reply("Hi", usage=TokenUsage(5, 2, 3, 0.25))),
    ("prompt tokens", lambda d: d.answer(says(d, "Hi", usage={"prompt_tokens": 5, "completion_tokens": 2})),
     Reply("Hi", usage=TokenUsage(5, 2))),
    ("input tokens", lambda d: d.answer(says(d, "Hi", usage={"input_tokens": 5.0, "output_tokens": 2, "cost": "?"})),
     Reply("Hi", usage=TokenUsage(5, 2))),
    ("usage without counts", lambda d: d.answer(says(d, "Hi", usage={"total": 5})), Reply("Hi")),
    ("usage of a cut reply", lambda d: d.answer(says(d, "Hi", finish="length", usage=d.usage(5, 2))),
     Reply("Hi", (), "length", truncated=True, usage=TokenUsage(5, 2))),
    # no stream
    ("a JSON body", in_one_piece,
     Reply("Hi", (call("call_0", "f", "{}"), call("call_1", "f", ONE)), "tool_calls", usage=TokenUsage(5, 2, 3))),
    ("a JSON body that says it is a stream",
     lambda d: Answer(body=b"\n\n" + d.full_body("Hi"), headers={"content-type": "text/event-stream"}), Reply("Hi")),
]  # fmt: skip


@every
@pytest.mark.parametrize(("make", "expected"), [case[1:] for case in REPLIES], ids=[case[0] for case in REPLIES])
async def test_a_server_response_becomes_one_reply(dialect: Dialect, make: Make, expected: Reply) -> None:
    async with FakeModel([make(dialect)]) as model, serving(dialect, model) as provider:
        pieces = await collect(provider.stream(HELLO))
    assert pieces[-1] == expected
    assert [piece for piece in pieces if isinstance(piece, Reply)] == [expected]
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == expected.text


def plain(status: int, body: bytes, headers: dict[str, str] | None = None) -> Make:
    return lambda _: Answer(status=status, body=body, headers=headers or {})


FAILURES: list[tuple[str, Make, str, bool]] = [
    ("nothing", lambda d: d.answer([], done=False), "empty response", True),
    ("only [DONE]", lambda d: d.answer([], done=True), "empty response", True),
    ("an empty JSON body", plain(200, b""), "empty response", True),
    ("an empty JSON object", plain(200, b"{}"), "empty response", True),
    ("half a JSON body", lambda d: Answer(body=d.full_body("Hello")[:-9]), "invalid JSON", True),
    ("only half a call", lambda d: d.answer([*d.opened(0, "a", "f"), *d.grown(0, "a", "{")], done=False),
     "before it was complete", True),
    ("garbage", lambda d: d.answer(["{nope"]), "invalid JSON", True),
    ("garbage after text", lambda d: d.answer([*d.text("Hi"), "{nope", *d.ends("stop")]), "invalid JSON", True),
    ("bytes that are no text", plain(200, b"data: \xff\xfe\n\n", {"content-type": "text/event-stream"}),
     "invalid JSON", True),
    ("an event over the limit", lambda d: d.answer(d.text("x" * (16 * 1024 * 1024 + 1))), "more than", False),
    ("an error that passes", lambda d: d.answer([d.failed("overloaded", "server_error")]), "overloaded", True),
    ("an error for good", lambda d: d.answer([d.failed("bad tool", "invalid_prompt")]), "bad tool", False),
    ("an error after text", lambda d: d.answer([*d.text("Hi"), d.failed("lost", "rate_limit_exceeded")]), "lost", True),
    ("an error object", lambda d: d.answer([{"error": {"message": "overloaded", "code": 503}}]), "overloaded", True),
    ("an error text", lambda d: d.answer([{"error": "model not loaded"}]), "model not loaded", False),
    ("an error in a JSON body", plain(200, b'{"error":{"message":"nope","code":400}}'), "nope", False),
    ("a web page", plain(200, b"<html>", {"content-type": "text/html; charset=utf-8"}), "web page", False),
    ("400", plain(400, b'{"error":{"message":"bad temperature"}}'), "400: bad temperature", False),
    ("400 in plain text", plain(400, b"x" * 9000), "400: x{500}$", False),
    ("422 with a list", plain(422, b'{"detail":[{"msg":"nope"}]}'), "422: .*nope", False),
    ("500", plain(500, b""), "answered 500$", True),
    ("529", plain(529, b'{"error":{"message":"Overloaded"}}'), "Overloaded", True),
    ("a redirect", plain(308, b"", {"location": "https://x.example/v1"}), "308", False),
    ("a huge header", plain(200, b"{}", {"x-huge": "x" * 1_000_000}), "lost the connection to the model API", True),
]  # fmt: skip


@every
@pytest.mark.parametrize(
    ("make", "message", "retryable"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES]
)
async def test_an_invalid_response_is_an_error(dialect: Dialect, make: Make, message: str, *, retryable: bool) -> None:
    async with FakeModel([make(dialect)] * 2) as model, serving(dialect, model) as provider:
        with pytest.raises(ProviderError, match=message) as failure:
            await collect(provider.stream(HELLO))
    assert failure.value.retryable is retryable
    assert KEY not in f"{failure.value}{failure.value.hint}"


@every
@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_a_stream_cut_at_any_frame_is_truncated_or_an_error(
    dialect: Dialect, framing: Literal["chunked", "close"]
) -> None:
    complete = dialect.answer([*says(dialect, "one two three", finish=None), *calls(dialect, ("f", "{}"))])
    frames = complete.frames()
    ends = len(frames) - (2 if complete.done else 1)
    said = [""] * dialect.opens + ["one ", "two ", "three"]
    for at in range(ends):
        for extra in (0, 9, len(frames[at]) - 3):
            cut = msgspec.structs.replace(complete, cut_at=sum(map(len, frames[:at])) + extra or 1, framing=framing)
            await assert_cut(dialect, cut, "".join(said[:at]))


async def assert_cut(dialect: Dialect, cut: Answer, text: str) -> None:
    async with FakeModel([cut]) as model, serving(dialect, model) as provider:
        if not text:
            with pytest.raises(ProviderError) as failure:
                await collect(provider.stream(HELLO))
            assert failure.value.retryable
            return
        assert (await collect(provider.stream(HELLO)))[-1] == Reply(text, finish="cut", truncated=True)


@every
async def test_a_last_event_without_its_blank_line_counts(dialect: Dialect) -> None:
    answer = dialect.answer(says(dialect, "one two", finish=None), done=False, framing="close")
    answer = msgspec.structs.replace(answer, cut_at=sum(map(len, answer.frames())) - 2)
    async with FakeModel([answer]) as model, serving(dialect, model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("one two", finish="cut", truncated=True)


@every
async def test_a_reply_is_complete_even_if_the_connection_breaks_after_it(dialect: Dialect) -> None:
    answer = dialect.answer(says(dialect, "Hello"), done=False)
    answer = msgspec.structs.replace(answer, cut_at=sum(map(len, answer.frames())))
    async with FakeModel([answer]) as model, serving(dialect, model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Hello")


@every
async def test_thinking_is_streamed_before_the_text(dialect: Dialect) -> None:
    chunks = [*dialect.thought("Hm"), *dialect.thought("."), *says(dialect, "Yes")]
    async with FakeModel([dialect.answer(chunks)]) as model, serving(dialect, model) as provider:
        pieces = await collect(provider.stream(HELLO))
    assert "".join(piece.text for piece in pieces if isinstance(piece, ThinkingDelta)) == "Hm."
    assert isinstance(pieces[0], ThinkingDelta)
    assert isinstance(pieces[-1], Reply)
    assert pieces[-1].text == "Yes"


@every
async def test_a_call_id_of_an_earlier_turn_gets_a_suffix(dialect: Dialect) -> None:
    earlier = AssistantItem("", tuple(call(name, "f", "{}") for name in ("a", "a_2", "call_1")))
    chunks = [*dialect.opened(5, "a", "f"), *dialect.opened(6, None, "g"), *dialect.opened(7, "call_1", "h")]
    answer = dialect.answer([*chunks, *dialect.ends("tool_calls")])
    async with FakeModel([answer]) as model, serving(dialect, model) as provider:
        reply = (await collect(provider.stream(Prompt("", (UserItem("hi"), earlier)))))[-1]
    assert isinstance(reply, Reply)
    assert [made.call_id for made in reply.calls] == ["a_3", "call_1_2", "call_1_3"]


@every
async def test_a_burst_is_merged_into_few_deltas(dialect: Dialect) -> None:
    words = " ".join(f"w{number}" for number in range(2000))
    body = b"".join(dialect.answer(says(dialect, words)).frames())
    answer = Answer(body=body, headers={"content-type": "text/event-stream"})
    async with FakeModel([answer]) as model, serving(dialect, model) as provider:
        pieces = await collect(provider.stream(HELLO))
    assert pieces[-1] == Reply(words)
    assert len(pieces) < 200


@every
async def test_a_delta_is_yielded_before_the_next_one_arrives(dialect: Dialect) -> None:
    gate = asyncio.Event()
    answer = msgspec.structs.replace(dialect.answer(says(dialect, "one two")), gate=gate, gate_at=dialect.opens + 1)
    async with FakeModel([answer]) as model, serving(dialect, model) as provider:
        stream = provider.stream(HELLO)
        assert await anext(stream) == TextDelta("one ")
        gate.set()
        assert await collect(stream) == [TextDelta("two"), Reply("one two")]


@every
async def test_the_connection_is_kept_for_the_next_request(dialect: Dialect) -> None:
    script = [dialect.answer(says(dialect, "One")), dialect.answer(says(dialect, "Two"), done=True)]
    async with FakeModel(script) as model, serving(dialect, model, linger=30.0) as provider:
        await collect(provider.stream(HELLO))
        await collect(provider.stream(HELLO))
        assert model.connections == 1


@every
async def test_a_changed_history_is_encoded_again(dialect: Dialect) -> None:
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
    script = [dialect.answer(says(dialect, "ok"))] * len(histories)
    async with FakeModel(script) as model, serving(dialect, model) as provider:
        for history in histories:
            await collect(provider.stream(Prompt("", history)))
    for request, history in zip(model.requests, histories, strict=True):
        assert dialect.sent(request.body) == [item.text for item in history]


# What goes wrong before, between and after the bytes


# Refusals and retries


@every
@pytest.mark.parametrize("other", DIALECTS, ids=[f"to {dialect.name}" for dialect in DIALECTS])
async def test_a_conversation_continues_over_another_wire(dialect: Dialect, other: Dialect) -> None:
    """What one wire keeps for itself must not reach another, and calls and results stay together."""
    if other is dialect:
        pytest.skip("the same wire")
    encrypted = {"type": "reasoning", "id": "rs_1", "encrypted_content": "zz"}
    first = [
        *dialect.thought("Hm."),
        {"type": "response.output_item.done", "output_index": 8, "item": encrypted},
        *calls(dialect, ("f", ONE)),
    ]
    script = [dialect.answer(first), dialect.answer(says(dialect, "ok"))]
    async with FakeModel(script) as model, serving(dialect, model) as provider:
        reply = (await collect(provider.stream(HELLO)))[-1]
        assert isinstance(reply, Reply)
        assert reply.opaque
        items = (UserItem("hi"), AssistantItem(reply.text, reply.calls, reply.opaque), ToolItem("id_0", "1"))
        await collect(provider.stream(Prompt("", items)))
    async with FakeModel([other.answer(says(other, "ok"))]) as switched, serving(other, switched) as provider:
        await collect(provider.stream(Prompt("", items)))
    back, across = model.requests[1].raw, switched.requests[0].raw
    assert (b'"zz"' in back) or (b'"Hm."' in back)
    assert b"zz" not in across
    assert b"Hm." not in across
    assert b"_items" not in back + across
    assert b"reasoning" not in across.replace(b"reasoning.encrypted_content", b"")
    assert across.count(b'"id_0"') == 2

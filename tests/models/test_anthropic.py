"""What is special about Anthropic Messages; what holds for every wire is in test_wires.py."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.errors import ProviderError
from buddy.models.anthropic import Anthropic
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
from buddy.models.message_fold import MessageFold
from buddy.models.message_items import encode_blocks
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import at_once
from tests.harness.dialects import DIALECTS, KEY, collect, says, serving
from tests.harness.fake_model import Answer, Chunk, FakeModel

CLAUDE = DIALECTS[2]
HELLO = Prompt("Be brief.", (UserItem("hi"),))
TOOL = ToolSpec("f", "Does f.", {"type": "object"})
MARK = {"cache_control": {"type": "ephemeral"}}
ITEMS: tuple[Item, ...] = (
    UserItem("hi"),
    AssistantItem("Sure", (ToolCallItem("functions.f:0", "f", '{"x": 1}'), ToolCallItem("b", "do it", "{nope"))),
    ToolItem("functions.f:0", "one"),
    ToolItem("b", "two"),
    UserItem(" "),
    AssistantItem("Yes", (), {"reasoning_content": "Hm", "completions_call_fields": {"a": {}}}),
    UserItem("more"),
)


def started(at: int, **block: object) -> Chunk:
    return {"type": "content_block_start", "index": at, "content_block": block}


def grown(at: int, **delta: object) -> Chunk:
    return {"type": "content_block_delta", "index": at, "delta": delta}


def stopped(at: int) -> Chunk:
    return {"type": "content_block_stop", "index": at}


# The stream that the API documents for a reply with thinking, text and calls; the signature is split like any text.
SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/=="
RECORDED: list[Chunk | str] = [
    {"type": "ping"},
    started(0, type="thinking", thinking="", signature=""),
    grown(0, type="thinking_delta", thinking="Let me look at "),
    grown(0, type="thinking_delta", thinking='"ü" 🌲.'),
    grown(0, type="signature_delta", signature=SIGNATURE[:20]),
    grown(0, type="signature_delta", signature=SIGNATURE[20:]),
    stopped(0),
    started(1, type="text", text=""),
    grown(1, type="text_delta", text="I'll look."),
    stopped(1),
    started(2, type="redacted_thinking", data="EmwKAhgBEgy3va3pzix/LafPsn4a"),
    stopped(2),
    started(3, type="tool_use", id="toolu_01T1x", name="f", input={}),
    grown(3, type="input_json_delta", partial_json=""),
    grown(3, type="input_json_delta", partial_json='{"x":'),
    grown(3, type="input_json_delta", partial_json=" 1}"),
    stopped(3),
    started(4, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
    grown(4, type="input_json_delta", partial_json='{"query":"x"}'),
    stopped(4),
    started(5, type="text", text=""),
    grown(5, type="text_delta", text="Then more."),
    grown(5, type="brand_new_delta", text="?"),
    stopped(5),
    *CLAUDE.ends("tool_calls"),
]


async def test_the_request_has_the_format_of_the_wire() -> None:
    async with FakeModel([CLAUDE.answer(says(CLAUDE, "Yes"))]) as model, serving(CLAUDE, model) as provider:
        await collect(provider.stream(Prompt("Be brief.", ITEMS, (TOOL,), 0.5, 0.9)))
    request = model.requests[0]
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in request.headers
    assert request.body == {
        "model": "m",
        "max_tokens": 32000,
        "system": [{"type": "text", "text": "Be brief.", **MARK}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Sure"},
                    {"type": "tool_use", "id": "functions_f_0_d6bdd4de", "name": "f", "input": {"x": 1}},
                    {"type": "tool_use", "id": "b", "name": "do_it_f51c362d", "input": {"unreadable": "{nope"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "functions_f_0_d6bdd4de", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "two"},
                    {"type": "text", "text": "(empty)", **MARK},
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]},
            {"role": "user", "content": [{"type": "text", "text": "more", **MARK}]},
        ],
        "tools": [{"name": "f", "description": "Does f.", "input_schema": {"type": "object"}}],
        "temperature": 0.5,
        "top_p": 0.9,
        "stream": True,
    }


async def test_what_is_cached_grows_from_request_to_request() -> None:
    """Each request begins with what the one before it had marked, and marks the same place again, so it is read from
    the cache; only what is new is written to it."""
    history: list[Item] = [UserItem("start")]
    async with FakeModel([CLAUDE.answer(says(CLAUDE, "ok"))] * 5) as model, serving(CLAUDE, model) as provider:
        for number in range(5):
            await collect(provider.stream(Prompt("Be brief.", tuple(history), (TOOL,))))
            call = ToolCallItem(f"call_{number}", "f", '{"x": 1}')
            history += [AssistantItem("Looking", (call,)), ToolItem(call.call_id, f"result {number}")]
            if number == 2:
                history[-2:] = [AssistantItem("Done"), UserItem("and now?")]
    prompts = [cacheable(request.body) for request in model.requests]
    for blocks, marks in prompts:
        assert len(marks) <= 4  # the API refuses more
        assert marks[0] == 1  # the instructions, after the tools
        assert marks[-1] == len(blocks) - 1
    for (blocks, marks), (longer, later) in itertools.pairwise(prompts):
        assert longer[: len(blocks)] == blocks
        assert later[-2:] == [marks[-1], len(longer) - 1]


def cacheable(body: dict[str, Any]) -> tuple[list[bytes], list[int]]:
    """The blocks of a request in the order in which the server reads them, and which of them end a cached part."""
    blocks = [*body["tools"], *body["system"]]
    blocks += [{"role": one["role"], **block} for one in body["messages"] for block in one["content"]]
    marks = [number for number, block in enumerate(blocks) if block.pop("cache_control", None)]
    return [msgspec.json.encode(block) for block in blocks], marks


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_a_url_with_or_without_the_version_reaches_the_api(suffix: str) -> None:
    async with FakeModel([CLAUDE.answer(says(CLAUDE, "Yes"))]) as model:
        provider = Anthropic("test", model.base_url.removesuffix("/v1") + suffix, KEY, "m", 8192)
        await collect(provider.stream(HELLO))
        await provider.close()
    assert model.requests[0].path == "/v1/messages"


@pytest.mark.parametrize(
    ("model_name", "expected"),
    [
        ("claude-sonnet-5-5", {"type": "adaptive", "display": "summarized"}),
        ("claude-opus-4-6", {"type": "adaptive", "display": "summarized"}),
        ("claude-opus-4-5-20251101", {"type": "enabled", "budget_tokens": 16000}),
        ("claude-sonnet-4-20250514", {"type": "enabled", "budget_tokens": 16000}),
        ("anthropic/claude-3-7-sonnet-latest", {"type": "enabled", "budget_tokens": 16000}),
        ("claude-3-5-haiku-20241022", None),
        ("kimi-k2.5", None),
    ],
)
async def test_claude_is_asked_to_think_in_the_way_of_its_generation(model_name: str, expected: object) -> None:
    async with FakeModel([CLAUDE.answer(says(CLAUDE, "Yes"))]) as model:
        provider = Anthropic("test", model.base_url, KEY, model_name, 8192)
        await collect(provider.stream(HELLO))
        await provider.close()
    assert model.requests[0].body.get("thinking") == expected


async def test_what_a_server_refuses_by_name_is_left_out_one_by_one() -> None:
    def no(message: str) -> Answer:
        fault = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        return Answer(status=400, body=msgspec.json.encode(fault))

    script = [
        no("thinking.adaptive.display: Extra inputs are not permitted"),
        no("adaptive thinking is not supported on this model"),
        no("max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens"),
        no("thinking: not supported by this model"),
        no("system.0.cache_control: Extra inputs are not permitted"),
        CLAUDE.answer(says(CLAUDE, "One")),
        CLAUDE.answer(says(CLAUDE, "Two")),
    ]
    async with FakeModel(script) as model:
        provider = Anthropic("test", model.base_url, KEY, "claude-next", 8192)
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("One")
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Two")
        await provider.close()
    bodies = [request.body for request in model.requests]
    assert [body.get("thinking") for body in bodies] == [
        {"type": "adaptive", "display": "summarized"},
        {"type": "adaptive"},
        {"type": "enabled", "budget_tokens": 16000},
        {"type": "enabled", "budget_tokens": 2048},
        None,
        None,
        None,
    ]
    # A limit may be refused because little context is left, which compaction changes.
    assert [body["max_tokens"] for body in bodies] == [32000, 32000, 32000, 4096, 4096, 4096, 32000]
    assert [b"cache_control" in request.raw for request in model.requests] == [True] * 5 + [False] * 2


# What only the server understands


async def test_thinking_is_returned_byte_for_byte_and_in_order() -> None:
    script = [CLAUDE.answer(RECORDED), CLAUDE.answer(says(CLAUDE, "ok"))]
    async with FakeModel(script) as model, serving(CLAUDE, model) as provider:
        pieces = await collect(provider.stream(HELLO))
        reply = pieces[-1]
        assert isinstance(reply, Reply)
        # through the log and back
        opaque = msgspec.json.decode(msgspec.json.encode(reply.opaque), type=dict[str, Any])
        items = (UserItem("hi"), AssistantItem(reply.text, reply.calls, opaque), ToolItem("toolu_01T1x", "1"))
        await collect(provider.stream(Prompt("", items)))
    assert (reply.text, reply.finish) == ("I'll look.\n\nThen more.", "tool_calls")
    assert reply.calls == (ToolCallItem("toolu_01T1x", "f", '{"x": 1}'),)
    thoughts = "".join(piece.text for piece in pieces if isinstance(piece, ThinkingDelta))
    assert thoughts == 'Let me look at "ü" 🌲.'
    assert model.requests[1].body["messages"][1] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": thoughts, "signature": SIGNATURE},
            {"type": "text", "text": "I'll look."},
            {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4a"},
            {"type": "tool_use", "id": "toolu_01T1x", "name": "f", "input": {"x": 1}},
            {"type": "text", "text": "Then more."},
        ],
    }
    assert [block["type"] for block in blocks_of(items[1], "another server")] == ["text", "tool_use"]


async def test_a_signature_that_is_refused_does_not_end_the_session() -> None:
    no = Answer(
        status=400, body=b'{"error":{"message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}'
    )
    script = [CLAUDE.answer(RECORDED), no, CLAUDE.answer(says(CLAUDE, "ok"))]
    async with FakeModel(script) as model, serving(CLAUDE, model) as provider:
        reply = (await collect(provider.stream(HELLO)))[-1]
        assert isinstance(reply, Reply)
        items = (UserItem("hi"), AssistantItem(reply.text, reply.calls, reply.opaque), ToolItem("toolu_01T1x", "1"))
        assert (await collect(provider.stream(Prompt("", items))))[-1] == Reply("ok")
    assert [b'"signature"' in request.raw for request in model.requests] == [False, True, False]


async def test_a_truncated_reply_drops_trailing_thinking() -> None:
    cut = CLAUDE.answer([*RECORDED[:12], *CLAUDE.ends("length")])
    async with FakeModel([cut]) as model, serving(CLAUDE, model) as provider:
        reply = (await collect(provider.stream(HELLO)))[-1]
    assert isinstance(reply, Reply)
    assert (reply.text, reply.finish, reply.truncated) == ("I'll look.", "length", True)
    turn = AssistantItem(reply.text, reply.calls, reply.opaque)
    assert [block["type"] for block in blocks_of(turn, (reply.opaque or {})["anthropic_origin"])] == [
        "thinking",
        "text",
    ]


def blocks_of(turn: Item, origin: str) -> list[dict[str, Any]]:
    sent = b"[" + at_once(encode_blocks(turn, origin, keeps_thinking=True)) + b"]"
    return msgspec.json.decode(sent, type=list[dict[str, Any]])


# Usage and endings


async def test_usage_counts_what_was_read_from_the_cache_and_written_to_it() -> None:
    counts = {"input_tokens": 7, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}
    opening = {"type": "message_start", "message": {"usage": counts}}
    answer = Answer([opening, *says(CLAUDE, "Hi", usage={"output_tokens": 9})], done=False)
    async with FakeModel([answer]) as model, serving(CLAUDE, model) as provider:
        reply = (await collect(provider.stream(HELLO)))[-1]
    assert reply == Reply("Hi", usage=TokenUsage(127, 9, 100, None, 20))


@pytest.mark.parametrize(
    ("reason", "finish", "truncated"),
    [
        ("end_turn", "stop", False),
        ("stop_sequence", "stop", False),
        ("pause_turn", "stop", False),
        ("something_new", "stop", False),
        ("max_tokens", "length", True),
        ("model_context_window_exceeded", "length", True),
        ("refusal", "content_filter", True),
    ],
)
async def test_why_a_reply_ended(reason: str, finish: str, *, truncated: bool) -> None:
    chunks = [*CLAUDE.text("Hi"), {"type": "message_delta", "delta": {"stop_reason": reason}}]
    async with FakeModel([CLAUDE.answer(chunks)]) as model, serving(CLAUDE, model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Hi", (), finish, truncated)


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [
        ("overloaded_error", True),
        ("api_error", True),
        ("rate_limit_error", True),
        ("timeout_error", True),
        ("invalid_request_error", False),
        ("authentication_error", False),
        ("billing_error", False),
    ],
)
async def test_an_error_in_the_stream_is_retried_if_it_passes(kind: str, *, retryable: bool) -> None:
    async with FakeModel([CLAUDE.answer([CLAUDE.failed("no", kind)])]) as model, serving(CLAUDE, model) as provider:
        with pytest.raises(ProviderError, match="failed: no") as failure:
            await collect(provider.stream(HELLO))
    assert failure.value.retryable is retryable


# Hostile streams

NAMES = ["type", "index", "message", "content_block", "delta", "usage", "error", "content", "text", "thinking"]
MORE = ["signature", "data", "id", "name", "input", "partial_json", "stop_reason", "input_tokens", "output_tokens"]
TYPES = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
PARTS = ["message_stop", "text", "thinking", "redacted_thinking", "tool_use", "text_delta", "thinking_delta"]
kinds = st.sampled_from([*TYPES, *PARTS, "signature_delta", "input_json_delta", "x"])
leaves = st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=4) | kinds
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, *MORE]), inner, max_size=5),
    max_leaves=20,
)
events = st.fixed_dictionaries({"type": kinds}, optional=dict.fromkeys(NAMES[1:7], anything))


@given(st.lists(events | anything, max_size=8))
def test_any_events_are_a_reply_that_can_be_sent_back_or_a_provider_error(values: list[object]) -> None:
    fold = MessageFold("here")
    try:
        pieces = fold.feed([msgspec.json.encode(value) for value in values])
        reply = fold.reply({"a"})
    except ProviderError:
        return
    assert not (reply.truncated and reply.calls)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == reply.text
    blocks = blocks_of(AssistantItem(reply.text, reply.calls, reply.opaque), "here")
    assert sum(block["type"] == "tool_use" for block in blocks) == len(reply.calls)
    assert all(isinstance(block["input"], dict) for block in blocks if block["type"] == "tool_use")
    assert not blocks or "thinking" not in blocks[-1]["type"]
    assert len({call.call_id for call in reply.calls}) == len(reply.calls)

"""What is special about Gemini; what holds for every wire is in test_wires.py."""

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
from buddy.models.credentials import ApiKey
from buddy.models.gemini import Gemini
from buddy.models.gemini_fold import GeminiFold
from buddy.models.gemini_items import GeminiParts
from buddy.models.listing import list_models
from buddy.models.wires import Endpoint, make_wire
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import at_once
from tests.harness.dialects import DIALECTS, KEY, collect, says, serving
from tests.harness.fake_model import Answer, Chunk, FakeModel

GEMINI = DIALECTS[3]
HELLO = Prompt("Be brief.", (UserItem("hi"),))
TOOL = ToolSpec("f", "Does f.", {"type": "object"})
ITEMS: tuple[Item, ...] = (
    UserItem("hi"),
    AssistantItem("Sure", (ToolCallItem("a", "f", '{"x": 1}'), ToolCallItem("b", "g", "{nope"))),
    ToolItem("a", "one"),
    ToolItem("b", "two"),
    UserItem("and?"),
    AssistantItem("Yes", (), {"reasoning_content": "Hm", "anthropic_items": []}),
)


def chunk(*parts: dict[str, Any], **more: object) -> Chunk:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}]}


# A reply as the API streams it: thoughts without a signature, calls and texts with one, and one at the very end.
RECORDED: list[Chunk | str] = [
    chunk({"text": "**Looking**\n", "thought": True}),
    chunk({"text": "I'll "}),
    chunk({"text": "look."}),
    chunk({"functionCall": {"id": "c1", "name": "f", "args": {"x": 1}}, "thoughtSignature": "CpcCAdHtim+/=="}),
    chunk({"functionCall": {"id": "c2", "name": "f", "args": {}}}),
    chunk({"text": "Soon.", "thoughtSignature": "EjQKMgG5"}),
    {**chunk({"text": "", "thoughtSignature": "ZW5k"}, finishReason="STOP"), "usageMetadata": {"promptTokenCount": 9}},
]


async def test_the_request_has_the_format_of_the_wire() -> None:
    async with FakeModel([GEMINI.answer(says(GEMINI, "Yes"))]) as model, serving(GEMINI, model) as provider:
        await collect(provider.stream(Prompt("Be brief.", ITEMS, (TOOL,), 0.5, 0.9)))
    request = model.requests[0]
    assert request.path == "/v1/models/m:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == KEY
    assert "authorization" not in request.headers
    assert request.body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Sure"},
                    {"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}},
                    {"functionCall": {"id": "b", "name": "g", "args": {"unreadable": "{nope"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "a", "name": "f", "response": {"output": "one"}}},
                    {"functionResponse": {"id": "b", "name": "g", "response": {"output": "two"}}},
                    {"text": "and?"},
                ],
            },
            {"role": "model", "parts": [{"text": "Yes"}]},
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "f", "description": "Does f.", "parametersJsonSchema": {"type": "object"}}
                ]
            }
        ],
        "generationConfig": {"temperature": 0.5, "topP": 0.9, "thinkingConfig": {"includeThoughts": True}},
    }


@pytest.mark.parametrize(("suffix", "version"), [("", "v1beta"), ("/", "v1beta"), ("/v1beta", "v1beta"), ("/v1", "v1")])
async def test_a_url_with_or_without_the_version_reaches_the_api(suffix: str, version: str) -> None:
    async with FakeModel([GEMINI.answer(says(GEMINI, "Yes"))]) as model:
        at = Endpoint("test", model.base_url.removesuffix("/v1") + suffix, KEY, "models/a b", 8192)
        provider = make_wire("gemini", at)
        await collect(provider.stream(HELLO))
        await provider.close()
    assert model.requests[0].path == f"/{version}/models/a%20b:streamGenerateContent?alt=sse"


async def test_signatures_are_returned_byte_for_byte_on_their_own_parts() -> None:
    script = [GEMINI.answer(RECORDED), GEMINI.answer(says(GEMINI, "ok"))]
    async with FakeModel(script) as model, serving(GEMINI, model) as provider:
        pieces = await collect(provider.stream(HELLO))
        reply = pieces[-1]
        assert isinstance(reply, Reply)
        # through the log and back
        opaque = msgspec.json.decode(msgspec.json.encode(reply.opaque), type=dict[str, Any])
        turn = AssistantItem(reply.text, reply.calls, opaque)
        await collect(provider.stream(Prompt("", (UserItem("hi"), turn, ToolItem("c1", "1"), ToolItem("c2", "2")))))
    assert (reply.text, reply.finish, reply.usage) == ("I'll look.Soon.", "tool_calls", TokenUsage(9, 0))
    assert [call.call_id for call in reply.calls] == ["c1", "c2"]
    assert ThinkingDelta("**Looking**\n") in pieces
    assert model.requests[1].body["contents"][1]["parts"] == [
        {"text": "I'll look."},
        {"functionCall": {"id": "c1", "name": "f", "args": {"x": 1}}, "thoughtSignature": "CpcCAdHtim+/=="},
        {"functionCall": {"id": "c2", "name": "f", "args": {}}},
        {"text": "Soon.", "thoughtSignature": "EjQKMgG5"},
        {"text": "", "thoughtSignature": "ZW5k"},
    ]
    elsewhere = msgspec.json.decode(b"[" + at_once(GeminiParts("another").encode(turn)) + b"]")
    assert "thoughtSignature" not in str(elsewhere)


async def test_what_a_server_refuses_by_name_is_left_out() -> None:
    def no(message: str) -> Answer:
        fault = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
        return Answer(status=400, body=msgspec.json.encode(fault))

    script = [
        no("Thinking_config.include_thoughts is only enabled when thinking is enabled."),
        no('Invalid JSON payload. Unknown name "parametersJsonSchema" at tools[0]'),
        no("Function call is missing a valid thought_signature"),
        GEMINI.answer(says(GEMINI, "One")),
    ]
    async with FakeModel(script) as model:
        provider = Gemini("test", model.base_url, KEY, "gemma", 8192)
        assert (await collect(provider.stream(Prompt("", (UserItem("hi"),), (TOOL,)))))[-1] == Reply("One")
        await provider.close()
    assert [b"thinkingConfig" in request.raw for request in model.requests] == [True, False, False, False]
    assert [b'"parameters":' in request.raw for request in model.requests] == [False, False, True, True]


@pytest.mark.parametrize(
    ("reason", "finish", "truncated"),
    [("STOP", "stop", False), ("MAX_TOKENS", "length", True), ("SAFETY", "content_filter", True)],
)
async def test_why_a_reply_ended(reason: str, finish: str, *, truncated: bool) -> None:
    answer = GEMINI.answer([chunk({"text": "Hi"}, finishReason=reason)])
    async with FakeModel([answer]) as model, serving(GEMINI, model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Hi", (), finish, truncated)


@pytest.mark.parametrize(
    ("answer", "message", "retryable"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "blocked the prompt: SAFETY", False),
        (chunk(finishReason="MALFORMED_FUNCTION_CALL", finishMessage="print(x)"), r"CALL \(print\(x\)\)", True),
        ({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}, "overloaded", True),
        ({"error": {"message": "quota", "status": "RESOURCE_EXHAUSTED"}}, "quota", True),
        ({"error": {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}}, "bad", False),
    ],
)
async def test_a_reply_that_failed_is_an_error(answer: Chunk, message: str, *, retryable: bool) -> None:
    async with FakeModel([GEMINI.answer([answer])]) as model, serving(GEMINI, model) as provider:
        with pytest.raises(ProviderError, match=message) as failure:
            await collect(provider.stream(HELLO))
    assert failure.value.retryable is retryable


async def test_the_delay_that_the_body_asks_for_is_kept() -> None:
    body = b'{"error":{"code":429,"message":"slow","details":[{"@type":"RetryInfo","retryDelay": "34.5s"}]}}'
    async with FakeModel([Answer(status=429, body=body)]) as model, serving(GEMINI, model) as provider:
        with pytest.raises(ProviderError, match="slow") as failure:
            await collect(provider.stream(HELLO))
    assert failure.value.retry_after == 34.5


async def test_the_models_of_the_server_are_listed_by_the_names_it_takes() -> None:
    listed = {"models": [{"name": "models/gemini-pro-latest", "inputTokenLimit": 1048576}]}
    async with FakeModel([Answer(body=msgspec.json.encode(listed))]) as model:
        found = await list_models(model.base_url, ApiKey(KEY, "gemini"), api="gemini")
    assert {name: facts.context_window for name, facts in found.models.items()} == {"gemini-pro-latest": 1048576}
    assert model.requests[0].headers["x-goog-api-key"] == KEY


# Hostile streams

NAMES = ["candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall", "name", "args", "id"]
MORE = ["finishReason", "usageMetadata", "promptTokenCount", "promptFeedback", "blockReason", "error", "index"]
leaves = st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=4) | st.sampled_from(["STOP", "MAX_TOKENS"])
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, *MORE]), inner, max_size=5),
    max_leaves=20,
)
parts = st.lists(st.dictionaries(st.sampled_from(NAMES[3:7]), anything, max_size=3) | anything, max_size=4)
chunks = parts.map(lambda found: {"candidates": [{"content": {"parts": found}, "finishReason": None}]})


@given(st.lists(chunks | anything, max_size=6))
def test_any_events_are_a_reply_that_can_be_sent_back_or_a_provider_error(values: list[object]) -> None:
    fold = GeminiFold("here")
    try:
        pieces = fold.feed([msgspec.json.encode(value) for value in values])
        reply = fold.reply({"a"})
    except ProviderError:
        return
    assert not (reply.truncated and reply.calls)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == reply.text
    sent = at_once(GeminiParts("here").encode(AssistantItem(reply.text, reply.calls, reply.opaque)))
    found = msgspec.json.decode(b"[" + sent + b"]", type=list[dict[str, Any]])
    assert sum("functionCall" in part for part in found) == len(reply.calls)
    assert "".join(part.get("text", "") for part in found if not part.get("thought")) == reply.text

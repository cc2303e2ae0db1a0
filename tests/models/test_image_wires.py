"""Images over every wire: where they are in a request, and what happens to those that a server does not take."""

import base64
from typing import Any

import pytest

from buddy.errors import ProviderError
from buddy.models.contract import AssistantItem, Image, Item, Notice, Prompt, Reply, ToolItem, UserItem
from buddy.protocol.shapes import ToolCallItem
from tests.harness.dialects import DIALECTS, Dialect, collect, says, serving
from tests.harness.fake_model import Answer, FakeModel
from tests.harness.pictures import jpeg, png

FIRST, SECOND = base64.b64encode(png()).decode(), base64.b64encode(jpeg()).decode()
CONTENTS = {"one": FIRST.encode(), "two": SECOND.encode()}
ONE = Image("one", "image/png", "shot.png", 3, 2)
TWO = Image("two", "image/jpeg", "", 3, 2)
CALLS = (ToolCallItem("a", "f", "{}"), ToolCallItem("b", "f", "{}"))
ITEMS: tuple[Item, ...] = (
    UserItem("What is this?", (ONE,)),
    AssistantItem("", CALLS),
    ToolItem("a", "a picture", (TWO,)),
    ToolItem("b", "nothing"),
    UserItem("And now?"),
)
EXPECTED: dict[str, list[Any]] = {
    "completions": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{FIRST}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "a picture"},
        {"role": "tool", "tool_call_id": "b", "content": "nothing"},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{SECOND}"}}],
        },
        {"role": "user", "content": "And now?"},
    ],
    "responses": [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{FIRST}"},
            ],
        },
        {
            "type": "function_call_output",
            "call_id": "a",
            "output": [
                {"type": "input_text", "text": "a picture"},
                {"type": "input_image", "image_url": f"data:image/jpeg;base64,{SECOND}"},
            ],
        },
        {"type": "function_call_output", "call_id": "b", "output": "nothing"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [{"text": "What is this?"}, {"inlineData": {"mimeType": "image/png", "data": FIRST}}],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "a", "name": "f", "response": {"output": "a picture"}}},
                {"inlineData": {"mimeType": "image/jpeg", "data": SECOND}},
                {"functionResponse": {"id": "b", "name": "f", "response": {"output": "nothing"}}},
                {"text": "And now?"},
            ],
        },
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": FIRST}},
                {"type": "text", "text": "What is this?", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "content": [
                        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": SECOND}},
                        {"type": "text", "text": "a picture"},
                    ],
                },
                {"type": "tool_result", "tool_use_id": "b", "content": "nothing"},
                {"type": "text", "text": "And now?", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ],
}
every = pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])


def conversation(body: dict[str, Any]) -> list[dict[str, Any]]:
    """What was sent, but for the assistant's turns."""
    sent: list[dict[str, Any]] = body.get("messages") or body.get("input") or body.get("contents") or []
    theirs = ("assistant", "model")
    return [item for item in sent if item.get("role") not in theirs and item.get("type") != "function_call"]


def said(dialect: Dialect, text: str = "ok") -> Answer:
    return dialect.answer(says(dialect, text))


@every
async def test_images_of_messages_and_results_are_in_the_places_of_the_api(dialect: Dialect) -> None:
    async with FakeModel([said(dialect)]) as model, serving(dialect, model) as provider:
        await collect(provider.stream(Prompt("", ITEMS, images=CONTENTS)))
    assert conversation(model.requests[0].body) == EXPECTED[dialect.name]


@every
async def test_a_message_that_is_only_an_image_has_no_empty_text(dialect: Dialect) -> None:
    """Anthropic refuses a text without a character."""
    items = [UserItem("", (ONE,))]
    async with FakeModel([said(dialect), said(dialect)]) as model, serving(dialect, model) as provider:
        await collect(provider.stream(Prompt("", items, images=CONTENTS)))
        await collect(provider.stream(Prompt("", items)))
    seen, blind = (conversation(request.body)[-1] for request in model.requests)
    content: Any = seen.get("content") or seen.get("parts")
    assert len(content) == 1
    assert FIRST in str(content)
    assert "[image 'shot.png' (PNG, 3x2) is not shown to you" in str(blind)
    assert "\\n" not in str(blind)


@every
async def test_an_image_without_a_content_is_described(dialect: Dialect) -> None:
    async with FakeModel([said(dialect), said(dialect)]) as model, serving(dialect, model) as provider:
        await collect(provider.stream(Prompt("", ITEMS)))
        await collect(provider.stream(Prompt("", ITEMS, images={"two": CONTENTS["two"]})))
    blind, partly = (request.raw.decode() for request in model.requests)
    assert "[image 'shot.png' (PNG, 3x2) is not shown to you: this model does not take images]" in blind
    assert "[image (JPEG, 3x2) is not shown to you" in blind
    assert FIRST not in blind + partly
    assert SECOND not in blind


@every
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Invalid content type. image_url is only supported by certain models."),
        (400, "image exceeds 5 MB maximum; thinking: stream"),
        (404, "No endpoints found that support image input"),
        (413, "Request exceeds the maximum size"),
        (422, "could not process media"),
    ],
)
async def test_an_image_that_is_refused_is_described_and_the_conversation_goes_on(
    dialect: Dialect, status: int, message: str
) -> None:
    no = Answer(status=status, body=b'{"error":{"message":"%s"}}' % message.encode())
    history = ITEMS[:1]
    script = [no, said(dialect, "One"), said(dialect, "Two")]
    async with FakeModel(script) as model, serving(dialect, model) as provider:
        pieces = await collect(provider.stream(Prompt("", history, images=CONTENTS)))
        assert (await collect(provider.stream(Prompt("", history, images=CONTENTS))))[-1] == Reply("Two")
    assert pieces[-1] == Reply("One")
    notice = pieces[0]
    assert isinstance(notice, Notice)
    assert (notice.code, message in notice.detail) == ("IMAGE_LEFT_OUT", True)
    assert [FIRST in request.raw.decode() for request in model.requests] == [True, False, False]
    assert b"the model API refused it" in model.requests[2].raw


@every
async def test_images_that_were_accepted_stay_when_a_new_one_is_refused(dialect: Dialect) -> None:
    no = Answer(status=400, body=b'{"error":{"message":"bad image"}}')
    first, then = ITEMS[:1], (*ITEMS[:1], AssistantItem("A dot."), UserItem("And this?", (TWO,)))
    async with FakeModel([said(dialect), no, said(dialect), no, no]) as model, serving(dialect, model) as provider:
        await collect(provider.stream(Prompt("", first, images=CONTENTS)))
        await collect(provider.stream(Prompt("", then, images=CONTENTS)))
        # Now even the accepted one is refused: it goes, too, and then the error is not about images.
        with pytest.raises(ProviderError, match="bad image"):
            await collect(provider.stream(Prompt("", then, images=CONTENTS)))
    bodies = [request.raw.decode() for request in model.requests]
    assert [(FIRST in body, SECOND in body) for body in bodies] == [
        (True, False),
        (True, True),
        (True, False),
        (True, False),
        (False, False),
    ]


@every
async def test_an_image_that_a_server_only_fails_on_is_given_up(dialect: Dialect) -> None:
    no = Answer(status=500, body=b"oops")
    async with FakeModel([no, no, said(dialect)]) as model, serving(dialect, model) as provider:
        with pytest.raises(ProviderError, match="500"):
            await collect(provider.stream(Prompt("", ITEMS[:1], images=CONTENTS)))
        pieces = await collect(provider.stream(Prompt("", ITEMS[:1], images=CONTENTS)))
    assert pieces[-1] == Reply("ok")
    assert [FIRST in request.raw.decode() for request in model.requests] == [True, True, False]


@every
async def test_an_error_that_is_not_about_images_costs_none(dialect: Dialect) -> None:
    no = Answer(status=400, body=b'{"error":{"message":"your credit balance is too low"}}')
    async with FakeModel([no, no, said(dialect)]) as model, serving(dialect, model) as provider:
        with pytest.raises(ProviderError, match="credit"):
            await collect(provider.stream(Prompt("", ITEMS[:1], images=CONTENTS)))
        assert (await collect(provider.stream(Prompt("", ITEMS[:1], images=CONTENTS))))[-1] == Reply("ok")
    assert [FIRST in request.raw.decode() for request in model.requests] == [True, False, True]

"""The facts about a model, and the cost of its replies."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.config.resolve import UNKNOWN_CONTEXT, Resolved
from buddy.models.catalog import Facts, Prices, known_offline, shipped_facts
from buddy.models.catalog_provider import CatalogProvider
from buddy.models.contract import Image, Notice, Piece, Prompt, Reply, TextDelta, TokenUsage, UserItem
from buddy.models.credentials import ApiKey
from buddy.models.listing import AGAIN_AFTER, Listing, Listings, list_models, read_models
from tests.harness.fake_model import Answer, FakeModel, Request
from tests.harness.models import StepModel
from tests.harness.models import answer as replies

OPENAI = "https://api.openai.com/v1"
TABLE = Path(sys.modules["buddy.models.catalog"].__file__ or "").with_name("models.toml")
PROMPT = Prompt("", [UserItem("hi")])


def resolved(model: str = "m", base_url: str = "http://127.0.0.1:9/v1", **more: object) -> Resolved:
    fields = {"context_limit": UNKNOWN_CONTEXT, "context_known": False} | more
    return Resolved("p", "completions", base_url, "", model, **fields)  # pyright: ignore[reportArgumentType] - passed on as given


# --- the shipped table -----------------------------------------------------------------------------------------------


def test_a_model_is_known_by_its_name_its_vendor_and_its_date():
    known = shipped_facts("gpt-5", OPENAI)
    assert known.context_window == 400_000
    assert known.prices is not None
    for name in ("openai/gpt-5", "GPT-5", "gpt-5-2025-08-07", "vendor/gpt-5:free"):
        assert shipped_facts(name, OPENAI) == known
    assert shipped_facts("claude-sonnet-4-5-20250929").context_window == 200_000


def test_a_price_applies_only_to_its_own_server():
    assert shipped_facts("gpt-5", OPENAI).prices is not None
    for server in (
        "http://127.0.0.1:11434/v1",
        "https://openrouter.ai/api/v1",
        "https://api.openai.com.evil.example",
        "",
    ):
        assert shipped_facts("gpt-5", server) == Facts(400_000)


def test_unknown_facts_are_not_guessed():
    assert shipped_facts("a-model-of-my-own", OPENAI) == Facts()


def test_a_login_has_no_token_prices():
    assert known_offline(resolved("gpt-5", OPENAI)).prices is not None
    assert known_offline(resolved("gpt-5", OPENAI, auth="login")) == Facts(400_000)


def test_the_table_is_small_and_every_rule_can_be_found():
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("  {")]
    assert 100 < len(lines) <= 400
    for line in lines:
        pattern = line.split('pattern = "')[1].split('"')[0]
        assert shipped_facts(pattern).context_window is not None


@pytest.mark.skipif(find_spec("genai_prices") is None, reason="genai-prices is not installed")
def test_the_table_is_what_the_tool_generates():
    from importlib.metadata import version

    if f'"genai-prices {version("genai-prices")}"' not in TABLE.read_text():
        pytest.skip("another version of genai-prices made it")
    import runpy

    tool = runpy.run_path(str(TABLE.parents[3] / "tools" / "models_table.py"))
    assert tool["make_table"]() == TABLE.read_text()


def test_cached_tokens_have_their_own_price():
    usage = TokenUsage(1_000_000, 100_000, cached_tokens=400_000)
    assert Prices(2.0, 10.0, 0.5).cost(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 1.0)
    assert Prices(2.0, 10.0).cost(usage) == pytest.approx(3.0)


# --- a server's own list ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "facts"),
    [
        ({"context_length": 163840}, Facts(163840)),
        ({"max_model_len": 32768}, Facts(32768)),
        ({"context_window": "131072"}, Facts(131072)),
        ({"max_context_length": 32768}, Facts(32768)),
        ({"meta": {"n_ctx": 4096, "n_ctx_train": 131072}}, Facts(4096)),
        ({"pricing": {"prompt": "0.000002", "completion": "0.00001"}}, Facts(None, Prices(2.0, 10.0))),
        ({"pricing": {"input": 0.5, "output": 1.5}}, Facts(None, Prices(0.5, 1.5))),
        ({"pricing": {"prompt": "-1", "completion": "-1"}}, Facts()),
        ({"context_length": True, "pricing": []}, Facts()),
        ({"context_length": 0, "max_model_len": 8192}, Facts(8192)),
        ({"context_length": "1e400", "max_model_len": 10**30}, Facts()),
    ],
)
def test_all_spellings_of_the_servers_are_understood(entry: dict[str, object], facts: Facts):
    for answer in ({"data": [{"id": "m", **entry}]}, {"models": [{"slug": "m", **entry}]}, [{"id": "m", **entry}]):
        found = read_models(json.dumps(answer).encode())["m"]
        assert found.context_window == facts.context_window
        if facts.prices is None:
            assert found.prices is None
        else:
            assert found.prices is not None
            assert found.prices.input == pytest.approx(facts.prices.input)


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda c: (
        st.lists(c)
        | st.dictionaries(st.sampled_from(["data", "models", "id", "pricing", "prompt", "meta", "context_length"]), c)
    ),
)


@settings(max_examples=40)
@given(anything)
def test_any_json_answer_can_be_read(answer: object):
    read_models(json.dumps(answer).encode())


@given(st.binary())
def test_any_bytes_can_be_read(body: bytes):
    read_models(body)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (Answer(status=401, body=b""), "the key was refused (HTTP 401)"),
        (Answer(status=404, body=b""), "the server has no model list (HTTP 404)"),
        (Answer(status=500, body=b""), "HTTP 500"),
        (Answer(body=b"<html>"), "the model list is empty or unreadable"),
        (Answer(hang="headers"), "no answer within 0.2 s"),
        (Answer(body=b"{", hang="body"), "no answer within 0.2 s"),
    ],
)
async def test_a_missing_list_is_explained(answer: Answer, trouble: str):
    async with FakeModel(lambda _: answer) as model:
        listing = await list_models(model.base_url, ApiKey("key"), seconds=0.2)
    assert listing == Listing(trouble=trouble)


async def test_an_unreachable_server_is_reported():
    assert (await list_models("http://127.0.0.1:9/v1", ApiKey(""))).trouble == "no connection"


async def test_a_list_is_requested_once_and_again_later_after_a_failure():
    now = 0.0
    lists = iter([Answer(status=500, body=b""), Answer(body=b'{"data": [{"id": "m", "max_model_len": 99}]}')])
    async with FakeModel(lambda _: next(lists)) as model:
        listings = Listings(clock=lambda: now)
        assert (await listings.of(model.base_url, ApiKey("k"))).trouble
        assert (await listings.of(model.base_url, ApiKey("k"))).trouble
        now = AGAIN_AFTER + 1
        for _ in range(3):
            assert (await listings.of(model.base_url, ApiKey("k"))).facts("m") == Facts(99)


# --- a provider that knows its model ---------------------------------------------------------------------------------


class Speaker:
    """A model that says one word and reports this usage."""

    profile, model, api, context_limit = "p", "m", "completions", 1

    def __init__(self, usage: TokenUsage | None = None) -> None:
        self.usage = usage
        self.is_closed = False

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        assert prompt.items
        yield TextDelta("word")
        yield Reply("word", usage=self.usage)

    async def close(self) -> None:
        self.is_closed = True


async def asked(provider: CatalogProvider) -> list[Piece]:
    return [piece async for piece in provider.stream(PROMPT)]


def reply_of(pieces: list[Piece]) -> Reply:
    (reply,) = (piece for piece in pieces if isinstance(piece, Reply))
    return reply


USAGE = TokenUsage(1_000_000, 1_000_000)
SERVER = Listing({"m": Facts(5000, Prices(3.0, 4.0))})


async def answers(listing: Listing) -> Listing:
    return listing


async def never() -> Listing:
    raise AssertionError("the server need not be asked")


async def test_a_complete_profile_takes_precedence_and_no_server_is_asked():
    profile = resolved(context_limit=777, context_known=True, input_price=1.0, output_price=2.0)
    provider = CatalogProvider(Speaker(USAGE), profile, never)
    assert provider.context_limit == 777
    usage = reply_of(await asked(provider)).usage
    assert usage is not None
    assert usage.cost_usd == pytest.approx(3.0)


async def test_the_server_fills_in_what_the_profile_leaves_open():
    provider = CatalogProvider(Speaker(USAGE), resolved(context_limit=777, context_known=True), lambda: answers(SERVER))
    usage = reply_of(await asked(provider)).usage
    assert usage is not None
    assert (provider.context_limit, usage.cost_usd) == (777, pytest.approx(7.0))


async def test_the_server_takes_precedence_over_the_table():
    provider = CatalogProvider(Speaker(), resolved("gpt-5", OPENAI), lambda: answers(SERVER))
    assert provider.context_limit == 400_000
    provider.model = "m"
    await asked(provider)
    assert provider.context_limit == 5000


async def test_an_unknown_window_is_reported_once_with_the_key_to_set():
    provider = CatalogProvider(Speaker(), resolved(), lambda: answers(Listing(trouble="HTTP 500")))
    first, second = await asked(provider), await asked(provider)
    notices = [piece for piece in first if isinstance(piece, Notice)]
    assert [notice.code for notice in notices] == ["CONTEXT_UNKNOWN"]
    assert "8,192" in notices[0].message
    assert notices[0].detail == "set context_limit in [models.p]"
    assert not any(isinstance(piece, Notice) for piece in second)
    assert provider.context_limit == UNKNOWN_CONTEXT


async def test_a_cost_reported_by_the_server_is_kept():
    usage = TokenUsage(1_000_000, 0, cost_usd=0.123)
    provider = CatalogProvider(Speaker(usage), resolved(), lambda: answers(SERVER))
    assert reply_of(await asked(provider)).usage == usage


async def test_without_a_price_the_cost_stays_unknown():
    provider = CatalogProvider(Speaker(USAGE), resolved(), lambda: answers(Listing(trouble="no")))
    assert reply_of(await asked(provider)).usage == USAGE


async def test_deltas_do_not_wait_for_the_list():
    asking = asyncio.Event()

    async def slow() -> Listing:
        await asking.wait()
        return SERVER

    provider = CatalogProvider(Speaker(), resolved(), slow)
    pieces = aiter(provider.stream(PROMPT))
    assert await anext(pieces) == TextDelta("word")
    asking.set()
    assert [piece async for piece in pieces] == [Reply("word")]
    assert provider.context_limit == 5000


async def test_leaving_a_stream_cancels_the_request_for_the_list():
    ended = asyncio.Event()

    async def slow() -> Listing:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    pieces = CatalogProvider(Speaker(), resolved(), slow).stream(PROMPT)
    await anext(aiter(pieces))
    await asyncio.sleep(0)
    assert isinstance(pieces, AsyncGenerator)
    await pieces.aclose()
    assert ended.is_set()


async def test_the_list_is_requested_from_the_server():
    def answer(request: Request) -> Answer:
        paths.append(request.path)
        return Answer(body=b'{"data": [{"id": "m", "context_length": 4321}]}')

    paths: list[str] = []
    async with FakeModel(answer) as model:
        listings = Listings()
        provider = CatalogProvider(Speaker(), resolved(), lambda: listings.of(model.base_url, ApiKey("k")))
        await asked(provider)
    assert (provider.context_limit, paths) == (4321, ["/v1/models"])


@pytest.mark.parametrize(
    ("entry", "vision", "expected"),
    [
        ({"architecture": {"input_modalities": ["text", "image"]}}, None, True),
        ({"architecture": {"input_modalities": ["text"]}}, None, False),
        ({"capabilities": {"vision": False}}, None, False),
        ({"capabilities": {"image_input": {"supported": True}}}, None, True),
        ({"capabilities": ["vision"]}, None, True),
        ({}, None, True),
        ({"capabilities": {"vision": False}}, True, True),
        ({}, False, False),
    ],
)
async def test_images_are_shown_unless_the_model_is_known_not_to_take_any(
    entry: dict[str, object], vision: bool | None, *, expected: bool
) -> None:
    listed = json.dumps({"data": [{"id": "step-by-step", "context_length": 9000, **entry}]}).encode()
    inner = StepModel(replies())

    async def ask() -> Listing:
        return Listing(read_models(listed))

    provider = CatalogProvider(inner, resolved(vision=vision), ask)
    async for _ in provider.stream(Prompt("", (UserItem("hi", (Image("b", "image/png"),)),), images={"b": b"x"})):
        pass
    assert bool(inner.images[0]) is expected

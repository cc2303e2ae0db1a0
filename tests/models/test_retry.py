"""Failures that time may fix are tried again, visibly and within bounds; others are not."""

from collections.abc import AsyncIterator, Sequence

import pytest

from buddy.errors import ProviderError
from buddy.models.completions import Completions
from buddy.models.contract import Piece, Prompt, Reply, Restart, Retrying, TextDelta, TokenUsage, UserItem
from buddy.models.retry import RetryingProvider
from buddy.models.script import Script, ScriptedError, ScriptedReply
from buddy.models.scripted import Scripted
from tests.harness.fake_model import Answer, FakeModel, delta, says

HELLO = Prompt("", (UserItem("hi"),))
BUSY = Answer(status=503, body=b"busy")


async def test_a_busy_server_is_retried_with_growing_waits() -> None:
    pieces, waits = await play([BUSY, BUSY, BUSY, Answer(says("Hi"))])
    assert waits == [0.25, 0.5, 1.0]
    assert pieces == [
        Retrying(2, "the model API answered 503: busy", 250),
        Retrying(3, "the model API answered 503: busy", 500),
        Retrying(4, "the model API answered 503: busy", 1000),
        TextDelta("Hi"),
        Reply("Hi"),
    ]


async def test_the_error_of_the_last_attempt_is_raised_unchanged() -> None:
    with pytest.raises(ProviderError, match="503: busy"):
        await play([BUSY] * 4 + [Answer(says("Hi"))])


async def test_permanent_errors_are_not_retried() -> None:
    with pytest.raises(ProviderError, match="401"):
        await play([Answer(status=401, body=b""), Answer(says("Hi"))])


@pytest.mark.parametrize(("asked", "waited"), [("3", 3.0), ("900", 60.0), ("0", 0.25)])
async def test_the_servers_retry_after_is_respected_within_bounds(asked: str, waited: float) -> None:
    _, waits = await play([Answer(status=429, headers={"retry-after": asked}, body=b""), Answer(says("Hi"))])
    assert waits == [waited]


async def test_the_wait_is_capped_and_jittered() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    failing = Script((ScriptedReply(error=ScriptedError("busy", retryable=True)),))
    retrying = RetryingProvider(Scripted("test", failing), attempts=9, sleep=sleep, rng=lambda: 0.0)
    with pytest.raises(ProviderError, match="busy"):
        await collect(retrying.stream(HELLO))
    assert waits == [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


async def test_a_failure_after_deltas_restarts_the_reply() -> None:
    script = Script((ScriptedReply("One two", error=ScriptedError("lost", retryable=True, times=1)),))
    retrying = RetryingProvider(Scripted("test", script), sleep=_no_wait, rng=lambda: 1.0)
    assert await collect(retrying.stream(HELLO)) == [
        TextDelta("One "),
        TextDelta("two"),
        Retrying(2, "lost", 250),
        Restart("lost"),
        TextDelta("One "),
        TextDelta("two"),
        Reply("One two", usage=TokenUsage(0, 1)),
    ]


async def test_a_cut_stream_with_text_is_not_retried() -> None:
    pieces, waits = await play([Answer(says("Hi", finish=None), done=False)])
    assert pieces == [TextDelta("Hi"), Reply("Hi", finish="cut", truncated=True)]
    assert waits == []


async def test_leaving_a_stream_ends_the_inner_one() -> None:
    answer = Answer([delta(content="Hi")], done=False, hang="body")
    async with FakeModel([answer]) as model:
        provider = RetryingProvider(Completions("test", model.base_url, "", "m", 8192))
        stream = provider.stream(HELLO)
        assert await anext(stream) == TextDelta("Hi")
        del stream
        await model.wait_hung_up()
        await provider.close()


async def test_it_has_the_attributes_of_the_inner_provider() -> None:
    provider = RetryingProvider(Scripted("mine", Script(), context_limit=5))
    assert (provider.profile, provider.model, provider.api, provider.context_limit) == (
        "mine",
        "scripted",
        "scripted",
        5,
    )


async def play(script: Sequence[Answer]) -> tuple[list[Piece], list[float]]:
    """All pieces, and the waits that were asked for, with no chance in them."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with FakeModel(script) as model:
        provider = RetryingProvider(Completions("test", model.base_url, "", "m", 8192), sleep=sleep, rng=lambda: 1.0)
        try:
            return await collect(provider.stream(HELLO)), waits
        finally:
            await provider.close()


async def _no_wait(_: float) -> None:
    """Time passes at once."""


async def collect(stream: AsyncIterator[Piece]) -> list[Piece]:
    return [piece async for piece in stream]

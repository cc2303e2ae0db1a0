"""Failures that time may fix are tried again, visibly and within bounds; others are not."""

from collections.abc import AsyncIterator, Sequence

import pytest

from buddy.errors import ProviderError
from buddy.models.completions import Completions
from buddy.models.contract import Piece, Prompt, Reply, Restart, Retrying, TextDelta, TokenUsage, UserItem
from buddy.models.retry import KNOWN_ENDPOINT, Patience, RetryingProvider
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
        await play([BUSY] * 4 + [Answer(says("Hi"))], Patience(0))


async def test_a_new_endpoint_gets_seconds_and_a_known_one_minutes() -> None:
    with pytest.raises(ProviderError, match="503: busy"):
        await play([BUSY] * 99)
    patience = Patience()
    await play([Answer(says("Hi"))], patience)
    pieces, waits = await play([BUSY] * 30 + [Answer(says("Hi"))], patience)
    assert pieces[-1] == Reply("Hi")
    assert 200 < sum(waits) < KNOWN_ENDPOINT


@pytest.mark.parametrize(("seconds", "attempts"), [(0.0, 4), (7.75, 6), (20.0, 7)])
async def test_the_time_for_retries_can_be_configured(seconds: float, attempts: int) -> None:
    waits: list[float] = []
    with pytest.raises(ProviderError, match="503: busy"):
        await play([BUSY] * 99, Patience(seconds), waits)
    assert len(waits) == attempts - 1


async def test_permanent_errors_are_not_retried() -> None:
    with pytest.raises(ProviderError, match="401"):
        await play([Answer(status=401, body=b""), Answer(says("Hi"))])


@pytest.mark.parametrize(("asked", "waited"), [("3", 3.0), ("900", 60.0), ("0", 0.25)])
async def test_the_servers_retry_after_is_respected_within_bounds(asked: str, waited: float) -> None:
    _, waits = await play([Answer(status=429, headers={"retry-after": asked}, body=b""), Answer(says("Hi"))])
    assert waits == [waited]


async def test_the_wait_is_capped_and_jittered() -> None:
    clock = Clock()
    failing = Script((ScriptedReply(error=ScriptedError("busy", retryable=True)),))
    retrying = RetryingProvider(
        Scripted("test", failing), Patience(16), sleep=clock.sleep, rng=lambda: 0.0, now=clock.time
    )
    with pytest.raises(ProviderError, match="busy"):
        await collect(retrying.stream(HELLO))
    assert clock.waits == [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


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


CUT = Answer(says("Hi", finish=None), done=False)
DROPPED = "the connection dropped before the reply was complete"


async def test_a_cut_stream_is_asked_again_and_its_deltas_are_void() -> None:
    pieces, waits = await play([CUT, Answer(says("Hello"))])
    assert pieces == [
        TextDelta("Hi"),
        Retrying(2, DROPPED, 250),
        Restart(DROPPED),
        TextDelta("Hello"),
        Reply("Hello"),
    ]
    assert waits == [0.25]


async def test_the_text_of_a_stream_that_is_always_cut_is_kept_as_truncated() -> None:
    pieces, _ = await play([CUT] * 4, Patience(0))
    assert pieces[-2:] == [TextDelta("Hi"), Reply("Hi", finish="cut", truncated=True)]
    assert pieces.count(Restart(DROPPED)) == 3


async def test_the_text_of_a_cut_stream_is_kept_if_the_server_stays_away() -> None:
    pieces, _ = await play([CUT, BUSY, BUSY, BUSY], Patience(0))
    assert pieces[-2:] == [TextDelta("Hi"), Reply("Hi", finish="cut", truncated=True)]
    assert isinstance(pieces[-3], Restart)


async def test_a_refusal_after_a_cut_stream_ends_the_call() -> None:
    with pytest.raises(ProviderError, match="401"):
        await play([CUT, Answer(status=401, body=b"")])


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_reply_is_asked_again_and_never_a_success(text: str) -> None:
    empty = Answer(says(text))
    pieces, _ = await play([empty, Answer(says("Hi"))])
    assert pieces[-1] == Reply("Hi")
    with pytest.raises(ProviderError, match="empty reply"):
        await play([empty] * 99)


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


class Clock:
    """Time that passes only in waits."""

    def __init__(self, waits: list[float] | None = None) -> None:
        self.waits: list[float] = [] if waits is None else waits

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def time(self) -> float:
        return sum(self.waits)


async def play(
    script: Sequence[Answer], patience: Patience | None = None, waits: list[float] | None = None
) -> tuple[list[Piece], list[float]]:
    """All pieces, and the waits that were asked for, with no chance in them."""
    clock = Clock(waits)
    async with FakeModel(script) as model:
        wire = Completions("test", model.base_url, "", "m", 8192)
        provider = RetryingProvider(wire, patience, sleep=clock.sleep, rng=lambda: 1.0, now=clock.time)
        try:
            return await collect(provider.stream(HELLO)), clock.waits
        finally:
            await provider.close()


async def _no_wait(_: float) -> None:
    """Time passes at once."""


async def collect(stream: AsyncIterator[Piece]) -> list[Piece]:
    return [piece async for piece in stream]

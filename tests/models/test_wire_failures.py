"""Servers that are silent, slow, missing or refuse, over all wire protocols: timeouts, retries and cancellation."""

import asyncio
from typing import Literal

import msgspec
import pytest

from buddy.errors import ProviderError
from buddy.models import wire
from buddy.models.contract import (
    Piece,
    Prompt,
    Reply,
    Restart,
    Retrying,
    TextDelta,
    UserItem,
)
from buddy.models.retry import Patience, RetryingProvider
from tests.harness.dialects import DIALECTS, KEY, Dialect, collect, says, serving
from tests.harness.fake_model import Answer, FakeModel

HELLO = Prompt("Be brief.", (UserItem("hi"),))


every = pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])


@every
@pytest.mark.parametrize("hang", ["headers", "body"])
async def test_a_silent_server_times_out(dialect: Dialect, hang: Literal["headers", "body"]) -> None:
    answer = dialect.answer(dialect.text("Hi"), done=False, hang=hang)
    async with FakeModel([answer]) as model, serving(dialect, model, idle_timeout=0.05) as provider:
        with pytest.raises(ProviderError, match=r"sent nothing for 0\.05 s|never a complete line") as failure:
            await collect(provider.stream(HELLO))
        assert failure.value.retryable
        await model.wait_hung_up()


@every
async def test_a_server_that_trickles_an_endless_line_times_out(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "SLOWEST", 0.01)
    answer = dialect.answer(says(dialect, "x" * 4000), byte_by_byte=True, delay=0.005)
    async with FakeModel([answer]) as model, serving(dialect, model, idle_timeout=30.0) as provider:
        with pytest.raises(ProviderError, match="never a complete line") as failure:
            await collect(provider.stream(HELLO))
        assert failure.value.retryable
        await model.wait_hung_up()


@every
async def test_a_server_that_trickles_its_headers_times_out(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "SLOWEST", 0.01)
    monkeypatch.setattr(wire, "CONNECT_TIMEOUT", 0.1)
    answer = dialect.answer(says(dialect, "Hi"), headers={"x-long": "x" * 4000}, slow_head=0.01)
    async with FakeModel([answer]) as model, serving(dialect, model, idle_timeout=30.0) as provider:
        with pytest.raises(ProviderError, match=r"did not finish the headers|can't connect") as failure:
            await collect(provider.stream(HELLO))
        assert failure.value.retryable


async def test_blank_lines_keep_a_slow_answer_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "SLOWEST", 0.05)
    dialect = DIALECTS[0]
    answer = Answer(body=b"\n" * 45 + dialect.full_body("Hi"), byte_by_byte=True, gaps=(45, 0.04))
    async with FakeModel([answer]) as model, serving(dialect, model, idle_timeout=30.0) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Hi")


@every
async def test_silence_after_the_end_of_the_reply_is_not_a_failure(dialect: Dialect) -> None:
    answer = dialect.answer(says(dialect, "Hi"), hang="body")
    async with FakeModel([answer]) as model, serving(dialect, model) as provider:
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Hi")
        await model.wait_hung_up()


@every
async def test_an_unreachable_server_is_retryable(dialect: Dialect) -> None:
    async with FakeModel([]) as model:
        base_url = model.base_url
    provider = dialect.provider(base_url)
    with pytest.raises(ProviderError, match="connection refused") as failure:
        await collect(provider.stream(HELLO))
    assert failure.value.retryable
    await provider.close()


@every
@pytest.mark.parametrize("hang", ["headers", "body"])
async def test_cancelling_the_consumer_closes_the_connection(
    dialect: Dialect, hang: Literal["headers", "body"]
) -> None:
    answer = dialect.answer(dialect.text("Hi"), done=False, hang=hang)
    async with FakeModel([answer]) as model, serving(dialect, model) as provider:
        consumer = asyncio.create_task(collect(provider.stream(HELLO)))
        await model.wait_requests(1)
        consumer.cancel()
        await asyncio.wait([consumer])
        assert consumer.cancelled()
        await model.wait_hung_up()


@every
async def test_leaving_a_stream_early_closes_the_connection(dialect: Dialect) -> None:
    answer = dialect.answer(dialect.text("Hi"), done=False, hang="body")
    async with FakeModel([answer]) as model, serving(dialect, model) as provider:
        stream = provider.stream(HELLO)
        assert await anext(stream) == TextDelta("Hi")
        del stream
        await model.wait_hung_up()


@every
@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refusal_has_a_hint_and_never_contains_the_key(dialect: Dialect, status: int) -> None:
    body = f'{{"error":{{"message":"no access with {KEY}"}}}}'.encode()
    async with FakeModel([Answer(status=status, body=body)] * 2) as model, serving(dialect, model) as provider:
        with pytest.raises(ProviderError) as failure:
            await collect(RetryingProvider(provider).stream(HELLO))
        assert len(model.requests) == 1
    assert str(failure.value) == f"the model API answered {status}: no access with [key]"
    assert not failure.value.retryable
    assert (f'api = "{dialect.other}"' if status == 404 else "API key") in failure.value.hint


@every
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
async def test_temporary_errors_are_retried_and_every_wait_is_reported(dialect: Dialect, status: int) -> None:
    storm = Answer(status=status, body=b"busy")
    pieces, waits = await play(dialect, [storm, storm, storm, dialect.answer(says(dialect, "Hi"))])
    reason = f"the model API answered {status}: busy"
    retries = [Retrying(2, reason, 250), Retrying(3, reason, 500), Retrying(4, reason, 1000)]
    assert pieces == [*retries, TextDelta("Hi"), Reply("Hi")]
    assert waits == [0.25, 0.5, 1.0]
    with pytest.raises(ProviderError, match=str(status)):
        await play(dialect, [storm] * 4 + [dialect.answer(says(dialect, "Hi"))], Patience(0))


@every
@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "7"}, 7, 7),
        ({"retry-after": "1.5"}, 1.5, 1.5),
        ({"retry-after-ms": "1250", "retry-after": "7"}, 1.25, 1.25),
        ({"retry-after": "99999999"}, 60, 60),
        ({"retry-after-ms": "1e308"}, 60, 60),
        ({"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"}, 60, 60),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, 0.25, 0.25),
        ({"retry-after": "Fri, 99 Foo 9999 99:99:99 GMT"}, 0.25, 0.25),
        ({"retry-after": "-5"}, 0.25, 0.25),
        ({"retry-after": "inf"}, 0.25, 0.25),
        ({"retry-after": "nan"}, 0.25, 0.25),
        ({"retry-after": "soon"}, 0.25, 0.25),
        ({}, 0.25, 0.25),
    ],
)
async def test_the_servers_retry_after_is_respected_within_bounds(
    dialect: Dialect, headers: dict[str, str], low: float, high: float
) -> None:
    busy = Answer(status=429, headers=headers, body=b'{"error":{"message":"slow down"}}')
    pieces, waits = await play(dialect, [busy, dialect.answer(says(dialect, "Hi"))])
    assert len(waits) == 1
    assert low <= waits[0] <= high
    assert pieces[0] == Retrying(2, "the model API answered 429: slow down", round(waits[0] * 1000))


@every
async def test_a_lost_request_is_retried_visibly(dialect: Dialect) -> None:
    """The server read the request and closed the reused connection: it may have acted on it."""
    first, lost, again = (dialect.answer(says(dialect, text)) for text in ("One", "Lost", "Two"))
    lost = msgspec.structs.replace(lost, drop=True)
    async with FakeModel([first, lost, again]) as model, serving(dialect, model) as provider:
        retrying = RetryingProvider(provider, sleep=no_wait, rng=lambda: 1.0)
        assert (await collect(retrying.stream(HELLO)))[-1] == Reply("One")
        reason = "lost the connection to the model API: the connection ended before the response did"
        assert await collect(retrying.stream(HELLO)) == [Retrying(2, reason, 250), TextDelta("Two"), Reply("Two")]
        assert len(model.requests) == 3


@every
async def test_a_failure_after_deltas_voids_them_first(dialect: Dialect) -> None:
    gate = asyncio.Event()
    broken = dialect.answer([*dialect.text("One"), dialect.failed("overloaded", "server_error")])
    broken = msgspec.structs.replace(broken, gate=gate, gate_at=dialect.opens + 1)
    script = [broken, dialect.answer(says(dialect, "Two"))]
    async with FakeModel(script) as model, serving(dialect, model) as provider:
        stream = RetryingProvider(provider, sleep=no_wait, rng=lambda: 1.0).stream(HELLO)
        assert await anext(stream) == TextDelta("One")
        gate.set()
        reason = "the model API failed: overloaded"
        assert await collect(stream) == [Retrying(2, reason, 250), Restart(reason), TextDelta("Two"), Reply("Two")]


@every
async def test_a_cut_stream_is_asked_again(dialect: Dialect) -> None:
    cut = dialect.answer(says(dialect, "Hi", finish=None), done=False)
    pieces, _ = await play(dialect, [cut, dialect.answer(says(dialect, "Hello"))])
    assert isinstance(pieces[2], Restart)
    assert pieces[3:] == [TextDelta("Hello"), Reply("Hello")]
    pieces, _ = await play(dialect, [cut] * 4, Patience(0))
    assert pieces[-2:] == [TextDelta("Hi"), Reply("Hi", finish="cut", truncated=True)]


@every
async def test_a_wait_can_be_cancelled(dialect: Dialect) -> None:
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.sleep(seconds)

    busy = Answer(status=429, headers={"retry-after": "50"}, body=b"")
    async with FakeModel([busy]) as model, serving(dialect, model) as provider:
        consumer = asyncio.create_task(collect(RetryingProvider(provider, sleep=sleep).stream(HELLO)))
        await waiting.wait()
        consumer.cancel()
        await asyncio.wait([consumer])
        assert consumer.cancelled()
        assert len(model.requests) == 1


@every
async def test_a_server_that_refuses_to_stream_is_not_asked_to_again(dialect: Dialect) -> None:
    no = Answer(status=400, body=b'{"error":{"message":"Unsupported parameter: stream"}}')
    script = [no, *(Answer(body=dialect.full_body(text)) for text in ("One", "Two"))]
    async with FakeModel(script) as model, serving(dialect, model) as provider:
        assert await collect(provider.stream(HELLO)) == [TextDelta("One"), Reply("One")]
        assert await collect(provider.stream(HELLO)) == [TextDelta("Two"), Reply("Two")]
    assert [dialect.is_streamed(request) for request in model.requests] == [True, False, False]


@every
async def test_omitting_a_field_that_did_not_help_is_not_remembered(dialect: Dialect) -> None:
    no = Answer(status=400, body=b"too long a prompt for a stream")
    script = [no, no, dialect.answer(says(dialect, "Two"))]
    async with FakeModel(script) as model, serving(dialect, model) as provider:
        with pytest.raises(ProviderError, match="too long"):
            await collect(provider.stream(HELLO))
        assert (await collect(provider.stream(HELLO)))[-1] == Reply("Two")
    assert [dialect.is_streamed(request) for request in model.requests] == [True, False, True]


@every
@pytest.mark.parametrize("no", [Answer(status=501, body=b""), Answer([], done=False)])
async def test_a_server_that_cannot_stream_is_asked_for_one_object(dialect: Dialect, no: Answer) -> None:
    script = [no, *(Answer(body=dialect.full_body(text)) for text in ("One", "Two"))]
    async with FakeModel(script) as model, serving(dialect, model) as provider:
        assert await collect(provider.stream(HELLO)) == [TextDelta("One"), Reply("One")]
        assert await collect(provider.stream(HELLO)) == [TextDelta("Two"), Reply("Two")]
    assert [dialect.is_streamed(request) for request in model.requests] == [True, False, False]


async def play(
    dialect: Dialect, script: list[Answer], patience: Patience | None = None
) -> tuple[list[Piece], list[float]]:
    """All pieces, and the waits that were asked for, with no chance in them."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with FakeModel(script) as model, serving(dialect, model) as provider:
        retrying = RetryingProvider(provider, patience, sleep=sleep, rng=lambda: 1.0)
        return await collect(retrying.stream(HELLO)), waits


async def no_wait(_: float) -> None:
    """Time passes at once."""

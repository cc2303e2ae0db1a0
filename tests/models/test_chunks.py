"""Any JSON from a server can be read; invalid fields are skipped individually."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.errors import ProviderError
from buddy.models import lenient
from buddy.models.chunks import read_chunk, read_fault
from buddy.models.folding import Fold

NAMES = [
    "choices",
    "usage",
    "error",
    "object",
    "delta",
    "message",
    "content",
    "reasoning",
    "reasoning_details",
    "tool_calls",
    "index",
    "id",
    "function",
    "name",
    "arguments",
    "finish_reason",
    "code",
    "text",
    "prompt_tokens",
    "cost",
]

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)
choices = st.fixed_dictionaries(
    {"delta": st.dictionaries(st.sampled_from(NAMES), anything, max_size=5)}, optional={"finish_reason": anything}
)
chunks = anything | st.fixed_dictionaries({"choices": st.lists(choices, max_size=2)}, optional={"usage": anything})


@given(chunks)
def test_any_json_is_a_chunk_and_at_worst_a_provider_error(value: object) -> None:
    data = msgspec.json.encode(value)
    read_fault(data)
    fold = Fold()
    try:
        fold.feed([data])
        reply = fold.reply(set())
    except ProviderError:
        return
    assert not (reply.truncated and reply.calls)
    assert len({call.call_id for call in reply.calls}) == len(reply.calls)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_chunk_or_a_provider_error(data: bytes) -> None:
    try:
        read_chunk(data)
    except ProviderError as error:
        assert error.retryable


def test_json_that_is_nested_too_deep_is_a_provider_error() -> None:
    for data in (b"[" * 100_000, b'{"choices":' * 100_000, b'{"choices":[{"delta":{"x":' + b"[" * 100_000):
        with pytest.raises(ProviderError, match="invalid JSON"):
            read_chunk(data)


def test_a_long_text_is_not_repaired_but_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lenient, "MAX_REPAIRED", 100)
    half = rb'{"choices":[{"delta":{"content":"\ud83d%s"}}]}'
    assert read_chunk(half % b"").choices
    with pytest.raises(ProviderError, match="bytes of invalid JSON"):
        read_chunk(half % (b"a" * 100))


def test_an_invalid_field_does_not_affect_the_others() -> None:
    data = b'{"choices":[{"delta":{"content":"Hi","tool_calls":[{"index":"x","id":"a"}],"reasoning":5}}],"usage":[]}'
    chunk = read_chunk(data)
    assert chunk.choices is not None
    delta = chunk.choices[0].delta
    assert delta is not None
    assert delta.tool_calls is not None
    assert (delta.content, delta.tool_calls[0].id, delta.tool_calls[0].index) == ("Hi", "a", None)


def test_the_choice_with_index_0_is_taken_wherever_it_is() -> None:
    fold = Fold()
    fold.feed(
        [
            b'{"choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"mine"}}]}',
            b'{"choices":[{"index":1,"delta":{"content":" other"},"finish_reason":"length"}]}',
            b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
        ]
    )
    reply = fold.reply(frozenset())
    assert (reply.text, reply.finish) == ("mine", "stop")

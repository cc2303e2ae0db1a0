"""JSON with long strings: the same as at once, and never much of it in one step."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy import long_json
from buddy.long_json import MAX_VALUES, decode, encode, examine
from buddy.steps import PART, Steps, at_once

CHARACTERS = st.sampled_from('x 0fu/n"\\\n\té世😀\u2028[]{},:')
TEXTS = st.text(CHARACTERS, max_size=120)
VALUES = st.recursive(
    TEXTS | st.integers(-5, 5) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=4), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few characters, so that every cut is met."""
    monkeypatch.setattr(long_json, "PART", 37)
    monkeypatch.setattr(long_json, "LONG", 10)
    monkeypatch.setattr(long_json, "_TAIL", 20)


@pytest.mark.usefixtures("small")
@settings(max_examples=200, deadline=None)
@given(VALUES, st.booleans())
def test_a_document_is_read_and_written_as_at_once(value: Any, ascii_only: bool) -> None:
    assert at_once(decode(json.dumps(value, ensure_ascii=ascii_only))) == value
    assert at_once(encode(value)) == msgspec.json.encode(value)


def longest_slice(work: Callable[[], Steps[object]], monkeypatch: pytest.MonkeyPatch) -> int:
    """The most bytes that one call of the encoder or decoder takes or returns."""
    longest = 0
    plain_decode, plain_encode = msgspec.json.decode, msgspec.json.encode

    def spy_decode(data: bytes, **more: Any) -> object:
        nonlocal longest
        longest = max(longest, len(data))
        return plain_decode(data, **more)

    def spy_encode(value: object) -> bytes:
        nonlocal longest
        encoded = plain_encode(value)
        longest = max(longest, len(encoded) if isinstance(value, str) else 0)
        return encoded

    monkeypatch.setattr(msgspec.json, "decode", spy_decode)
    monkeypatch.setattr(msgspec.json, "encode", spy_encode)
    at_once(work())
    return longest


@pytest.mark.parametrize("text", ["x\n", "plain ", "é", "😀", '"', "\\", "[", "世界"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_long_text_is_taken_apart(text: str, ascii_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"path": "a.txt", "content": text * (4 * PART // len(text))}
    document = json.dumps(value, ensure_ascii=ascii_only)
    assert at_once(decode(document)) == value
    assert longest_slice(lambda: decode(document), monkeypatch) <= PART + 2
    assert longest_slice(lambda: encode(value), monkeypatch) <= 6 * PART + 2
    assert sum(1 for _ in encode(value)) >= 4


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("[" * 8_000_000, "nested deeper than 64 levels"),
        ("[0" + ",0" * 4_000_000 + "]", f"more than {MAX_VALUES} values"),
        ('["' + '","' * 2_000_000 + '"]', f"more than {MAX_VALUES} values"),
        ('{"' + "k" * 8_000_000 + '":1}', "one of its names is longer"),
        ('{"a":"' + "k" * 1_000_000, "truncated"),
        ('{"a":"' + "k" * 1_000_000 + "\\", "truncated"),
        ('{"a":"' + "k" * 1_000_000 + '\n"}', "invalid character"),
        ('{"a":"' + "\\ud800x" * 100_000 + '"}', "malformed"),
        ('{"a":"' + "\\x" * 100_000 + '"}', "malformed"),
    ],
)
def test_what_should_not_be_decoded_is_refused_soon(document: str, problem: str) -> None:
    with pytest.raises(msgspec.DecodeError, match=problem):
        at_once(decode(document))
    assert sum(1 for _ in examine(document.encode())) <= 2 * len(document) // PART + 200

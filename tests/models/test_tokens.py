"""Counting tokens offline."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.models.tokens import Counter, count, vocabulary


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("openai/gpt-5.3-codex", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("o3", "o200k_base"),
        ("gpt-oss-120b", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("olmo-2", "cl100k_base"),
        ("deepseek/deepseek-v3.2", "cl100k_base"),
        ("", "cl100k_base"),
    ],
)
def test_newer_openai_names_have_the_newer_vocabulary(model: str, expected: str):
    assert vocabulary(model) == expected


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="rs-bpe has no wheel for this Python")
def test_counts_match_the_real_vocabularies():
    assert count("hello world", "gpt-4") == count("hello world", "gpt-4o") == 2
    assert count("tokenization is not characters", "gpt-4") == 5
    assert count("", "gpt-4o") == 0
    assert count("东京は夜", "gpt-4o") < count("东京は夜", "gpt-4")


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_counted(text: str):
    assert 0 <= count(text) <= 4 * max(1, len(text))


def test_a_counter_learns_what_the_server_reports():
    counter = Counter("some-model")
    text = "a few words that are counted " * 20
    plain = counter.count(text)
    for _ in range(50):
        counter.calibrate(counter.count(text), round(plain * 1.4))
    assert counter.count(text) == pytest.approx(plain * 1.4, rel=0.02)


@given(st.lists(st.tuples(st.integers(-5, 10**9), st.integers(-5, 10**9))))
def test_a_counter_stays_within_a_factor_of_two_whatever_is_reported(reports: list[tuple[int, int]]):
    counter = Counter("m")
    for estimated, reported in reports:
        counter.calibrate(estimated, reported)
        assert 0.5 <= counter.ratio <= 2.0


def test_an_empty_report_does_not_change_the_counter():
    counter = Counter("m")
    counter.calibrate(100, 0)
    counter.calibrate(0, 100)
    assert counter.ratio == 1.0


WITHOUT = """
import sys
import buddy.models.tokens as tokens
assert "rs_bpe" not in sys.modules, "importing loads no vocabulary"
sys.modules["rs_bpe"] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name.startswith("rs_bpe") else find(name)
assert tokens.count("x" * 40, "gpt-4o") == 10
assert tokens.count("abc") == 1
"""


def test_without_the_tokenizer_four_characters_are_a_token():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, env=environment)

"""Globs of rules: `*` stays within a name and within a host, and no pattern takes more than one pass over the text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.approvals import globs
from buddy.approvals.globs import glob_matches, is_wild, literal_glob, literal_text


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("src/*", "src/a", True), ("src/*", "src/a/b", False), ("src/**", "src/a/b", True), ("src/**", "src", False), ("**/.env", ".env", True),
        ("**/.env", "a/b/.env", True), ("**/.env", "a/b.env", False), ("**/x/**/y", "a/x/y", True), ("**/x/**/y", "a/xx/y", False),
        ("[ab]c", "ac", True), ("[a-c]x", "bx", True), ("[!ab]c", "ac", False), ("[!ab]c", "/c", False), ("[*]", "*", True), ("[*]", "a", False),
        ("a*", "a", True), ("?", "", False), ("?", "/", False), ("*.py", "a/b.py", False), ("a**b", "a/x/b", True), ("[]a]", "]", True), ("a[", "a[", True),
        ("https://*.example.com/*", "https://a.example.com/b", True), ("https://*.example.com/*", "https://evil.org/a.example.com/b", False),
        ("https://*.example.com/*", "https://evil.org?.example.com/b", False), ("https://*/x", "https://a@b/x", False), ("https://**/x", "https://a/b/x", False),
        ("https://a.org/**", "https://a.org/b/c?d=e", True), ("https://?.org/", "https://a.org/", True), ("https://?.org/", "https://@.org/", False),
    ],
)  # fmt: skip
def test_a_pattern_matches_what_it_says(pattern: str, text: str, expected: bool) -> None:
    assert glob_matches(pattern, text) is expected


@given(st.text(alphabet="ab/*?[]!-.", max_size=12), st.text(alphabet="ab/", max_size=12))
def test_a_literal_pattern_matches_itself_alone(text: str, other: str) -> None:
    pattern = literal_glob(text)
    assert not is_wild(pattern)
    assert literal_text(pattern) == text
    assert glob_matches(pattern, text)
    assert glob_matches(pattern, other) is (text == other)


@given(st.lists(st.sampled_from(["a", "b", "/", "*", "**", "?"]), max_size=8), st.text(alphabet="ab/", max_size=10))
def test_globs_agree_with_a_regular_expression(parts: list[str], text: str) -> None:
    pattern = "".join(parts)
    spelled = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    tokens = [found[0] for found in re.finditer(r"\*\*/|\*\*+|\*|\?|.", pattern)]
    expected = "".join(
        ".*" if token.startswith("**") and token != "**/" else spelled.get(token, token) for token in tokens
    )
    assert glob_matches(pattern, text) is (re.fullmatch(expected, text) is not None)


def test_matching_takes_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: a search that goes back takes billions of steps here."""
    steps: list[str] = []
    step = globs.__dict__["_step"]

    def count(parts: object, at: object, character: str) -> object:
        steps.append(character)
        return step(parts, at, character)

    monkeypatch.setattr(globs, "_step", count)
    text = "a/x/" * 1000 + "b"
    assert not glob_matches("**/a/**/x/**/a/*a*a*a*b*c*b", text)
    assert not glob_matches("*a*", "a" * 100_000)
    assert len(steps) <= len(text)

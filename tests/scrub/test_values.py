"""Registered values: hidden in every form, in complete texts and in streams."""

import base64
import functools
import json
import re
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from buddy.scrub import MARK, Scrubber
from buddy.scrub.values import NOISE_WITHIN

SECRET = 'sk-Canary/0123+"é"\\ßfedcba'

# Few letters, so that secrets repeat, overlap and touch marks; brackets and the mark itself, so that both meet.
letters = st.sampled_from(["a", "b", "[", "]", "R", "E", '"', "é", "[REDACTED]", "[REDACTED", "aaaaaaaa", "abababab"])
texts = st.lists(letters, max_size=30).map("".join)
secrets = st.lists(st.text("ab[]RED", min_size=8, max_size=12), max_size=3)


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[Scrubber, list[str]]:
    """Some secrets, and a text that holds them, cut into chunks anywhere."""
    known = draw(secrets)
    parts = draw(st.lists(texts | st.sampled_from([*known, ""]), max_size=8))
    whole = "".join(parts)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    return knowing(*known), chunks


@functools.cache
def knowing_once(secret: str) -> Scrubber:
    return knowing(secret)


def knowing(*known: str) -> Scrubber:
    scrubber = Scrubber()
    for secret in known:
        scrubber.register(secret)
    return scrubber


ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "json": json.dumps,
    "json unicode": lambda text: json.dumps(text, ensure_ascii=False),
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "percent": lambda text: urllib.parse.quote(text, safe=""),
    "percent, slashes kept": urllib.parse.quote,
    "percent, small digits": lambda text: re.sub("%..", lambda hit: hit[0].lower(), urllib.parse.quote(text, safe="")),
    "form": urllib.parse.quote_plus,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 unpadded": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64 for urls": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_form_of_a_secret_is_hidden(name: str):
    form = ENCODINGS[name](SECRET)
    masked = knowing(SECRET).registered(f"before {form} after")
    assert masked.removeprefix("before ").removesuffix(" after").strip('"\\') == MARK


@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("size", [8, 9, 10, 31, 40])
def test_a_secret_inside_longer_base64_is_hidden_at_every_offset(before: int, after: int, size: int):
    secret = "K3y-with?many>bits~and4more+letters/9876"[:size]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(b"u" * before + secret.encode() + b"v" * after).decode()
        masked = knowing(secret).registered(text)
        assert MARK in masked
        left = masked.split(MARK)
        assert len(left) == 2
        assert len("".join(left)) <= len(text) - size


def test_only_the_secret_is_hidden():
    assert knowing("hunter2hunter2").registered("a hunter2hunter2, b") == f"a {MARK}, b"


def test_a_short_value_is_not_a_secret():
    assert knowing("short", "", "1234567").registered("short 1234567") == "short 1234567"


def test_newlines_around_a_secret_are_not_part_of_it():
    assert knowing("  hunter2hunter2\n").registered("hunter2hunter2") == MARK


def test_each_line_of_a_key_file_is_hidden():
    armour = (
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n"
    )
    scrubber = knowing(armour)
    assert scrubber.registered(armour.strip()) == MARK
    assert scrubber.registered("| AQEFAASCBKcwggSjAgEAAoIB |") == f"| {MARK} |"
    assert "BEGIN" in scrubber.registered("-----BEGIN PRIVATE KEY-----")


def test_the_longer_of_two_secrets_is_hidden_completely():
    scrubber = knowing("password1", "password1-and-more")
    assert scrubber.registered("password1-and-more password1") == f"{MARK} {MARK}"


def test_overlapping_secrets_leave_nothing_of_either():
    assert knowing("abcdefgh", "efghijkl").registered("<abcdefghijkl>") == f"<{MARK}>"


def test_a_secret_that_reads_like_the_mark_does_not_grow_it():
    scrubber = knowing("REDACTED", MARK)
    assert scrubber.registered(MARK) == MARK
    assert scrubber.registered("REDACTED!") == f"{MARK}!"


def test_a_secret_split_at_any_offset_never_leaks():
    scrubber = knowing(SECRET)
    for form in (ENCODINGS[name](SECRET) for name in ("raw", "json", "hex", "base64", "percent")):
        text = f"x {form} y"
        for cut in range(len(text) + 1):
            stream = scrubber.stream()
            out = stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.finish()
            assert out == scrubber.text(text)


def test_a_stream_holds_back_only_what_could_become_a_secret():
    stream = knowing("hunter2hunter2", "x" * 500).stream()
    assert stream.feed("the quick brown ") == "the quick brown "
    assert stream.feed("fox hunter2") == "fox "
    assert stream.feed("- ") == "hunter2- "
    assert stream.feed("hunter2hunter") == ""
    assert stream.feed("2! ") == f"{MARK}! "
    assert stream.finish() == ""


def test_a_stream_waits_for_the_longer_of_two_secrets():
    stream = knowing("password1", "password1-and-more").stream()
    assert stream.feed("password1") == ""
    assert stream.feed("-and-more ") == f"{MARK} "
    assert stream.feed("password1") == ""
    assert stream.feed("-or less ") == f"{MARK}-or less "


def test_a_mark_wins_over_a_secret_that_reaches_into_it_in_a_stream_too():
    scrubber = knowing("abcdefg[RED")
    assert scrubber.registered(f"abcdefg{MARK}") == f"abcdefg{MARK}"
    stream = scrubber.stream()
    assert stream.feed("abcdefg[RED") == ""
    assert stream.feed("ACTED] ") == f"abcdefg{MARK} "
    assert stream.feed("abcdefg[RED! ") == f"{MARK}! "


@pytest.mark.parametrize("name", ["raw", "json", "hex", "base64", "percent"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_a_value_wrapped_by_a_terminal_is_hidden(name: str, line_break: str):
    form = ENCODINGS[name](SECRET).strip('"')
    for column in range(1, len(form)):
        wrapped = f"$ echo {form[:column]}{line_break}{form[column:]} done"
        masked = knowing(SECRET).registered(wrapped)
        left = masked.removeprefix("$ echo ").removesuffix(" done").replace(MARK, "").replace("\n", "").strip("\r")
        assert len(left) <= 2, "one or two characters on the line before may stay"
        for cut in range(len(wrapped)):
            stream = knowing_once(SECRET).stream()
            assert stream.feed(wrapped[:cut]) + stream.feed(wrapped[cut:]) + stream.finish() == masked


@given(scenarios())
def test_a_stream_in_any_chunks_is_masked_like_the_complete_text(scenario: tuple[Scrubber, list[str]]):
    scrubber, chunks = scenario
    stream = scrubber.stream()
    out = "".join([*map(stream.feed, chunks), stream.finish()])
    assert out == scrubber.text("".join(chunks))


@given(scenarios())
def test_masking_twice_changes_nothing(scenario: tuple[Scrubber, list[str]]):
    scrubber, chunks = scenario
    once = scrubber.text("".join(chunks))
    assert scrubber.text(once) == once


@given(st.text(min_size=8, max_size=40), st.text(), st.text())
def test_no_registered_value_is_left_in_a_text(secret: str, before: str, after: str):
    masked = knowing(secret).registered(before + secret + after)
    secret = secret.strip()
    told_apart = len(secret.replace("\r\n", "").replace("\n", "")) >= 8  # line breaks do not count: text is wrapped
    if told_apart and "[" not in secret and "]" not in secret and secret not in MARK:
        assert secret not in masked


NOISES = {
    "colour": "\x1b[01;31m\x1b[K",
    "end of a colour": "\x1b[m\x1b[K",
    "8-bit colour": "\x9b31m",
    "NUL": "\0",
    "zero width": "\u200b",
    "joiner": "\u200d",
    "soft hyphen": "\xad",
    "carriage return": "\r",
    "bell": "\a",
    "title with blanks": "\x1b]0;a title\x07",
    "link": "\x1b]8;;https://a.example/b c\x1b\\",
    "cursor": "\x1b[2 q",
    "charset": "\x1b(B",
    "colour as cat -v writes it": "^[[01;31m^[[K",
    "NUL as cat -v writes it": "^@",
    "colour in JSON": "\\u001b[31m",
    "colour in Python": "\\x1b[31m",
    "colour in a script": "\\033[0;31m",
    "colour and a line break": "\x1b[m\n",
    "long colour": f"\x1b[{'1;' * 60}m",
    "longest colour": f"\x1b[{'1;' * 200}m",
    "long 8-bit colour": f"\x9b{'1;' * 60}m",
    "openings inside a title": "\x9da\x9db\x07",
}


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("secret", ["Kq8Vw2Lm9Zr4Tn6Bx1Pd", "pass phrase of mine"])
def test_noise_inside_a_value_does_not_hide_it(name: str, secret: str) -> None:
    scrubber, noise = knowing(secret), NOISES[name]
    for column in range(3, len(secret)):
        text = f"a {secret[:column]}{noise}{secret[column:]} b"
        assert scrubber.registered(text) == f"a {MARK} b"
    everywhere = f"a {noise.join(secret)} b"
    masked = scrubber.registered(everywhere)
    assert NOISES[name].join(secret[2:]) not in masked
    assert MARK in masked


@pytest.mark.parametrize("name", NOISES)
def test_noise_is_the_same_in_a_stream_at_any_cut(name: str) -> None:
    noise = NOISES[name]
    for column in (3, 9) if "\n" in noise else (1, 3, 9):
        text = f"a {SECRET[:column]}{noise}{SECRET[column : column + 2]}{noise}{SECRET[column + 2 :]} b {noise}c"
        masked = knowing_once(SECRET).text(text)
        for cut in range(len(text)):
            stream = knowing_once(SECRET).stream()
            assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.finish() == masked
        stream = knowing_once(SECRET).stream()
        assert "".join(map(stream.feed, text)) + stream.finish() == masked


def test_what_looks_like_noise_may_be_part_of_a_value() -> None:
    assert knowing("@hunter2hunter2").registered("^@hunter2hunter2") == f"^{MARK}"
    assert knowing("[31mhunter2").registered("\x1b[31mhunter2") == f"\x1b{MARK}"


OVERSTRIKES: dict[str, Callable[[str], str]] = {
    "underlined": lambda secret: "".join(f"_\b{character}" for character in secret),
    "bold": lambda secret: "".join(f"{character}\b{character}" for character in secret),
    "bold and underlined": lambda secret: "".join(f"_\b{character}\b{character}" for character in secret),
    "after": lambda secret: "".join(f"{character}\bx" for character in secret),
    "corrected twice": lambda secret: "".join(f"xy\b\b{character}" for character in secret),
    "corrected again and again": lambda secret: "".join(f"x\by\b{character}" for character in secret),
    "with colours": lambda secret: "".join(f"_\b\x1b[1m{character}\x1b[m" for character in secret),
    "as cat -v writes it": lambda secret: "".join(f"_^H{character}" for character in secret),
    "in JSON": lambda secret: "".join(f"_\\b{character}" for character in secret),
    "with NULs": lambda secret: "".join(f"_\b\0{character}" for character in secret),
    "once": lambda secret: f"{secret[:5]}x\b{secret[5:]}",
}


@pytest.mark.parametrize("name", OVERSTRIKES)
def test_overstriking_a_value_does_not_hide_it(name: str) -> None:
    text = f"a {OVERSTRIKES[name](SECRET)} b"
    masked = knowing_once(SECRET).text(text)
    assert MARK in masked
    assert len(masked) < len(MARK) + 16
    for cut in range(len(text)):
        stream = knowing_once(SECRET).stream()
        assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.finish() == masked
    stream = knowing_once(SECRET).stream()
    assert "".join(map(stream.feed, text)) + stream.finish() == masked


@pytest.mark.parametrize("noise", ["\0", "\n", "\bx", "\x1b[m", "\x90"])
def test_noise_without_end_is_not_held_without_end(noise: str) -> None:
    stream = knowing_once(SECRET).stream()
    text = SECRET[:4] + noise * (4 * NOISE_WITHIN)
    released = "".join(stream.feed(text[start : start + 4096]) for start in range(0, len(text), 4096))
    assert len(text) - len(released) <= NOISE_WITHIN * 5 // 4 + 2 * 4096
    assert released + stream.finish() == text


noisy = st.lists(
    st.sampled_from(
        ["a", "b", "\x1b[m", "\x1b", "[", "m", "\0", "\n", " ", "aaaa", "abab", "^[[", "\x1b]0;", "\a", "_\b", "^H"]
    )
)


@given(noisy, st.lists(st.integers(0, 200), max_size=6))
@example(["\n", "a", "^H", "aaaa", "^H", "\n", "aaaa"], [8])
def test_any_noise_gives_the_same_in_any_chunks(parts: list[str], places: list[int]) -> None:
    scrubber, text = knowing("aaaaaaaa", "abababab"), "".join(parts)
    edges = sorted(place % (len(text) + 1) for place in places)
    stream = scrubber.stream()
    chunks = [text[start:end] for start, end in zip([0, *edges], [*edges, len(text)], strict=True)]
    assert "".join(map(stream.feed, chunks)) + stream.finish() == scrubber.text(text)

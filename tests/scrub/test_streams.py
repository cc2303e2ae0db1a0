"""Running texts: the same masking in any chunks, and no more delay than it takes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.scrub import MARK, Scrubber
from buddy.scrub.pieces import LONGEST_WORD
from buddy.scrub.token_formats import ARMOUR_LIMIT

REGISTERED = "hunter2hunter2"
RANDOM = "q8Zr3kVw7TnB2xLs9PdF4yHc6M"
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
ARMOUR = "-----BEGIN RSA PRIVATE KEY-----\n" + ("MIIEpQIBAAKCAQEAn6/O8li+SX4m98LLYt/PKSzEmQ\n" * 3) + "KEY=\n"

pieces = st.sampled_from(
    [
        "token", "api_key", "password", "Authorization", "Bearer ", "--secret", "-u ", "--user ", "key", "monkey",
        "=", ": ", ":", "=>", '"', "'", '\\"', "\\", "\\n", " ", "  ", "\n", "\r\n", "\t", ",", "(", "<", ">", "[",
        "]", "@",
        "abc12345", "a:b2c3d4", "p4ss w0rd! and", "://", "https://user:", "x", REGISTERED, "hunter2", RANDOM, TOKEN,
        "ghp_",
        "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----", "MIIEpQIBAAKCAQEAn6", "sha256-", "é", MARK,
        "世", "世界。", "ไทย", "かな",
        "[REDACTED:high-entropy]", "[REDACTED", "sess_01ARZ3NDEKTSV4RRFFQ69G5FAV", ARMOUR,
    ]
)  # fmt: skip
texts = st.lists(pieces, max_size=25).map("".join)


def knowing(*secrets: str) -> Scrubber:
    scrubber = Scrubber()
    for secret in secrets:
        scrubber.register(secret)
    return scrubber


def streamed(scrubber: Scrubber, chunks: list[str]) -> str:
    stream = scrubber.stream()
    return "".join([*map(stream.feed, chunks), stream.finish()])


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted(place % (len(text) + 1) for place in places)
    return [text[start:end] for start, end in zip([0, *edges], [*edges, len(text)], strict=True)]


@given(texts, st.lists(st.integers(0, 2000), max_size=12))
def test_every_layer_gives_the_same_in_any_chunks(text: str, places: list[int]):
    scrubber = knowing(REGISTERED, "pass phrase of mine", "[REDhunter")
    assert streamed(scrubber, cut(text, places)) == scrubber.text(text)


@given(texts)
def test_character_by_character_is_the_same_too(text: str):
    scrubber = knowing(REGISTERED)
    assert streamed(scrubber, list(text)) == scrubber.text(text)


@given(texts)
def test_every_layer_is_idempotent(text: str):
    scrubber = knowing(REGISTERED, "pass phrase of mine", "[REDhunter")
    once = scrubber.text(text)
    assert scrubber.text(once) == once


@pytest.mark.parametrize("text", [REGISTERED, TOKEN, RANDOM, f'"password": "{REGISTERED}!"', f"Bearer {TOKEN}", ARMOUR])
def test_nothing_leaks_at_any_cut(text: str):
    scrubber = knowing(REGISTERED)
    whole = scrubber.text(f"x {text} y")
    assert "[REDACTED" in whole
    for place in range(len(text) + 4):
        assert streamed(scrubber, cut(f"x {text} y", [place])) == whole


def test_prose_is_delayed_by_a_word_at_most():
    stream = knowing(REGISTERED).stream()
    seen = ""
    fed = ""
    for word in [
        "A",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "the",
        "lazy",
        "dog.",
        "And",
        "then\nit",
        "sleeps,",
        "as",
        "foxes",
        "do.",
    ]:
        fed += word + " "
        seen += stream.feed(word + " ")
        assert seen == fed


@pytest.mark.parametrize("text", ["你好世界。这是一个句子", "こんにちは、世界", "สวัสดีชาวโลก"])
def test_text_without_blanks_is_delayed_by_a_character_at_most(text: str) -> None:
    stream = knowing(REGISTERED).stream()
    seen = "".join(stream.feed(character) for character in text)
    assert len(seen) >= len(text) - 1
    assert seen + stream.finish() == text


def test_a_secret_in_text_without_blanks_is_hidden() -> None:
    for secret in (REGISTERED, TOKEN, RANDOM):
        text = f"密钥是{secret}。请保密"
        assert secret not in streamed(knowing(REGISTERED), list(text))


def test_a_line_is_shown_when_it_ends():
    stream = knowing(REGISTERED).stream()
    assert stream.feed("Compiling\n") == "Compiling\n"
    assert stream.feed("Do") + stream.feed("ne\n") == "Done\n"


def test_a_telling_name_waits_for_its_value():
    stream = Scrubber().stream()
    assert stream.feed("the api_key = ") == "the "
    assert stream.feed("abcdef123456 ") == f"api_key = {MARK} "
    assert stream.feed("a token of ") == "a token of "


@pytest.mark.parametrize("name", ["tokeneyJhbGciOiJIUzI1NiJ9.Bearer", f"{RANDOM}-secret", f"{RANDOM}--token"])
def test_a_name_behind_a_random_word_waits_for_its_value(name: str) -> None:
    scrubber = Scrubber()
    text = f"see {name} keyMIIEpQIBAAKCAQEAn6' here"
    whole = scrubber.text(text)
    for place in range(len(text)):
        assert streamed(scrubber, cut(text, [place])) == whole


@pytest.mark.parametrize("filler", ["x", "ab,", 'k":"v",', "a1B2c3D4", "é", "世界", "a世", "世a"])
def test_a_word_without_end_is_cut_at_the_same_places(filler: str):
    scrubber = Scrubber()
    text = f"token = {filler * (3 * LONGEST_WORD // len(filler))} {TOKEN} " + filler * LONGEST_WORD + f",{TOKEN}"
    whole = scrubber.text(text)
    dice = random.Random(3)  # noqa: S311 - repeatable
    for _ in range(5):
        assert streamed(scrubber, cut(text, [dice.randrange(len(text)) for _ in range(40)])) == whole
    assert TOKEN not in whole


def test_a_word_without_end_is_not_held_without_end():
    stream = Scrubber().stream()
    given_back = sum(len(stream.feed("x" * 100)) for _ in range(1000))
    assert given_back >= 100_000 - 2 * LONGEST_WORD


def test_a_key_longer_than_the_limit_is_cut_at_the_same_place():
    scrubber = Scrubber()
    body = "MIIEpQIBAAKCAQEAn6/O8li+SX4m98LLYt/PKSzEmQ++ZBD7Loh9P13f4yQ92EF3\n" * (ARMOUR_LIMIT // 32)
    text = f"-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----\nand more\n"
    chunks = [text[start : start + 61] for start in range(0, len(text), 61)]
    assert streamed(scrubber, chunks) == scrubber.text(text)


def test_a_stream_without_a_secret_gives_all_of_its_text():
    assert streamed(Scrubber(), ["abc", "def", " ", "", "ghi"]) == "abcdef ghi"


@pytest.mark.parametrize("word", ["word ", "password ", "the secret token is a key "])
def test_prose_about_secrets_is_not_held_back(word: str) -> None:
    stream = Scrubber().stream()
    released = sum(len(stream.feed(word)) for _ in range(200))
    assert released >= 200 * len(word) - 40

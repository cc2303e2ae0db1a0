"""What scrubbing costs, in calls rather than seconds: proportional to the text, whatever the text is."""

import sys
from collections.abc import Callable

import pytest

from buddy.scrub import Scrubber
from buddy.scrub.heuristics import PASSES
from buddy.scrub.pieces import LONGEST_LINE, split
from buddy.scrub.token_formats import ARMOUR_LIMIT
from buddy.steps import at_once
from tests.scrub import corpora, figures

SIZE = 9_000
STEP = 80_000  # calls, most of them of a few nanoseconds in C
ONCE = 12 * LONGEST_LINE  # a line beyond the limit is searched for a place to cut it


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called, those in C included."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def feed(scrubber: Scrubber, text: str, size: int) -> None:
    stream = scrubber.stream()
    for start in range(0, len(text), size):
        stream.feed(text[start : start + size])
    stream.finish()


@pytest.mark.parametrize("name", corpora.HOSTILE)
def test_a_hostile_text_of_four_times_the_size_takes_four_times_the_calls(name: str) -> None:
    few, many = (corpora.HOSTILE[name](size) for size in (SIZE, 4 * SIZE))
    scrubber = figures.knowing(["hunter2hunter2", "aaaaaaaaaa"])
    scrubber.text(few[1:])  # compiles what it needs
    assert calls_of(lambda: scrubber.text(many)) <= 6 * calls_of(lambda: scrubber.text(few)) + ONCE


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [3, 4000])
@pytest.mark.parametrize("name", corpora.HOSTILE)
def test_a_hostile_stream_of_four_times_the_size_takes_four_times_the_calls(name: str, chunk: int) -> None:
    size = SIZE if chunk > 3 else 2_000
    few, many = (corpora.HOSTILE[name](size) for size in (size, 4 * size))
    scrubber = figures.knowing(["hunter2hunter2", "aaaaaaaaaa"])
    feed(scrubber, few, chunk)
    assert calls_of(lambda: feed(scrubber, many, chunk)) <= 6 * calls_of(lambda: feed(scrubber, few, chunk)) + ONCE


@pytest.mark.parametrize("name", corpora.HOSTILE)
def test_a_hostile_text_takes_few_calls_per_character(name: str) -> None:
    scrubber = figures.knowing(["hunter2hunter2", "aaaaaaaaaa"])
    text = corpora.HOSTILE[name](SIZE)
    assert calls_of(lambda: scrubber.text(text)) <= 4 * PASSES * len(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", corpora.HOSTILE)
def test_a_hostile_text_is_examined_in_small_steps(name: str) -> None:
    """However long the text, one step of it is bounded."""
    scrubber = figures.knowing(["hunter2hunter2", "aaaaaaaaaa"])
    text = corpora.HOSTILE[name](2 * LONGEST_LINE + 5)
    work, most, is_over = scrubber.text_steps(text), 0, False
    next(scrubber.text_steps(text), None)  # compiles what it needs

    def step() -> None:
        nonlocal is_over
        is_over = next(work, work) is work

    while not is_over:
        most = max(most, calls_of(step))
    assert most <= STEP


@pytest.mark.slow
@pytest.mark.parametrize("word", ["-u ", "token = ", "authorization:token ", "--token "])
def test_a_line_without_end_is_not_held_without_end(word: str) -> None:
    stream = Scrubber().stream()
    fed = released = 0
    for _ in range(4 * LONGEST_LINE // len(word)):
        fed += len(word)
        released += len(stream.feed(word))
        if "authorization" not in word:  # those are hidden, so fewer characters come out
            assert fed - released <= LONGEST_LINE + len(word)
    assert released


@pytest.mark.slow
@pytest.mark.parametrize("filler", ["-u ", "token = ", "x ", "世 ", "世界", "authorization:token ", 'k: "v", '])
def test_a_line_without_end_is_cut_at_the_same_places(filler: str) -> None:
    scrubber = Scrubber()
    text = filler * (2 * LONGEST_LINE // len(filler) + 500) + "\n" + "api_key=abcdef123456 " * 3_000
    whole = scrubber.text(text)
    assert "".join(at_once(split(text))) == text
    assert max(len(line) for piece in at_once(split(text)) for line in piece.split("\n")) <= LONGEST_LINE
    for size in (7, 40_000):
        stream = scrubber.stream()
        pieces = [stream.feed(text[start : start + size]) for start in range(0, len(text), size)]
        assert "".join(pieces) + stream.finish() == whole
    assert "abcdef123456" not in whole


@pytest.mark.slow
@pytest.mark.parametrize(
    "before", ["", "x", "A" * 20, "A" * 20 + " ", "Abc: token ", "ABCDEFGHIJKLMNtoken= ", '"key": "']
)
@pytest.mark.parametrize("after", ["\n", "\\n", " ", "\n" + "MIIE" * 12 + "\n", "\nAbc: x\n"])
def test_a_row_of_private_keys_without_end_is_not_held_without_end(before: str, after: str) -> None:
    scrubber = Scrubber()
    text = f"{before}-----BEGIN RSA PRIVATE KEY-----{after}" * (5 * ARMOUR_LIMIT // 64)
    whole = scrubber.text(text)
    for size in (701, 8192):
        stream = scrubber.stream()
        pieces = [stream.feed(text[start : start + size]) for start in range(0, len(text), size)]
        last = stream.finish()
        assert "".join(pieces) + last == whole
        assert len(last) <= 2 * ARMOUR_LIMIT + size
        assert max(map(len, pieces)) <= 2 * ARMOUR_LIMIT + LONGEST_LINE + size


def test_a_private_key_in_a_long_line_is_not_cut() -> None:
    key = (
        "-----BEGIN PRIVATE KEY-----\\n"
        + "MIIEpQIBAAKCAQEAn6/O8li+SX4m98LLYt/PKSzEmQ\\n" * 40
        + "-----END PRIVATE KEY-----"
    )
    for before in range(LONGEST_LINE - len(key), LONGEST_LINE, 397):
        assert "SzEmQ" not in Scrubber().text("a " * (before // 2) + key + '"' + ",b" * 200 + "c " * LONGEST_LINE)

"""The scrubber's time per character, on texts made of its own prefixes and keywords.

Compared with itself, never with a fixed time: four times a text must not take more than eight times as long, and no
text more than `FACTOR` times as long as ordinary text. A busy machine gets three tries.
"""

import random
import time

import pytest

from buddy.scrub import Scrubber
from buddy.scrub.prefix_table import INDEX
from tests.fuzz.conftest import Budget
from tests.scrub import corpora, figures

SIZE = 12_000
GROWTH = 8
FACTOR = 150
TRIES = 3

PIECES = [
    *sorted({prefix for entries in INDEX.values() for prefix, _, _ in entries}),
    *("key", "token", "secret", "password", "passphrase", "pwd", "authorization", "bearer", "credentials", "auth"),
    *("API_KEY", "SECRET", "PASSWORD", "--token", "--user", "-u", "x-api-key", "?access_token", "AccountKey", "sig"),
    *("=", ":", "=>", ": ", "= ", " ", "  ", "\t", "\n", "\r\n", '"', "'", '\\"', "\\", "\\n", ",", "(", ")", "{", "}"),
    *("[", "]", "<", ">", "/", "//", "://", "@", "&", "?", "-", "--", "_", ".", "|", "~", "%", "$", "+", "!"),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----BEGIN", "Aaa: ", "MIIEpQIBAAKCAQEAn6"),
    *("a", "A", "1", "aB3", "abcdef123456", "q8Zr3kVw7TnB2xLs9PdF4yHc6M", "hunter2hunter2", "hunter2", "世", "é"),
    *("[REDACTED]", "[REDACTED", "[REDACTED:high-entropy]", "\x1b[31m", "\x1b[", "\0", "\u200b", "\x1b]8;;", "^[["),
]


def make_text(dice: random.Random, size: int, seed: int) -> str:
    """A few pieces over and over, in one of several arrangements; the same for every size."""
    dice.seed(seed)
    unit = "".join(dice.choices(PIECES, k=dice.choice([1, 2, 3, 5, 8])))
    if dice.random() < 0.3:
        unit *= dice.choice([1, 50, 400])
        unit += dice.choice([" ", "\n", "="])
    if dice.random() < 0.2:
        return "".join(dice.choices(PIECES, k=size))[:size]
    return (unit * (size // len(unit) + 1))[:size]


def seconds(scrubber: Scrubber, text: str, chunk: int) -> float:
    began = time.process_time()
    if chunk:
        stream = scrubber.stream()
        for start in range(0, len(text), chunk):
            stream.feed(text[start : start + chunk])
        stream.finish()
    else:
        scrubber.text(text)
    return max(time.process_time() - began, 1e-4)


@pytest.mark.slow
def test_no_text_takes_more_than_linear_time(fuzz: Budget) -> None:
    scrubber = figures.knowing(["hunter2hunter2", "pass phrase of mine", "aaaaaaaaaa"])
    ordinary = corpora.source()[: 4 * SIZE]
    for _ in fuzz:
        seed, chunk = fuzz.random.randrange(2**32), fuzz.random.choice([0, 0, 5, 300])
        few, many = (make_text(random.Random(), size, seed) for size in (SIZE, 4 * SIZE))  # noqa: S311 - test input
        assert any(is_linear(scrubber, ordinary, few, many, chunk) for _ in range(TRIES)), f"{few[:200]!r} {chunk=}"


def is_linear(scrubber: Scrubber, ordinary: str, few: str, many: str, chunk: int) -> bool:
    usual, short, long = (seconds(scrubber, text, chunk) for text in (ordinary[:-1], few, many))
    return long <= GROWTH * max(short, usual / 4) and long <= FACTOR * usual

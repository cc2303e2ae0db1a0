"""The figures of docs/redaction.md, computed anew."""

import time
from collections.abc import Callable

import pytest

from buddy.scrub import Scrubber
from scrub import corpora, figures


def test_no_registered_secret_leaks_in_any_form_at_any_cut():
    assert figures.leaks(figures.made_up_secrets(12), cuts=1000) == 0
    assert figures.leaks(figures.made_up_secrets(60, seed=6), cuts=3) == 0


def test_known_formats_are_found():
    recall = figures.recall_of_formats(per_format=10)
    assert recall.total > 1500
    assert recall.value >= 0.98


@pytest.mark.parametrize("name", corpora.ORDINARY)
def test_ordinary_text_is_hardly_ever_hidden(name: str):
    text = corpora.ORDINARY[name]()
    assert figures.false_hits(text) <= max(40 * len(text) / 1e6, 2)


def test_a_lockfile_is_hardly_ever_hidden():
    text = corpora.lockfile()
    assert figures.false_hits(text) <= 100 * len(text) / 1e6


def test_hashes_and_uuids_are_never_hidden():
    assert figures.false_hits(corpora.hashes()) == 0


def test_a_megabyte_takes_no_longer_than_it_may():
    scrubber = figures.knowing(figures.made_up_secrets(30))
    assert max(figures.megabytes_per_second(scrubber, corpora.source()) for _ in range(2)) >= 5


HOSTILE: dict[str, Callable[[int], str]] = {
    "one letter": lambda size: "a" * size,
    "one letter and blanks": lambda size: "a " * (size // 2),
    "nothing but blanks": lambda size: " " * size,
    "names": lambda size: "token" * (size // 5),
    "names and signs": lambda size: "key=" * (size // 4),
    "open quotes": lambda size: 'key="' * (size // 5),
    "backslashes": lambda size: "\\" * size,
    "armour": lambda size: "-----BEGIN PRIVATE KEY-----" * (size // 27),
    "armour and base64": lambda size: ("-----BEGIN PRIVATE KEY-----\n" + "A" * 60 + "\n") * (size // 89),
    "tokens cut short": lambda size: "eyJhbGci-" * (size // 9),
    "dotted": lambda size: "eyJaaaaaaaa." * (size // 12),
    "userinfo": lambda size: "://a:" * (size // 5),
    "users": lambda size: "-u " * (size // 3),
    "passwords": lambda size: ('password="' + "aB" * 95 + '!" ') * (size // 203),
    "base64": lambda size: "aB3/" * (size // 4),
    "marks": lambda size: "[REDACTED]" * (size // 10),
    "a secret over and over": lambda size: "hunter2hunter2" * (size // 14),
    "binary": lambda size: "".join(map(chr, range(256))) * (size // 256),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_more_than_linear_time(name: str):
    scrubber = figures.knowing(["hunter2hunter2", "aaaaaaaaaa"])
    spent: list[float] = []
    for size in (100_000, 400_000):
        text = HOSTILE[name](size)
        began = time.process_time()
        scrubber.text(text)
        spent.append(time.process_time() - began)
    # Sixteen times the time for four times the text would be quadratic; the constant forgives the clock.
    assert spent[1] <= 8 * spent[0] + 1


def test_five_megabytes_pass_in_reason():
    text = corpora.source() * 5
    assert Scrubber().text(text) == text

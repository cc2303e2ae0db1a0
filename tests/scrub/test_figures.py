"""Checks the figures of docs/redaction.md that do not depend on the machine."""

import pytest

from buddy.scrub import Scrubber
from tests.scrub import corpora, figures


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


@pytest.mark.parametrize("name", corpora.HOSTILE)
def test_hostile_text_is_masked_the_same_at_once_and_in_chunks(name: str):
    """Text that makes a careless pattern backtrack; `bench/scrub.py` measures that its time stays linear."""
    scrubber = figures.knowing(["hunter2hunter2", "aaaaaaaaaa"])
    text = corpora.HOSTILE[name](20_000)
    masked, stream = scrubber.text(text), scrubber.stream()
    assert scrubber.text(masked) == masked
    pieces = [stream.feed(text[start : start + 4096]) for start in range(0, len(text), 4096)]
    assert "".join(pieces) + stream.finish() == masked


def test_five_megabytes_of_source_are_unchanged():
    text = corpora.source() * 5
    assert Scrubber().text(text) == text

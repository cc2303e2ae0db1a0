"""Texts in chunks, questions in words, rankings merged."""

from hypothesis import given
from hypothesis import strategies as some

from buddy.memory.chunks import LONGEST, OVERLAP, split_chunks
from buddy.memory.hybrid import Weights, merge_scores, rank
from buddy.memory.words import MOST_ROWS, any_of, are_common, count_words, significant_words

TEXT = " ".join(f"word{number}" for number in range(400))


def test_a_short_text_is_one_chunk_without_its_spacing() -> None:
    assert split_chunks("  one\n\n two\tthree ") == ["one two three"]


def test_empty_text_has_no_chunks() -> None:
    assert split_chunks(" \n ") == []


def test_neighbours_share_their_edges() -> None:
    first, second, *_ = split_chunks(TEXT)
    shared = second[: OVERLAP // 2]
    assert shared in first
    assert first.endswith(first[first.index(shared) :])


@given(some.text(max_size=5000))
def test_chunks_are_short_and_cover_the_text(text: str) -> None:
    found = split_chunks(text)
    assert all(0 < len(chunk) <= LONGEST for chunk in found)
    assert {word for word in text.split() if len(word) < OVERLAP // 2} <= {word for c in found for word in c.split()}


def test_a_query_is_made_of_its_significant_words() -> None:
    assert significant_words("How do I run the TESTS of the importer?") == ["run", "tests", "importer"]


def test_user_input_is_never_query_syntax() -> None:
    assert any_of(count_words('"a" NEAR(b) secret* OR NOT -x', lambda _: 1)) == '"near" OR "secret"'


def test_a_query_of_stop_words_is_empty() -> None:
    assert any_of(count_words("what is it about?", lambda _: 1)) == ""


def test_common_words_are_left_out_if_there_are_rarer_ones() -> None:
    rows = {"test": 90_000, "ledger": 3, "import": 40}
    assert any_of(count_words("test ledger imports", lambda stem: rows.get(stem, 0))) == '"ledger" OR "imports"'


def test_words_are_common_if_even_the_rarest_is_in_too_many_chunks() -> None:
    rows = {"test": 90_000, "import": MOST_ROWS + 1, "ledger": MOST_ROWS}
    assert are_common(count_words("test imports", lambda stem: rows.get(stem, 0)))
    assert not are_common(count_words("test imports ledger", lambda stem: rows.get(stem, 0)))
    assert not are_common(count_words("nothing known", lambda stem: rows.get(stem, 0)))


def test_two_rankings_are_scaled_and_weighed() -> None:
    scores = merge_scores({1: 0.9, 2: 0.5}, {2: 12.0, 3: 4.0}, Weights())
    assert scores == {1: 0.7, 2: 0.3, 3: 0.0}


def test_a_single_ranking_has_full_weight() -> None:
    assert merge_scores({}, {1: 5.0, 2: 5.0}, Weights()) == {1: 1.0, 2: 1.0}


def test_the_later_of_two_equals_is_first() -> None:
    assert rank({1: 0.5, 2: 0.5, 3: 0.9}, {1: (10, 1), 2: (20, 1), 3: (1, 1)}) == [3, 2, 1]

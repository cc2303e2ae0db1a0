"""Replacing in steps gives what `bytes.replace` gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.steps import PART, at_once
from buddy.tools import replacing
from buddy.tools.replacing import TooLong, replace_in

WORDS = st.text("ab\n", max_size=60).map(str.encode)


@given(WORDS, st.text("ab\n", min_size=1, max_size=5).map(str.encode), WORDS, st.integers(1, 20))
def test_it_is_what_replace_would_give(content: bytes, old: bytes, new: bytes, part: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replacing, "PART", part)
        found = at_once(replace_in(content, old, new, 10_000))
    assert found == (content.replace(old, new), content.count(old))


def test_a_result_that_would_fill_the_memory_is_not_made() -> None:
    with pytest.raises(TooLong):
        at_once(replace_in(b"x" * 1_000_000, b"x", b"y" * 1_000_000, 20_000_000))


def test_a_long_file_is_changed_in_steps() -> None:
    assert sum(1 for _ in replace_in(b"line\n" * PART, b"l", b"L", 10 * PART)) >= 5

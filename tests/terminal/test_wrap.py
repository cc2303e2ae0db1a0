"""Long lines break between words, however they are styled."""

import re

from hypothesis import given
from hypothesis import strategies as st

from buddy.terminal.style import Style
from buddy.terminal.wrap import fold, width_of

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def test_a_long_line_breaks_between_words_and_continues_indented() -> None:
    text = "  ✗ the model's context of 8192 tokens is full"
    assert fold(text, 24) == "  ✗ the model's context\n    of 8192 tokens is\n    full"
    assert fold(text, 100) == text


def test_styling_has_no_width_and_stays() -> None:
    style = Style(on=True)
    assert fold(f"{style.red('✗ one two')} {style.dim('three four')}", 12) == (
        "\x1b[31;1m✗ one two\x1b[0m\n  \x1b[2mthree four\x1b[0m"
    )


def test_a_word_that_fits_nowhere_is_broken() -> None:
    assert fold("see https://example.org/a/long/path", 16) == "see\n  https://exampl\n  e.org/a/long/p\n  ath"


@given(
    words=st.lists(st.text("ab日c", min_size=1, max_size=30), min_size=1, max_size=20),
    columns=st.integers(4, 60),
    indent=st.one_of(st.none(), st.integers(0, 20)),
)
def test_nothing_is_lost_and_nothing_is_too_wide(words: list[str], columns: int, indent: int | None) -> None:
    text = " ".join(words)
    folded = fold(Style(on=True).dim(text), columns, indent)
    plain = STYLE.sub("", folded)
    assert all(width_of(line) <= columns for line in plain.split("\n"))
    assert "".join(plain.split()) == "".join(words)

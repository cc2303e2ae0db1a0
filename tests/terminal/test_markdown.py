"""Markdown without end is shown in parts: what waits to be rendered is bounded."""

import pytest

from buddy.terminal.markdown import LONGEST_BLOCK, LONGEST_LINE, Markdown
from buddy.terminal.style import Style


@pytest.mark.parametrize(("text", "most"), [("word ", LONGEST_LINE), ("a line\n", LONGEST_BLOCK)])
def test_what_has_no_end_is_shown_in_parts(text: str, most: int) -> None:
    markdown = Markdown(Style(on=False), lambda: 80)
    shown: list[str] = []
    for _ in range(40):
        shown += markdown.feed(text * (5000 // len(text)))
        assert len(markdown.pending) <= LONGEST_BLOCK + most
    shown += markdown.finish()
    assert len(shown) >= 2
    assert " ".join("\n".join(shown).split()) == " ".join((text * (5000 // len(text)) * 40).split())

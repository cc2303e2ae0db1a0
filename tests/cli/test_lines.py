"""Lines of JSON are those of the `json` package, which is not loaded for them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.cli.lines import decoded, encoded

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=3))
def test_a_line_is_spelt_and_read_as_the_library_does(fields: dict[str, Any]) -> None:
    line = encoded(fields)
    assert line == json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    assert decoded(line) == json.loads(line) == fields


@pytest.mark.parametrize("line", [b"", b"x", b'{"a"', b'{"a":1,}'])
def test_what_is_not_json_is_an_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting|trailing"):
        decoded(line)

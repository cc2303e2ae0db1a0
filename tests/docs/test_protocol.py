"""The protocol's reference says what the types say."""

import re
from typing import get_args

import pytest

from buddy.daemon.limits import Limits
from buddy.protocol.codes import ErrorCode, ToolErrorType
from buddy.protocol.events import EVENTS
from buddy.protocol.request_table import CAPABILITIES, REQUESTS
from tests.docs.documents import ROOT, anchors_of
from tools.protocol_reference import render, shapes, tables_in

REFERENCE = ROOT / "docs" / "protocol.md"


def test_the_tables_are_those_the_types_give() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert render(text) == text, "`make schema` writes them"


def test_every_shape_has_its_table() -> None:
    found = tables_in(REFERENCE.read_text(encoding="utf-8"))
    assert sorted(found) == sorted((kind, name) for kind, named in shapes().items() for name in named)


def test_a_table_of_something_unknown_is_an_error() -> None:
    with pytest.raises(SystemExit, match="no event nonsense"):
        render("<!-- table event nonsense -->\n<!-- end -->")


def test_every_request_and_event_has_its_heading() -> None:
    assert {*REQUESTS, *EVENTS} <= set(anchors_of(REFERENCE))


def test_every_code_is_explained_and_no_other() -> None:
    assert _first_cells("## Error codes") == set(get_args(ErrorCode))
    assert _first_cells("## Tool error types") == set(get_args(ToolErrorType))


def test_every_capability_and_every_limit_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", REFERENCE.read_text(encoding="utf-8")))
    assert set(CAPABILITIES) <= named
    assert set(Limits.__struct_fields__) <= named


def _first_cells(heading: str) -> set[str]:
    section = REFERENCE.read_text(encoding="utf-8").split(f"\n{heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", section, flags=re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}

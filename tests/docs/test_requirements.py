"""The table of requirements refers only to files that exist."""

import re

from tests.docs.documents import ROOT, prose_of

REQUIREMENTS = ROOT / "docs" / "internals" / "requirements.md"
ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)
PATH = re.compile(r"`((?:src|tests|docs|schema|bench|\.ci)/[^`\s]*|pyproject\.toml|Makefile)`")


def rows() -> list[list[str]]:
    cells = [row.split(" | ") for row in ROW.findall(prose_of(REQUIREMENTS))]
    return [row for row in cells if row[0] != "requirement" and set(row[0]) != {"-"}]


def test_every_path_exists() -> None:
    named = set(PATH.findall(prose_of(REQUIREMENTS)))
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_every_requirement_has_a_module_and_a_test_or_a_reason() -> None:
    unsettled = [row[0] for row in rows() if len(row) != 3 or not (_is_proven(row) or _is_settled(row))]
    assert unsettled == []


def _is_proven(row: list[str]) -> bool:
    return bool(PATH.search(row[1])) and bool(PATH.search(row[2]))


def _is_settled(row: list[str]) -> bool:
    return bool(re.search(r"differs: |not a requirement", f"{row[1]} {row[2]}"))

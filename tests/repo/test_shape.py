"""The repository keeps its shape: budgets for sizes, no silenced check without a reason, plain words."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.repo import shape
from tests.repo.allowed import ALLOWED
from tests.repo.shape import ROOT, Finding


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], list[Finding]]:
    by_package: dict[tuple[str, str], list[Finding]] = {}
    for finding in shape.findings():
        by_package.setdefault((finding.rule, finding.package), []).append(finding)
    return by_package


def test_no_budget_is_exceeded(found: dict[tuple[str, str], list[Finding]]) -> None:
    excess = [str(one) for key, all_of in found.items() if len(all_of) > ALLOWED.get(key, 0) for one in all_of]
    assert excess == []


def test_the_allowances_only_shrink(found: dict[tuple[str, str], list[Finding]]) -> None:
    counts = {key: len(all_of) for key, all_of in found.items()}
    stale = {key: counts.get(key, 0) for key, count in ALLOWED.items() if counts.get(key, 0) < count}
    assert stale == {}, "fewer are left: lower these numbers in tests/repo/allowed.py"


def test_every_exception_by_name_is_still_needed() -> None:
    lines = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in shape.GENERATED}
    assert [name for name, count in lines.items() if count <= shape.MAX_FILE_LINES] == []
    assert [name for name in shape.WIDE_CLASSES if not (ROOT / name.split("::")[0]).exists()] == []


def test_every_file_that_may_import_inside_functions_does() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    ignores: dict[str, list[str]] = settings["tool"]["ruff"]["lint"]["per-file-ignores"]
    lazy = [pattern for pattern, codes in ignores.items() if "PLC0415" in codes]
    assert [pattern for pattern in lazy if not any(map(shape.lazy_imports, _matching(pattern)))] == []


def test_words_are_found_in_prose_and_in_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def wish_of(): ...\n# It is told anew.\n# swish, a random seed\n"
    (tmp_path / "sample.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(shape, "ROOT", tmp_path)
    assert [(one.place, one.detail) for one in shape.banned_words("sample.py")] == [
        ("sample.py:1", "wish"),
        ("sample.py:2", "is told"),
        ("sample.py:2", "anew"),
    ]


def test_sizes_and_silenced_checks_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    methods = "".join(f"    def m{number}(self): ...\n" for number in range(21))
    body = "    x = 1\n" * 60
    lines = 340 * "\n"
    text = f"class Large:\n{methods}\ndef long():  # noqa: C901\n{body}\nx = 1  # noqa: E501 - a table\n{lines}"
    (tmp_path / "sample.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(shape, "ROOT", tmp_path)
    rules = Counter(one.rule for one in [*shape.sizes("sample.py"), *shape.silenced_checks("sample.py")])
    assert rules == {
        "long file": 1,
        "long function": 1,
        "large class": 1,
        "silenced complexity": 1,
        "silenced without a reason": 1,
    }


def _matching(pattern: str) -> list[Path]:
    """The Python files that a pattern of `per-file-ignores` names: a file, or a folder with `**` behind it."""
    folder, _, rest = pattern.partition("/**")
    return sorted((ROOT / folder).rglob("*.py")) if rest or pattern.endswith("/**") else [ROOT / pattern]

"""Tools of other packages: the one of the documentation is installed and called; broken ones cost only themselves."""

import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.config.settings import ToolSettings
from buddy.tools.contract import Call
from buddy.tools.toolbox import ToolDeps, builtin, toolbox
from tests.docs.documents import ROOT, blocks_of

TOOL, ENTRY = [block.text for block in blocks_of(ROOT / "docs" / "extend.md") if block.kind in ("python", "toml")][:2]


class Site:
    """A directory of installed packages."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def install(self, name: str, module: str, entry_points: str) -> None:
        (self._path / f"{name}.py").write_text(module)
        facts = self._path / f"{name}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[buddy.tools]\n{entry_points}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    packages = tmp_path / "site"
    packages.mkdir()
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield Site(packages)
    for name in set(sys.modules) - before:
        if str(packages) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_the_documented_entry_point_is_the_one_installed_here() -> None:
    assert ENTRY == '[project.entry-points."buddy.tools"]\nword_count = "word_count:WordCount"\n'


async def test_the_tool_of_the_documentation_can_be_installed_and_called(site: Site, call: Call, root: Path) -> None:
    (root / "file").write_text("three small words")
    site.install("word_count", TOOL, "word_count = word_count:WordCount")
    registry = toolbox(ToolSettings(), ToolDeps())
    tool = registry.get("word_count")
    args = registry.parse(tool, '{"path": "file"}')
    assert (await tool.intent(args, call.place)).summary == f"{root}/file"
    assert (await tool.run(args, call)).text == "3 words"
    assert "word_count" in [spec.name for spec in registry.specs()]


BROKEN = {
    "raises": "raise RuntimeError('boom')",
    "exits": "def make():\n    import sys\n    sys.exit(1)",
    "missing": "",
    "nothing": "def make():\n    return None",
    "nameless": TOOL.replace('name = "word_count"', 'name = "not a name!"') + "\nmake = WordCount",
    "tierless": TOOL.replace('"read-only"', '"harmless"') + "\nmake = WordCount",
    "thief": TOOL.replace('name = "word_count"', 'name = "run_shell"') + "\nmake = WordCount",
    "argless": TOOL.replace("args = WordCountArgs", "args = dict") + "\nmake = WordCount",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_tool_that_is_broken_is_left_out_with_a_warning(
    site: Site, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.install(f"broken_{kind}", BROKEN[kind], f"{kind} = broken_{kind}:make")
    site.install("word_count", TOOL, "word_count = word_count:WordCount")
    with caplog.at_level(logging.WARNING, "buddy.tools"):
        registry = toolbox(ToolSettings(), ToolDeps())
    assert {spec.name for spec in registry.specs()} == {tool.name for tool in builtin()} | {"word_count"}
    assert type(registry.get("run_shell")).__name__ == "RunShell"
    (warning,) = caplog.messages
    assert warning.startswith(f"skipped the tool '{kind}' (broken_{kind}:make): ")

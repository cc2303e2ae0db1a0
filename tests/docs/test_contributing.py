"""CONTRIBUTING.md works as written: its steps are followed in a copy of the repository, where its gates react."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import get_args

import pytest
from msgspec import Struct

from buddy.backends.choose import ACP, NATIVE, OTHERS
from buddy.config.settings import Api
from buddy.terminal.slash import listed_commands
from tests.backends.agents import AGENTS
from tests.docs.documents import ROOT
from tests.harness.dialects import DIALECTS

DOCUMENT = ROOT / "CONTRIBUTING.md"
STEP = re.compile(
    r"^ *<!-- (?P<name>\w+): (?P<how>create|append to|in) (?P<path>\S+)"
    r"(?: (?P<where>before|after|replace) (?P<anchor>.+?))? -->\n"
    r"^(?P<indent> *)```\w+\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
COPIED = ("src", "tests", "tools", "docs", "schema")


class Step(Struct, frozen=True):
    how: str
    path: str
    where: str
    anchor: str
    text: str

    def apply(self, root: Path) -> None:
        path = root / self.path
        if self.how == "create":
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.text, encoding="utf-8")
            return
        before = path.read_text(encoding="utf-8")
        path.write_text(before + self.text if self.how == "append to" else self._edited(before), encoding="utf-8")

    def _edited(self, content: str) -> str:
        """With the text at the first line that begins with the anchor, but for its indentation."""
        lines = content.splitlines(keepends=True)
        at = next((number for number, line in enumerate(lines) if line.lstrip().startswith(self.anchor)), None)
        assert at is not None, f"{self.path} has no line that begins with {self.anchor}"
        kept = {"before": (at, at), "after": (at + 1, at + 1), "replace": (at, at + 1)}[self.where]
        return "".join([*lines[: kept[0]], self.text, *lines[kept[1] :]])


def steps(name: str) -> list[Step]:
    found = STEP.finditer(DOCUMENT.read_text(encoding="utf-8"))
    return [
        Step(one["how"], one["path"], one["where"] or "", one["anchor"] or "", _dedented(one["text"], one["indent"]))
        for one in found
        if one["name"] == name
    ]


class Copy:
    """The repository in another place, where steps are followed and its own tests run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in COPIED:
            shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", ".peers"))
        for name in ("pyproject.toml", "Makefile", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, root / name)

    def follow(self, name: str) -> None:
        found = steps(name)
        assert found, f"CONTRIBUTING.md has no steps for {name}"
        for step in found:
            step.apply(self.root)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(str(self.root / folder) for folder in ("src", "."))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [sys.executable, *command], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )

    def passes(self, *tests: str) -> bool:
        done = self.run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.returncode == 0

    def regenerate(self) -> None:
        for tool in (("tools.protocol_schema", "schema"), ("tools.protocol_reference",), ("tools.json_events",)):
            done = self.run("-m", *tool)
            assert done.returncode == 0, done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path / "buddy")


@pytest.mark.slow
def test_a_tool_that_is_added_as_described_is_offered(copy: Copy) -> None:
    copy.follow("tool")
    assert not copy.passes("tests/tools/test_descriptions.py")
    assert copy.run("-m", "tools.tool_descriptions").returncode == 0
    assert copy.passes("tests/tools/test_descriptions.py")
    assert "word_count" in (copy.root / "src/buddy/tools/descriptions.json").read_text(encoding="utf-8")


@pytest.mark.slow  # it runs the tests of the copy five times
def test_a_request_that_is_added_as_described_is_served_to_its_role_alone(copy: Copy) -> None:
    handlers = [step for step in steps("request") if "handlers" in step.path]
    for step in steps("request"):
        if step not in handlers:
            step.apply(copy.root)
    gates = ("tests/protocol/test_schema.py", "tests/docs/test_protocol.py")
    assert not copy.passes(*gates)
    copy.regenerate()
    assert copy.passes(*gates)
    access = "tests/daemon/test_access.py"
    assert not copy.passes(access, "-k", "handler")
    for step in handlers:
        step.apply(copy.root)
    assert copy.passes(access, "-k", "handler or count_sessions")


@pytest.mark.slow
def test_an_event_that_is_added_as_described_is_missed_by_the_type_check(copy: Copy) -> None:
    folds = ("src/buddy/sessions/state.py", "src/buddy/backends/runstate.py", "src/buddy/client/view.py")
    copy.follow("event")
    generated = "tests/protocol/test_schema.py"
    assert not copy.passes(generated)
    copy.regenerate()
    assert copy.passes(generated)
    # The copy has no environment of its own.
    done = copy.run("-m", "pyright", "--pythonpath", sys.executable, *folds)
    assert {fold for fold in folds if f"{fold}:" in done.stdout} == set(folds), done.stdout
    assert "SessionPinned" in done.stdout
    assert not copy.passes("tests/docs/test_protocol.py")


def test_a_slash_command_that_is_added_as_described_is_listed(copy: Copy) -> None:
    copy.follow("slash")
    program = "from buddy.terminal.slash import listed_commands; print(dict(listed_commands())['/id'])"
    done = copy.run("-c", program)
    assert done.stdout.strip() == "show the id of this session", done.stderr


def test_a_front_end_that_reaches_into_the_runtime_is_refused(copy: Copy) -> None:
    copy.follow("frontend")
    assert _imports_are_kept(copy)
    package = copy.root / "src/buddy/console/__init__.py"
    package.write_text("from buddy.sessions.session import Session\n\n__all__ = ['Session']\n", encoding="utf-8")
    assert not _imports_are_kept(copy)


def test_every_wire_has_a_dialect_in_the_table_of_cases() -> None:
    assert {dialect.name for dialect in DIALECTS} == set(get_args(Api)) - {"scripted"}


def test_every_log_is_in_the_conformance_suite() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/buddy/log").glob("*.py")]
    logs = {name for source in sources for name in re.findall(r"^class (\w+Log)\b(?!\(Protocol)", source, re.MULTILINE)}
    tried = (ROOT / "tests/log/conftest.py").read_text(encoding="utf-8")
    assert sorted(name for name in logs - {"EventLog"} if name not in tried) == []


def test_every_backend_is_in_the_table_of_backends() -> None:
    assert {NATIVE, *OTHERS, ACP.rstrip(":")} == {cast.name for cast in AGENTS}


def test_every_listed_slash_command_is_in_the_documents() -> None:
    page = (ROOT / "docs/terminal.md").read_text(encoding="utf-8")
    assert [name for name, _ in listed_commands() if not re.search(rf"`{name}[ `]", page)] == []


def _imports_are_kept(copy: Copy) -> bool:
    done = copy.run("-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache")
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return done.returncode == 0


def _dedented(text: str, indent: str) -> str:
    return textwrap.dedent(text) if not indent else re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)

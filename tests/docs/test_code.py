"""The code in the documents runs: shell and Python blocks as written, with a scripted model and a home of their own."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.config.load import parse_config
from buddy.models.script import load_script
from tests.docs.documents import DOCUMENTS, ROOT, Block, blocks_of, name_of

# Bounds a hang.
SECONDS = 240
RUNNABLE = ("sh run", "python run")
WITH_CODE = [path for path in DOCUMENTS if any(block.kind in RUNNABLE for block in blocks_of(path))]
CONFIG = '[models.scripted]\napi = "scripted"\nscript = "{script}"\n'


class Home:
    """A user's home with a configured model, and a workspace in it."""

    def __init__(self, root: Path) -> None:
        self.workspace = root / "notes"
        self.workspace.mkdir()
        (self.workspace / "notes.txt").write_text("first\nsecond\nthird\n", encoding="utf-8")
        config = root / ".config" / "buddy" / "buddy.toml"
        config.parent.mkdir(parents=True)
        config.write_text(CONFIG.format(script=Path(__file__).with_name("model.toml")), encoding="utf-8")
        programs = root / "bin"
        programs.mkdir()
        (programs / "buddy").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m buddy "$@"\n', encoding="ascii")
        (programs / "buddy").chmod(0o755)
        self._environment = {
            "HOME": str(root),
            "XDG_CONFIG_HOME": str(root / ".config"),
            "XDG_STATE_HOME": str(root / ".state"),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "LANG": "C.UTF-8",
        }

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.workspace,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def play(self, block: Block) -> subprocess.CompletedProcess[str]:
        if block.kind == "python run":
            return self.run(sys.executable, "-c", block.text)
        return self.run("bash", "-euo", "pipefail", "-c", block.text)


@pytest.fixture
def home() -> Iterator[Home]:
    # Not pytest's own directory: the path of a socket may be 107 bytes long.
    with tempfile.TemporaryDirectory(prefix="docs-") as root:
        found = Home(Path(root))
        yield found
        found.run("buddy", "daemon", "stop")


@pytest.mark.parametrize(
    "document",
    [path if path.name == "README.md" else pytest.param(path, marks=pytest.mark.slow) for path in WITH_CODE],
    ids=name_of,
)
def test_the_code_of_a_document_runs_from_top_to_bottom(document: Path, home: Home) -> None:
    output = ""
    for block in blocks_of(document):
        if block.kind in RUNNABLE:
            done = home.play(block)
            output = done.stdout
            assert done.returncode == 0, f"{block} ended with {done.returncode}:\n{output}"
        elif block.kind == "text shows":
            missing = [line for line in block.text.splitlines() if line not in output]
            assert missing == [], f"{block} is not shown by the block before it:\n{output}"


def test_the_picture_in_the_readme_is_what_the_demo_prints(home: Home) -> None:
    shown = next(block for block in blocks_of(ROOT / "README.md") if block.kind == "text demo")
    printed = iter(_without_chance(home.run("buddy", "demo", "--fast").stdout).splitlines())
    wanted = [line for line in _without_chance(shown.text).splitlines() if line.strip() != "…"]
    # Looked for in what is left of the iterator, so each line must come after the one before it.
    assert [line for line in wanted if line not in printed] == []


def test_every_example_of_a_configuration_is_one() -> None:
    for block in _of_kind("toml config"):
        parse_config(block.text, str(block))


def test_every_example_of_a_script_is_one(tmp_path: Path) -> None:
    for block in _of_kind("toml script"):
        path = tmp_path / "script.toml"
        path.write_text(block.text, encoding="utf-8")
        load_script(path)


def test_every_block_says_what_it_is() -> None:
    known = re.compile(r"(sh|python)( run)?|toml( config| script)?|text( shows| demo)?|json|")
    assert [str(block) for path in DOCUMENTS for block in blocks_of(path) if not known.fullmatch(block.kind)] == []


def test_no_make_target_of_the_documents_is_missing() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = {word for path in DOCUMENTS for word in re.findall(r"[`\n]make ([a-z]+)", path.read_text(encoding="utf-8"))}
    assert named <= targets


def _without_chance(text: str) -> str:
    """Without what differs between two runs: ids, digests, places and numbers."""
    text = re.sub(r"\S*/buddy-demo-\w+|sess_\w+|\b[0-9a-f]{64}\b", "X", text)
    return re.sub(r" *\d+(\.\d+)?", " N", text)


def _of_kind(kind: str) -> list[Block]:
    return [block for path in DOCUMENTS for block in blocks_of(path) if block.kind == kind]

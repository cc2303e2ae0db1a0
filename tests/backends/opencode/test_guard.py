"""The plugin for OpenCode against the grammar that OpenCode reads commands with: what it lets pass is asked about."""

import itertools
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_bash

from buddy.backends.opencode import settings

GUARD = Path(settings.__file__).with_name("guard.js")
NOT_ASKED = {"cd", "chdir", "popd", "pushd", "push-location", "set-location"}
PASSES = [
    "ls", "make test", "cd x && make", "cd 'a b' && ls -la", "FOO=bar make", "# why\nmake", ": > f", "( cd x && make )",
    "(ls)", "! grep x y", "[ -f x ] && cat x", "for f in *.py; do cat $f; done", "if grep -q a b; then ls; fi",
    "export A=1 && make", "git status > out.txt", "./x", 'A="b c" make', "cd x\nmake", "A=1; ls", "exec > f",
]  # fmt: skip
REFUSED = [
    "> f", ">f", "cd . > f", "cd x", "export A=1 > f", "A=1 > f", "A=1", "{ > f; }", "( > f )", "[ -f x ] > f",
    "for x in '; do make ' ; do > f; done", "[[ a ]] > f", "(( 1 )) > f", "$(> f)", "`> f`", "time > f", "! > f",
    "# x\n> f", "", "cd x && > f", "declare A > f", "case x in x) > f;; esac", "if > f; then ls; fi",
    "f() { > x; }", "< a > b", "2> f", "&> f",
]  # fmt: skip
PIECES = [
    "cd x", "> f", "2> f", "A=1", "export B=2", "export C", "make", "ls -l", "(", ")", "{ ", "; }", "((", "))", "[ a ]",
    "[[ a ]]", "&&", "||", ";", "|", "\n", "#", "'", '"', "`", "$(", "if ", "; then ", "; fi", "for x in a b; do ",
    "; done", "while ", "! ", "time ", "case x in x) ", ";; esac", "f() { ", "<<E\n", "E\n", "declare D", "\\",
]  # fmt: skip


@pytest.fixture(scope="module")
def parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def passed(commands: list[str], folder: Path) -> list[bool]:
    """Which of these commands the plugin lets pass."""
    (folder / "guard.mjs").write_text(GUARD.read_text())
    (folder / "run.mjs").write_text(
        'import { check } from "./guard.mjs"; import fs from "fs";'
        "const lets = (c) => { try { check(c); return true; } catch { return false; } };"
        "console.log(JSON.stringify(JSON.parse(fs.readFileSync(0)).map(lets)));"
    )
    node = shutil.which("node")
    assert node, "the agents from npm need node"
    done = subprocess.run(
        [node, str(folder / "run.mjs")], input=json.dumps(commands), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def is_asked_about(command: str, parser: tree_sitter.Parser) -> bool:
    """Whether OpenCode finds a program in it: a `command` whose first word does not only change the directory."""
    nodes = [parser.parse(command.encode()).root_node]
    while nodes:
        node = nodes.pop()
        if node.type == "command":
            name = node.child_by_field_name("name")
            if name is not None and name.text is not None and name.text.decode() not in NOT_ASKED:
                return True
        nodes.extend(node.children)
    return False


def is_accepted_by_a_shell(command: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False).returncode == 0


@pytest.mark.needs("node")
def test_programs_pass_and_what_only_redirects_does_not(tmp_path: Path) -> None:
    assert [one for one, lets in zip(PASSES, passed(PASSES, tmp_path), strict=True) if not lets] == []
    assert [one for one, lets in zip(REFUSED, passed(REFUSED, tmp_path), strict=True) if lets] == []


@pytest.mark.needs("node")
def test_opencode_asks_about_whatever_passes(tmp_path: Path, parser: tree_sitter.Parser) -> None:
    chance = random.Random(7)  # noqa: S311 - test input, not secrets
    pairs = (" ".join(pair) for pair in itertools.product(PIECES, repeat=2))
    longer = (" ".join(chance.choices(PIECES, k=chance.randint(3, 7))) for _ in range(20_000))
    commands = [*PASSES, *REFUSED, *pairs, *longer]
    let = [command for command, lets in zip(commands, passed(commands, tmp_path), strict=True) if lets]
    assert len(let) > 1000
    unasked = [command for command in let if not is_asked_about(command, parser)]
    assert [command for command in unasked if is_accepted_by_a_shell(command)] == []

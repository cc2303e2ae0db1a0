"""What a command runs is found on another machine too, and without a round trip for every word of it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from buddy.targets.launchers import LocalLauncher
from buddy.targets.local import Local
from buddy.targets.remote import Remote
from buddy.tools.contract import Place
from buddy.tools.scripts import Scripts, scripts_of


class Counting(LocalLauncher):
    """This machine as if it were another, with a count of the ways there."""

    name = "ssh:counted"

    def __init__(self) -> None:
        self.ways = 0

    async def argv(self, words: Sequence[str]) -> list[str]:
        self.ways += 1
        return await super().argv(words)


async def test_words_that_are_not_files_cost_nothing(tmp_path: Path) -> None:
    launcher = Counting()
    command = "echo " + " ".join(f"word{number}" for number in range(50)) + " && make all && npm test"
    found = await scripts_of(command, str(tmp_path), Place(Remote(launcher), str(tmp_path)))
    assert (found.digests, found.complete) == ({}, True)
    assert launcher.ways == 1


async def test_what_is_there_is_bound_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    names = ["a.sh", "sub/b.py", "Makefile"]
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("a.sh")
    place = Place(Remote(Counting()), str(tmp_path))
    command = "./a.sh && python sub/../sub/b.py && make && bash ./link"
    expected = {str(tmp_path / name): hashlib.sha256(name.encode()).hexdigest() for name in names}
    assert (await scripts_of(command, str(tmp_path), place)).digests == expected
    elsewhere = await scripts_of("bash ../a.sh", str(tmp_path / "sub"), place)
    assert list(elsewhere.digests) == [str(tmp_path / "a.sh")]


async def found(root: Path, command: str, cwd: str = "") -> Scripts:
    return await scripts_of(command, str(root / cwd), Place(Local(), str(root)))


CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = false
[remote "origin"]
\turl = https://example.org/x.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
"""


def workspace(directory: Path, files: dict[str, str]) -> Path:
    root = directory / "w"
    for name, text in {"plain": "echo x\n", ".git/config": CONFIG, ".git/hooks/pre-push.sample": "", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("./b.sh", {"b.sh": '#!/bin/sh\n. "$LIB"\n'}),
        ("bash b.sh", {"b.sh": 'source "$(dirname "$0")/lib"\n'}),
        ("bash b.sh", {"b.sh": '"$TOOL" x\n'}),
        ("bash b.sh", {"b.sh": "eval $X\n"}),
        ("bash b.sh", {"b.sh": "python3 x.py\n"}),
        ("bash b.sh", {"b.sh": "if true; then\n  sh -c 'python3 x.py'\nfi\n"}),
        ("bash b.sh", {"b.sh": "./c.sh\n", "c.sh": ". $X\n"}),
        ("./b.py", {"b.py": "#!/usr/bin/env python3\nimport json\n"}),
        ("./b", {"b": "#!/usr/bin/perl\nuse Foo;\n"}),
        ("python3 x.py", {"x.py": "import json\n", "json.py": ""}),
        ("python3.11 x.py", {"x.py": ""}),
        ("env A=1 python x.py", {"x.py": ""}),
        ("python -m pkg.x", {"pkg/x.py": "", "pkg/__init__.py": ""}),
        ("node x.js", {"x.js": ""}),
        ("pytest -q", {}),
        ("make test", {"Makefile": "test:\n\t./run\n"}),
        ("npm test", {"package.json": "{}"}),
        ("git status", {".git/config": CONFIG + "[core]\n\tfsmonitor = ./evil\n"}),
        ("git status", {".git/config": CONFIG + "[include]\n\tpath = ../evil\n"}),
        ("git status", {".git/config": CONFIG + "[alias] x = !evil\n"}),
        ("git fetch", {".git/config": '[remote "o"]\n\turl = ext::evil\n'}),
        ("git commit -m x", {".git/hooks/pre-commit": "evil"}),
        ("bash b.sh", {"b.sh": "git diff\n", ".git/config": '[diff "x"]\n\ttextconv = evil\n'}),
    ],
)
async def test_what_may_run_beyond_the_files_that_were_found_is_said(
    tmp_path: Path, command: str, files: dict[str, str]
) -> None:
    assert (await found(workspace(tmp_path, files), command)).complete is False


@pytest.mark.parametrize(
    "command",
    [
        "./b.sh",
        "bash b.sh",
        "sh b.sh x",
        "git status",
        "git log",
        "git commit -m x",
        "cat a.py",
        "ls",
        "make",
    ],
)
async def test_what_is_found_completely_is_said_to_be(tmp_path: Path, command: str) -> None:
    files = {"b.sh": "#!/bin/sh\nset -e\n. ./lib.sh\necho $HOME > x\n", "lib.sh": "true\n", "a.py": "import json\n"}
    result = await found(workspace(tmp_path, files), command)
    assert result.complete is True
    assert ("b.sh" in command) == any(path.endswith("lib.sh") for path in result.digests)


async def test_a_repository_that_is_not_in_the_root_may_run_anything(tmp_path: Path) -> None:
    root = workspace(tmp_path, {"sub/HEAD": "ref: refs/heads/x", "sub/config": "", "deep/.git": "gitdir: ../x"})
    assert [(await found(root, "git status", cwd)).complete for cwd in ("sub", "deep", "")] == [False, False, True]


async def test_a_script_behind_a_link_out_of_the_workspace_is_not_complete(tmp_path: Path) -> None:
    root = workspace(tmp_path, {"c.sh": "./b.sh\n"})
    (tmp_path / "b.sh").write_text("echo good\n")
    (root / "b.sh").symlink_to(tmp_path / "b.sh")
    for command in ("./b.sh", "bash b.sh", "bash c.sh", "env bash ./b.sh"):
        result = await found(root, command)
        assert result.complete is False
        assert not any(path.endswith("b.sh") for path in result.digests)


async def test_the_packages_of_a_module_and_the_configuration_of_git_are_bound(tmp_path: Path) -> None:
    root = workspace(tmp_path, {"pkg/sub/x.py": "", "pkg/sub/__init__.py": "", "pkg/__init__.py": ""})
    names = [path.removeprefix(f"{root}/") for path in (await found(root, "python -m pkg.sub.x")).digests]
    assert names == ["pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/x.py"]
    assert list((await found(root, "git status")).digests) == [f"{root}/.git/config"]

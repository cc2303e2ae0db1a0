"""`buddy project`, as a user types it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def buddy(home: Path, *words: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "XDG_RUNTIME_DIR": ""}
    command = [sys.executable, "-m", "buddy", *words]
    return subprocess.run(command, env=env, cwd=cwd or home, capture_output=True, text=True, check=False)


def test_a_project_is_made_listed_and_shown(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "deep"
    folder.mkdir(parents=True)
    made = buddy(tmp_path, "project", "create", "shop", "--agent-runtime", "acp:gemini", cwd=tmp_path / "work")
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("proj_")
    listed = json.loads(buddy(tmp_path, "project", "list", "--json").stdout)["projects"]
    assert [(one["name"], one["rootPath"]) for one in listed] == [("shop", str(tmp_path / "work"))]
    shown = json.loads(buddy(tmp_path, "project", "show", "--json", cwd=folder).stdout)
    assert shown["project"]["name"] == "shop"
    assert "native" in shown["agent_runtimes"]["available"]
    assert "acp:gemini" in buddy(tmp_path, "project", "show", "shop").stdout


def test_what_cannot_be_a_project_is_one_line_and_exit_64(tmp_path: Path) -> None:
    for words, said in (
        (("project", "create", "x", "--agent-runtime", "gizmo"), "unknown agent runtime"),
        (("project", "create", "x", "-C", str(tmp_path / "missing")), "not a directory"),
        (("project", "show", "nobody"), "no project"),
    ):
        ended = buddy(tmp_path, *words)
        assert ended.returncode == 64
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr


def test_an_agent_runtime_that_is_not_installed_names_its_install_command(tmp_path: Path) -> None:
    ended = buddy(tmp_path, "exec", "hello", "--agent-runtime", "acp:claude")
    assert ended.returncode == 64
    assert "hint: npm install -g" in ended.stderr


@pytest.mark.slow
def test_a_project_whose_agent_is_missing_says_so_and_can_be_changed(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    made = buddy(tmp_path, "project", "create", "shop", "--agent-runtime", "acp:nobody-has-this", cwd=folder)
    assert made.returncode == 0
    assert "warning: sessions in" in made.stderr
    assert "buddy project set shop --agent-runtime native" in made.stderr
    failed = buddy(tmp_path, "exec", "hello", "--profile", "scripted", cwd=folder)
    assert failed.returncode == 64
    assert f"the project shop ({folder}) uses acp:nobody-has-this" in failed.stderr
    assert "buddy project set shop --agent-runtime native" in failed.stderr
    again = buddy(tmp_path, "project", "create", "shop2", cwd=folder)
    assert (again.returncode, "hint: change it with: buddy project set shop" in again.stderr) == (64, True)
    changed = buddy(tmp_path, "project", "set", "--agent-runtime", "native", "--name", "store", cwd=folder)
    assert changed.returncode == 0, changed.stderr
    assert "store" in changed.stdout
    assert "native" in changed.stdout
    assert buddy(tmp_path, "exec", "hello", "--profile", "scripted", cwd=folder).returncode == 0
    assert "server's default" in buddy(tmp_path, "project", "set", "store", "--agent-runtime", "default").stdout
    assert buddy(tmp_path, "project", "delete", "store").returncode == 0
    assert json.loads(buddy(tmp_path, "project", "list", "--json").stdout)["projects"] == []
    state = tmp_path / ".local/state/buddy"
    assert not [path.name for path in state.iterdir() if path.name.endswith(".new")]


@pytest.mark.slow
def test_a_project_that_is_not_there_cannot_be_changed(tmp_path: Path) -> None:
    for words, said in (
        (("project", "set", "nobody", "--agent-runtime", "native"), "no project"),
        (("project", "set", "--agent-runtime", "native"), "is not in a project"),
        (("project", "set", "nobody"), "nothing to change"),
        (("project", "delete", "nobody"), "no project"),
    ):
        ended = buddy(tmp_path, *words)
        assert (ended.returncode, said in ended.stderr) == (64, True)

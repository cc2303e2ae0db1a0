"""`buddy project`, as a user types it."""

import json
import os
import subprocess
import sys
from pathlib import Path


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

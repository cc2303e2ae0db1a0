"""`--worktree`: parallel work in a git worktree of its own, listed, merged back and removed."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.checkpoints.trees import git, make_repository
from tests.harness.home import Home
from tests.harness.scripts import shell

IDENTITY = "[user]\n\tname = x\n\temail = x@example.org\n"


def make_home(folder: Path, command: str) -> Home:
    home = Home(folder / "home").script(shell(command), {"text": "done"}, shell(command), {"text": "done"})
    (home.directory / ".gitconfig").write_text(IDENTITY)
    (home.work / "a.txt").write_text("one\n")
    make_repository(home.work)
    return home


def listed(home: Home) -> list[dict[str, object]]:
    return json.loads(home.run("worktree", "list", "--json").out)["worktrees"]


def test_a_session_works_in_its_own_tree_and_is_merged_back(tmp_path: Path) -> None:
    home = make_home(tmp_path, "echo two >> a.txt; echo new > b.txt")
    done = home.run("exec", "--worktree", "--approve", "all", "--sandbox", "host", "go")
    assert done.code == 0, done.err
    assert not (home.work / "b.txt").exists()
    [one] = listed(home)
    assert (one["changed"], one["commits"]) == (2, 0)
    assert (Path(str(one["path"])) / "b.txt").exists()
    refused = home.run("worktree", "remove", str(one["name"]))
    assert refused.code == 64
    assert "2 changed files" in refused.err
    assert home.run("worktree", "merge", str(one["name"])).code == 0
    assert (home.work / "a.txt").read_text() == "one\ntwo\n"
    assert home.run("worktree", "remove", str(one["name"])).code == 0
    assert (listed(home), git(home.work, "branch", "--list", "buddy/*")) == ([], "")
    assert not Path(str(one["path"])).exists()


def test_a_merge_that_conflicts_changes_nothing(tmp_path: Path) -> None:
    home = make_home(tmp_path, "echo theirs > a.txt")
    assert home.run("exec", "--worktree", "--approve", "all", "--sandbox", "host", "go").code == 0
    [one] = listed(home)
    (home.work / "a.txt").write_text("mine\n")
    git(home.work, "commit", "-q", "-a", "-m", "mine")
    done = home.run("worktree", "merge", str(one["name"]))
    assert (done.code, (home.work / "a.txt").read_text()) == (1, "mine\n")
    assert "a.txt" in done.err
    assert git(home.work, "status", "--porcelain") == ""
    assert home.run("worktree", "remove", str(one["name"]), "--discard").code == 0


def make_worktree(home: Home, name: str) -> Path:
    path = home.directory / name
    git(home.work, "worktree", "add", "-q", "-b", f"buddy/{name}", str(path))
    return path


def test_the_users_own_merge_is_left_alone(tmp_path: Path) -> None:
    home = make_home(tmp_path, "true")
    tree = make_worktree(home, "side")
    (tree / "b.txt").write_text("new\n")
    git(home.work, "checkout", "-q", "-b", "other")
    (home.work / "a.txt").write_text("theirs\n")
    git(home.work, "commit", "-q", "-a", "-m", "theirs")
    git(home.work, "checkout", "-q", "-")
    (home.work / "a.txt").write_text("mine\n")
    git(home.work, "commit", "-q", "-a", "-m", "mine")
    with pytest.raises(subprocess.CalledProcessError):
        git(home.work, "merge", "-q", "other")
    (home.work / "a.txt").write_text("half resolved\n")
    for _ in ("unmerged", "resolved"):
        done = home.run("worktree", "merge", "side")
        assert (done.code, (home.work / "a.txt").read_text()) == (64, "half resolved\n")
        assert "a merge is under way" in done.err
        assert (home.work / ".git" / "MERGE_HEAD").exists()
        assert git(tree, "status", "--porcelain") == "?? b.txt\n"
        git(home.work, "add", "a.txt")


def test_what_git_refuses_to_remove_needs_to_be_discarded(tmp_path: Path) -> None:
    home = make_home(tmp_path, "true")
    module = home.directory / "module"
    module.mkdir()
    make_repository(module)
    git(home.work, "submodule", "add", "-q", str(module), "module")
    git(home.work, "commit", "-q", "-m", "module")
    tree = make_worktree(home, "side")
    git(tree, "submodule", "update", "-q", "--init")
    refused = home.run("worktree", "remove", "side")
    assert (refused.code, (tree / "module" / ".git").exists()) == (64, True)
    assert "--discard" in refused.err
    assert home.run("worktree", "remove", "side", "--discard").code == 0
    assert not tree.exists()


def test_without_a_repository_it_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").script({"text": "never"})
    done = home.run("exec", "--worktree", "go")
    assert done.code == 64
    assert "git repository" in done.err

"""Git as Buddy starts it, in repositories whose own git would run a canary."""

import ast
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from buddy.errors import UserError
from buddy.git import Git, find_repository, open_repository
from tests.harness.hostile_repository import (
    HOOKS,
    PROGRAMS,
    TRIGGERS,
    git,
    make_canary,
    make_repository,
    poison,
    set_config,
)  # fmt: skip
from tests.harness.processes import PATIENCE

SRC = Path(__file__).parents[1] / "src"


def run(command: list[str], opened: Git) -> str:
    done = subprocess.run(command, env=opened.environment, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def use_everything(folder: Path) -> tuple[set[str], str, str]:
    """What each of our commands shows."""
    with open_repository(str(folder)) as opened:
        files = set(run(opened.list_files(), opened).split("\0")) - {""}
        return files, run(opened.show_status(), opened), run(opened.show_changes(), opened)


def has_run(canary: Path) -> bool:
    return (canary.parent / "ran").exists()


def by_plain_git(folder: Path, *words: str) -> None:
    """As a person would run it there: this is what the canary is for."""
    subprocess.run(["git", *words], cwd=folder, capture_output=True, timeout=PATIENCE, check=False)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return make_canary(tmp_path / "canary")


def test_a_healthy_repository_is_shown_as_git_shows_it(tmp_path: Path):
    folder = make_repository(tmp_path / "work")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "noise.log").write_text("")
    files, status, changes = use_everything(folder)
    assert files == {"changed.txt", "same.txt", "sub dir/inner.txt", "new.txt", ".gitignore"}
    assert status == "## main\n M changed.txt\n?? .gitignore\n?? new.txt\n"
    assert changes == git(folder, "diff", "HEAD")


def test_a_folder_below_the_root_lists_its_own_files(tmp_path: Path):
    folder = make_repository(tmp_path / "work")
    assert use_everything(folder / "sub dir")[0] == {"inner.txt"}


def test_the_user_s_own_settings_still_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = make_repository(tmp_path / "work")
    (tmp_path / "ignored").write_text("new.*\n")
    (tmp_path / ".gitconfig").write_text("[core]\n\texcludesFile = ~/ignored\n[diff]\n\tnoprefix = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    files, _, changes = use_everything(folder)
    assert "new.txt" not in files
    assert "diff --git changed.txt changed.txt" in changes


def test_a_poisoned_repository_would_run_the_canary(tmp_path: Path, canary: Path):
    folder = make_repository(tmp_path / "work")
    poison(folder, canary)
    for words in (("status",), ("diff", "HEAD"), ("ls-files", "-co")):
        (canary.parent / "ran").unlink(missing_ok=True)
        by_plain_git(folder, *words)
        assert has_run(canary), words


def test_no_program_of_a_poisoned_repository_runs(tmp_path: Path, canary: Path):
    folder = make_repository(tmp_path / "work")
    poison(folder, canary)
    files, status, changes = use_everything(folder)
    assert not has_run(canary)
    assert "new.txt" in files
    assert " M changed.txt" in status
    assert "+after" in changes


@pytest.mark.parametrize("name", [*PROGRAMS, *TRIGGERS])
def test_no_single_setting_has_an_effect(tmp_path: Path, canary: Path, name: str):
    """One at a time: a broken setting among others could end git before it reaches the next."""
    folder = make_repository(tmp_path / "work")
    (folder / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    os.utime(folder / "same.txt", (1, 1))
    value = TRIGGERS.get(name, "{canary} #").format(canary=canary)
    set_config(folder / ".git" / "config", name, value)
    _, status, changes = use_everything(folder)
    assert not has_run(canary)
    assert (" M changed.txt" in status, "+after" in changes) == (True, True)


@pytest.mark.parametrize("hook", HOOKS)
def test_no_hook_runs(tmp_path: Path, canary: Path, hook: str):
    folder = make_repository(tmp_path / "work")
    (folder / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\n{canary}\n")
    (folder / ".git" / "hooks" / hook).chmod(0o755)
    os.utime(folder / "same.txt", (1, 1))
    use_everything(folder)
    assert not has_run(canary)


def test_nothing_of_the_repository_is_written(tmp_path: Path):
    folder = make_repository(tmp_path / "work")
    os.utime(folder / "same.txt", (1, 1))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    use_everything(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_repository_from_an_archive_runs_nothing(tmp_path: Path, canary: Path):
    poison(make_repository(tmp_path / "made"), canary)
    with tarfile.open(tmp_path / "made.tar", "w") as archive:
        archive.add(tmp_path / "made", "unpacked")
    with tarfile.open(tmp_path / "made.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    use_everything(tmp_path / "unpacked")
    assert not has_run(canary)


def test_a_bare_repository_in_a_work_tree_is_a_folder(tmp_path: Path, canary: Path):
    folder = make_repository(tmp_path / "work")
    bare = folder / "fixtures" / "x"
    bare.mkdir(parents=True)
    git(bare, "init", "-q", "--bare")
    set_config(bare / "config", "core.bare", "false")
    set_config(bare / "config", "core.worktree", ".")
    set_config(bare / "config", "core.fsmonitor", f"{canary};false")
    by_plain_git(bare, "status")
    assert has_run(canary)
    (canary.parent / "ran").unlink()
    found = find_repository(str(bare))
    assert found is not None
    assert found.directory == folder / ".git"
    use_everything(bare)
    assert not has_run(canary)


def test_a_workspace_turned_into_a_bare_repository_is_none(tmp_path: Path, canary: Path):
    folder = make_repository(tmp_path / "work")
    (folder / ".git" / "HEAD").rename(folder / ".git" / "HEAD.x")
    for name in ("objects", "refs"):
        (folder / name).mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    settings = "\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n"
    (folder / "config").write_text(f"[core]\n{settings}\tfsmonitor = {canary};false\n")
    by_plain_git(folder, "status")
    assert has_run(canary)
    (canary.parent / "ran").unlink()
    with pytest.raises(UserError, match="is not a git repository"), open_repository(str(folder)):
        pass
    assert not has_run(canary)


def test_a_worktree_is_shown_and_runs_nothing(tmp_path: Path, canary: Path):
    folder = make_repository(tmp_path / "work")
    git(folder, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    (tmp_path / "other" / "changed.txt").write_text("elsewhere\n")
    git(folder, "config", "extensions.worktreeConfig", "true")
    poison(folder, canary)
    set_config(folder / ".git" / "worktrees" / "other" / "config.worktree", "core.fsmonitor", f"{canary};false")
    _, status, changes = use_everything(tmp_path / "other")
    assert not has_run(canary)
    assert status.startswith("## other\n M changed.txt\n")
    assert "+elsewhere" in changes


def test_a_submodule_is_not_entered(tmp_path: Path, canary: Path):
    inner = make_repository(tmp_path / "inner")
    folder = make_repository(tmp_path / "work")
    git(folder, "submodule", "add", "-q", str(inner), "sub")
    git(folder, "commit", "-qm", "second")
    poison(folder / "sub", canary)
    (folder / ".gitmodules").write_text((folder / ".gitmodules").read_text() + "\tignore = none\n")
    by_plain_git(folder, "status")
    assert has_run(canary)
    (canary.parent / "ran").unlink()
    use_everything(folder)
    use_everything(folder / "sub")
    assert not has_run(canary)


def test_a_nested_repository_is_not_entered(tmp_path: Path, canary: Path):
    folder = make_repository(tmp_path / "work")
    poison(make_repository(folder / "nested"), canary)
    (canary.parent / "ran").unlink(missing_ok=True)
    use_everything(folder)
    assert not has_run(canary)


def test_missing_objects_are_not_fetched(tmp_path: Path, canary: Path):
    folder = make_repository(tmp_path / "work")
    name = git(folder, "rev-parse", "HEAD:changed.txt").strip()
    (folder / ".git" / "objects" / name[:2] / name[2:]).unlink()
    git(folder, "config", "core.repositoryFormatVersion", "1")
    git(folder, "config", "extensions.partialClone", "origin")
    git(folder, "config", "remote.origin.url", str(folder))
    git(folder, "config", "remote.origin.promisor", "true")
    git(folder, "config", "remote.origin.uploadpack", str(canary))
    by_plain_git(folder, "diff", "HEAD")
    assert has_run(canary)
    (canary.parent / "ran").unlink()
    with open_repository(str(folder)) as opened:
        subprocess.run(opened.show_changes(), env=opened.environment, capture_output=True, check=False)
    assert not has_run(canary)


@pytest.mark.parametrize("storage", ["split index", "packed references", "sha256", "detached", "no commit"])
def test_other_shapes_of_a_repository_are_understood(tmp_path: Path, storage: str):
    folder = tmp_path / "work"
    if storage == "sha256":
        folder.mkdir()
        git(folder, "init", "-q", "--object-format=sha256")
        (folder / "changed.txt").write_text("before\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "first")
        (folder / "changed.txt").write_text("after\n")
    else:
        make_repository(folder)
    if storage == "split index":
        git(folder, "update-index", "--split-index")
    elif storage == "packed references":
        git(folder, "pack-refs", "--all")
    elif storage == "detached":
        git(folder, "checkout", "-q", "--detach")
    elif storage == "no commit":
        git(folder, "update-ref", "-d", "HEAD")
        with open_repository(str(folder)) as opened:
            assert "A  same.txt" in run(opened.show_status(), opened)
        return
    files, status, changes = use_everything(folder)
    assert "changed.txt" in files
    assert " M changed.txt" in status
    assert "+after" in changes


@pytest.mark.parametrize("name", ["HEAD", "config", "commondir"])
def test_a_pipe_in_a_repository_is_not_waited_for(tmp_path: Path, name: str):
    folder = make_repository(tmp_path / "work")
    (folder / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(folder / ".git" / name)
    if name == "HEAD":
        assert find_repository(str(folder)) is None
    else:
        assert "new.txt" in use_everything(folder)[0]


def test_git_of_the_workspace_is_not_started(tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch):
    folder = make_repository(tmp_path / "work")
    (folder / "git").symlink_to(canary)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    monkeypatch.chdir(folder)
    use_everything(folder)
    assert not has_run(canary)


def test_variables_of_this_process_do_not_reach_git(tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch):
    folder = make_repository(tmp_path / "work")
    for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_ASKPASS", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND"):
        monkeypatch.setenv(name, str(canary))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.fsmonitor'='{canary}'")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    use_everything(folder)
    assert not has_run(canary)


def starts_git(tree: ast.AST) -> bool:
    """A list that begins with git, as commands do, or git as an argument of something that finds or starts programs."""
    starting = re.compile(
        r"run|Popen|call|check_\w+|create_subprocess_\w+|system|popen|spawn\w*|exec\w*|which|find_program"
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.List) and node.elts and isinstance(node.elts[0], ast.Constant):
            if node.elts[0].value == "git":
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            words = [word.value for word in node.args if isinstance(word, ast.Constant)]
            if starting.fullmatch(name) and any(re.match(r"git( |$)", str(word)) for word in words):
                return True
    return False


@pytest.mark.slow
def test_no_other_module_starts_git():
    assert starts_git(ast.parse("command = ['git', '-C', root]"))
    assert starts_git(ast.parse("subprocess.run('git status', shell=True)"))
    assert starts_git(ast.parse("shutil.which('git')"))
    found = {str(path.relative_to(SRC)) for path in SRC.rglob("*.py") if starts_git(ast.parse(path.read_text()))}
    assert found == {"buddy/git.py"}

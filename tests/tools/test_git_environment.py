"""Git commands that a rule allowed, in repositories whose own configuration would run a canary."""

from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from buddy.errors import ToolError
from buddy.tools.contract import Call
from buddy.tools.git_environment import overrule, runs_git
from buddy.tools.run_shell import RunShell, RunShellArgs
from tests.harness.hostile_repository import (
    HOOKS,
    PROGRAMS,
    TRIGGERS,
    git,
    make_canary,
    make_repository,
    poison,
    set_config,
)

BY_RULE = "rule:1234"
LOOKING = (
    "git status",
    "git diff",
    "git diff HEAD",
    "git log -p -1",
    "git show HEAD",
    "git ls-files -o",
    "git blame same.txt",
)
REFUSED = (
    "includeIf.gitdir:**.path",
    "includeIf.onbranch:**.path",
    "core.gitProxy",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
)
CHANGING = ("git add .", "git commit -aqm x", "git checkout .", "git stash", "git fetch", "git push", "git gc --auto")


@pytest.fixture
def repository(root: Path) -> Path:
    root.rmdir()
    return make_repository(root)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return make_canary(tmp_path / "canary")


def has_run(canary: Path) -> bool:
    return (canary.parent / "ran").exists()


def remove_refused(repository: Path) -> None:
    """Remove the settings because of which a command is not run at all."""
    for name in REFUSED:
        git(repository, "config", "--unset-all", name)


async def run(command: str, call: Call) -> str:
    return (await RunShell().run(RunShellArgs(command), msgspec.structs.replace(call, by=BY_RULE))).text


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PROGRAMS, *TRIGGERS])
async def test_no_setting_of_the_repository_runs_anything(
    call: Call, repository: Path, canary: Path, name: str
) -> None:
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    set_config(repository / ".git" / "config", name, TRIGGERS.get(name, "{canary} #").format(canary=canary))
    for command in (*LOOKING, *CHANGING):
        with pytest.raises(ToolError) if name in REFUSED else nullcontext():
            await run(command, call)
        assert not has_run(canary), command


async def test_looking_works_without_the_repository_s_programs(call: Call, repository: Path, canary: Path) -> None:
    poison(repository, canary)
    remove_refused(repository)
    for name in ("diff.external", "diff.evil.command", "core.attributesFile"):
        git(repository, "config", "--unset-all", name)
    (canary.parent / "ran").unlink(missing_ok=True)
    assert "M changed.txt" in await run("git status --short", call)
    assert "+after" in await run("git diff HEAD", call)
    assert not has_run(canary)


async def test_a_person_s_own_approval_runs_git_as_it_is(call: Call, repository: Path, canary: Path) -> None:
    set_config(repository / ".git" / "config", "core.fsmonitor", str(canary))
    await RunShell().run(RunShellArgs("git status"), msgspec.structs.replace(call, by="cli"))
    assert has_run(canary)


@pytest.mark.parametrize("hook", HOOKS)
async def test_no_hook_runs(call: Call, repository: Path, canary: Path, hook: str) -> None:
    (repository / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\n{canary}\n")
    (repository / ".git" / "hooks" / hook).chmod(0o755)
    for command in (
        "git status",
        "git add .",
        "git -c user.name=a -c user.email=a@b.c commit -qm x",
        "git checkout -q -b y",
    ):
        await run(command, call)
    assert not has_run(canary)
    assert git(repository, "rev-parse", "--abbrev-ref", "HEAD").strip() == "y"


async def test_a_file_is_not_stored_without_its_filter(call: Call, repository: Path, canary: Path) -> None:
    set_config(repository / ".git" / "config", "filter.evil.clean", str(canary))
    (repository / ".gitattributes").write_text("*.txt filter=evil\n")
    text = await run("git add new.txt", call)
    assert "clean filter 'evil' failed" in text
    assert "new.txt" not in git(repository, "ls-files")


async def test_submodules_run_nothing(call: Call, repository: Path, canary: Path, tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner")
    git(repository, "submodule", "add", "-q", str(inner), "sub")
    git(repository, "commit", "-qam", "second")
    poison(repository / "sub", canary)
    remove_refused(repository / "sub")
    (canary.parent / "ran").unlink(missing_ok=True)
    await run("git status", call)
    await run("git diff", call)
    assert not has_run(canary)


async def test_a_bare_repository_in_a_folder_is_not_used(call: Call, repository: Path, canary: Path) -> None:
    bare = repository / "fixtures" / "x"
    bare.mkdir(parents=True)
    git(bare, "init", "-q", "--bare")
    set_config(bare / "config", "core.bare", "false")
    set_config(bare / "config", "core.worktree", ".")
    set_config(bare / "config", "core.fsmonitor", f"{canary};false")
    by_rule = msgspec.structs.replace(call, by=BY_RULE)
    await RunShell().run(RunShellArgs("git status", cwd="fixtures/x"), by_rule)
    assert not has_run(canary)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url.ext::sh -c evil.insteadOf", "https://example.com"),
        ("includeIf.onbranch:y.path", "evil"),
        ("core.worktree", "/"),
        ("core.worktree", "../../"),
        ("core.gitProxy", "evil"),
        ("remote.origin.uploadpack", "evil"),
        ("remote.origin.receivepack", "evil"),
        ("remote.origin.vcs", "evil"),
        ("gc.recentObjectsHook", "evil"),
        ("http.extraHeader", "X: y"),
    ],
)
async def test_what_cannot_be_overruled_refuses_the_command(
    call: Call, repository: Path, name: str, value: str
) -> None:
    set_config(repository / ".git" / "config", name, value)
    with pytest.raises(ToolError, match="can't be overruled"):
        await run("git status", call)


@pytest.mark.parametrize(("name", "url"), [("remote.origin.url", "./bare"), ("branch.main.remote", "./bare")])
async def test_hooks_of_a_repository_in_the_workspace_do_not_run(
    call: Call, repository: Path, canary: Path, name: str, url: str
) -> None:
    bare = repository / "bare"
    git(repository, "clone", "-q", "--bare", ".", "bare")
    hook = bare / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{canary}\n")
    hook.chmod(0o755)
    git(repository, "checkout", "-qB", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    set_config(repository / ".git" / "config", name, url)
    set_config(repository / ".git" / "config", "branch.main.merge", "refs/heads/main")
    set_config(repository / ".git" / "config", "push.default", "upstream")
    for command in ("git push origin main", "git push", f"git push {bare} main"):
        await run(command, call)
    assert not has_run(canary)


def test_the_user_s_own_settings_win() -> None:
    listed = (
        b"global\0filter.lfs.clean\ngit-lfs clean\0local\0filter.lfs.clean\nevil\0global\0credential.helper\nstore\0"
        b"local\0credential.helper\nevil\0local\0http.sslVerify\nfalse\0local\0user.name\nme\0"
    )
    assert list(overrule(listed, is_looking=False)) == [
        ("filter.lfs.clean", "git-lfs clean"),
        ("credential.helper", ""),
        ("credential.helper", "store"),
        ("http.sslVerify", "true"),
    ]


@pytest.mark.parametrize("command", ["git status", "/usr/bin/git log", "ls && git diff | head", "git-upload-pack x"])
def test_git_is_recognized(command: str) -> None:
    assert runs_git(command)
    assert not runs_git("echo git; cat git.txt")

"""What a hostile command tries with files and repositories from inside, with each confinement method."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from buddy.errors import ToolError
from buddy.targets.confine import landlock, supervisor
from buddy.targets.confine.methods import confine as confine_argv
from buddy.targets.confine.policy import OWN_CODE, ConfinementPolicy
from buddy.targets.confine.probe import ProbeResult
from buddy.targets.confine.target import Confined
from tests.harness.installed import need
from tests.targets.captured_output import CapturedOutput
from tests.targets.inspect_files import contents, run

GIT = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "protocol.file.allow=always")


def git(*words: str, cwd: Path) -> None:
    need("git")
    subprocess.run(["git", *GIT, *words], cwd=cwd, check=True, capture_output=True)


def confine(way: str, root: Path, home: Path) -> Confined:
    return Confined(ConfinementPolicy(str(root), home=str(home), own=()), lambda: ProbeResult(way), grace=0.2)


async def test_links_do_not_lead_outside(confined: Confined, root: Path, home: Path, own: Path, nonce: str) -> None:
    (home / ".bashrc").write_text("mine")
    attacks = (
        f"ln -s {home} h; echo evil >h/.bashrc; ln -s {own}/auth.json a; cat a; ln {own}/auth.json b; cat b; "
        f"ln {home}/.bashrc c && echo evil >c; ln -s .git g; echo evil >g/config; "
        "ln -s config .git/config.worktree; true"
    )
    _, output = await run(confined, attacks, root, nonce)
    assert "secret" not in output
    assert contents(home) == {".bashrc": b"mine"}
    assert (root / ".git" / "config").read_text() == "[core]\n"


async def test_swapping_directories_in_a_loop_does_not_defeat_protection(
    confined: Confined, root: Path, home: Path, nonce: str
) -> None:
    command = (
        f"for i in $(seq 50); do mv .git x; ln -s {home} .git; rm -f .git; mv x .git; mkdir -p .git/hooks; "
        "echo evil >.git/hooks/p; mv .git/hooks .git/h; echo evil >.git/config; done 2>/dev/null; true"
    )
    await run(confined, command, root, nonce)
    assert contents(root) == {".git/config": b"[core]\n"}
    assert contents(home) == {}


ELSEWHERE = {
    "common directory": "mkdir -p evil/hooks; echo ../evil >.git/commondir",
    "worktree's configuration": "echo '[core] hooksPath = evil' >.git/config.worktree",
    "a new repository": "rm -rf .git; mv .git old; git init -q .; echo evil >.git/hooks/pre-commit",
    "git itself": "git config core.hooksPath evil; git config --global core.hooksPath e; git config include.path ../e",
    "templates": "cp -r .git other && mv .git old; mv other .git",
}


@pytest.mark.parametrize("how", ELSEWHERE)
async def test_git_cannot_be_redirected(way: str, tmp_path: Path, home: Path, nonce: str, how: str) -> None:
    work = tmp_path / "repository"
    work.mkdir()
    git("init", "-q", ".", cwd=work)
    before = {path: data for path, data in contents(work).items() if path.startswith(".git/")}
    await run(confine(way, work, home), f"{ELSEWHERE[how]}; true", work, nonce)
    after = contents(work)
    assert {path: after.get(path) for path in before} == before
    assert not {".git/commondir", ".git/config.worktree", ".git/hooks/pre-commit"} & set(after)


async def test_git_works_inside_and_does_not_add_our_files(way: str, tmp_path: Path, home: Path, nonce: str) -> None:
    work = tmp_path / "repository"
    work.mkdir()
    git("init", "-q", ".", cwd=work)
    words = " ".join(GIT)
    command = (
        f"echo x >x && git status --short && git add -A && git {words} commit -qm one && git show --stat --format="
    )
    code, output = await run(confine(way, work, home), command, work, nonce)
    assert (code, output) == (0, "?? x\n x | 1 +\n 1 file changed, 1 insertion(+)\n")
    assert sorted(path.name for path in work.iterdir()) == [".git", "x"]


async def test_hooks_in_the_workspace_are_protected(way: str, tmp_path: Path, home: Path, nonce: str) -> None:
    work = tmp_path / "repository"
    (work / "tools" / "hooks").mkdir(parents=True)
    (work / "tools" / "hooks" / "pre-commit").write_text("good")
    (work / "shared.config").write_text("[alias]\n")
    git("init", "-q", ".", cwd=work)
    git("config", "core.hooksPath", "tools/hooks", cwd=work)
    git("config", "include.path", "../shared.config", cwd=work)
    target = confine(way, work, home)
    attack = (
        "echo evil >tools/hooks/pre-commit; mv tools t; rm -rf tools; echo evil >shared.config; "
        "mv shared.config s; true"
    )
    await run(target, attack, work, nonce)
    assert (work / "tools" / "hooks" / "pre-commit").read_text() == "good"
    assert (work / "shared.config").read_text() == "[alias]\n"
    with pytest.raises(ToolError, match="protected"):
        await target.write_file("tools/hooks/pre-commit", b"evil", root=str(work))


async def test_repositories_inside_the_workspace_are_protected(
    way: str, tmp_path: Path, home: Path, nonce: str
) -> None:
    work = tmp_path / "many"
    for name in ("one", "group/two", "source"):
        (work / name).mkdir(parents=True)
        git("init", "-q", ".", cwd=work / name)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=work / "source")
    git("submodule", "add", "-q", str(work / "source"), "sub", cwd=work / "one")
    before = {path: data for path, data in contents(work).items() if ".git" in path}
    attack = (
        "for r in one group/two one/.git/modules/sub; do [ -d $r/.git ] && r=$r/.git; echo evil >$r/config; "
        "echo evil >$r/hooks/post-checkout; echo ../../evil >$r/commondir; done; "
        "echo 'gitdir: /x' >one/sub/.git; rm -rf group; mv one 1; true"
    )
    target = confine(way, work, home)
    await run(target, attack, work, nonce)
    kept = contents(work)
    dangerous = {
        path: data for path, data in before.items() if path.endswith(("config", "sub/.git")) or "hooks/" in path
    }
    assert {path: kept.get(path) for path in dangerous} == dangerous
    assert not [path for path in kept if path.endswith(("commondir", "post-checkout"))]
    with pytest.raises(ToolError, match="protected"):
        await target.write_file("group/two/.git/hooks/x", b"evil", root=str(work))


async def test_a_worktree_cannot_be_redirected(way: str, tmp_path: Path, home: Path, nonce: str) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git("init", "-q", ".", cwd=main)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=main)
    git("worktree", "add", "-q", str(tree), cwd=main)
    pointer = (tree / ".git").read_text()
    attack = f"echo gitdir: evil >.git; rm .git; mv .git x; echo evil >{main}/.git/hooks/x; true"
    await run(confine(way, tree, home), attack, tree, nonce)
    assert (tree / ".git").read_text() == pointer
    assert not (main / ".git" / "hooks" / "x").exists()


STARTED_LATER = [
    ".envrc",
    ".mcp.json",
    ".opencode/plugin/x.js",
    ".factory/hooks.json",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".vscode/extensions.json",
    "agent.toml",
    ".husky/pre-commit",
    ".claude/settings.json",
    ".cursor/mcp.json",
    ".devcontainer/devcontainer.json",
    ".pre-commit-config.yaml",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    ".circleci/config.yml",
]


@pytest.mark.parametrize("path", STARTED_LATER)
async def test_files_that_other_programs_would_run_cannot_be_written(
    confined: Confined, root: Path, nonce: str, path: str
) -> None:
    before = contents(root)
    code, _ = await run(confined, f"mkdir -p $(dirname {path}); echo evil >{path}", root, nonce)
    assert code != 0
    assert contents(root) == before


async def test_concurrent_commands_keep_each_others_protection(
    way: str, tmp_path: Path, home: Path, nonce: str
) -> None:
    work = tmp_path / "bare"
    work.mkdir()
    first, second = confine(way, work, home), confine(way, work, home)
    taken = CapturedOutput()
    waiting = (
        "echo up; until [ -e go ]; do sleep 0.02; done; "
        "mkdir -p .git/hooks; echo evil >buddy.toml; echo evil >.git/hooks/x; true"
    )
    running = asyncio.create_task(first.run(waiting, cwd=str(work), nonce=nonce, on_output=taken))
    await taken.wait_for(b"up")
    await run(second, "true", work, f"{nonce}2")
    (work / "go").touch()
    await running
    assert sorted(path.name for path in work.iterdir()) == ["go"]


async def test_the_probe_does_not_block_the_event_loop(root: Path, home: Path) -> None:
    loop, inside, let_go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def slow() -> ProbeResult:
        loop.call_soon_threadsafe(inside.set)
        let_go.wait(30)
        return ProbeResult(reason="tried")

    verifying = asyncio.create_task(
        Confined(ConfinementPolicy(str(root), home=str(home), own=()), slow).verify(str(root))
    )
    await inside.wait()
    assert not verifying.done()
    let_go.set()
    with pytest.raises(ToolError, match="cannot be proven"):
        await verifying


@pytest.fixture
def strangers_place() -> Generator[Path]:
    """A workspace of an ordinary user, in a place that user can reach."""
    need("setpriv", "/usr/bin/python3")
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    place = Path(tempfile.mkdtemp(prefix="buddy-user-"))
    place.chmod(0o755)
    (place / "work" / ".git" / "hooks").mkdir(parents=True)
    for path in (place / "work").rglob("*"):
        os.chown(path, 65534, 65534)
    os.chown(place / "work", 65534, 65534)
    for helper in (landlock.__file__, supervisor.__file__):
        shutil.copy(helper, place)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def run_as_stranger(way: str, place: Path, argv: list[str]) -> "subprocess.CompletedProcess[str]":
    work = place / "work"
    policy = ConfinementPolicy(str(work), home=str(place), own=())
    with policy.active():
        # Not in a private directory; the helpers need the standard library alone, and that user may not be able to run
        # this interpreter.
        plan = msgspec.structs.replace(policy.plan(network=False), visible=(str(place),))
        renamed = {sys.executable: "/usr/bin/python3", OWN_CODE: str(place)}
        words = [renamed.get(word, word) for word in confine_argv(way, plan, argv, str(work))]
        user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
        return subprocess.run([*user, *words], capture_output=True, text=True, check=False, timeout=60)


CALLS = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for number in (250, 425, 321):
    print(libc.syscall(number, 0, 0, 0, 0, 0), ctypes.get_errno() == 1, end=' ')
print(libc.unshare(0x10000000), ctypes.get_errno() == 1, end=' ')
server = socket.socket(socket.AF_UNIX)
server.bind('own')
server.listen()
socket.socket(socket.AF_UNIX).connect('own')
os.unlink('own')
try:
    socket.socket(socket.AF_UNIX).connect({door!r})
except OSError:
    print('refused')
"""


def test_calls_and_sockets_are_judged_for_an_ordinary_user_too(way: str, strangers_place: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86_64")
    door = Path(f"/var/lib/buddy-user-{os.getpid()}.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(door))
        server.listen()
        door.chmod(0o777)
        try:
            done = run_as_stranger(way, strangers_place, ["/usr/bin/python3", "-c", CALLS.format(door=str(door))])
        finally:
            door.unlink()
    assert (done.returncode, done.stdout) == (0, "-1 True " * 4 + "refused\n"), done.stderr


def test_confinement_works_for_an_ordinary_user(way: str, strangers_place: Path) -> None:
    work = strangers_place / "work"
    attack = (
        "echo in >inside; echo x >/dev/null && echo heard; echo evil >.git/hooks/x; echo evil >.git/config; "
        ": >>/proc/sys/kernel/core_pattern; echo x >/dev/shm/x && echo shared; echo evil >/var/tmp/../../etc/x; true"
    )
    done = run_as_stranger(way, strangers_place, ["bash", "-c", attack])
    assert (done.returncode, done.stdout) == (0, "heard\nshared\n"), done.stderr
    assert contents(work) == {"inside": b"in\n"}

"""A confined command cannot leave a repository behind that runs code when somebody uses git there later."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.targets.confine import tree
from buddy.targets.confine.journal import clean_up
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.probe import ProbeResult
from buddy.targets.confine.target import Confined
from tests.harness.installed import need
from tests.harness.processes import wait_until
from tests.targets.inspect_files import contents, run

GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@example.com")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "PWNED"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    need("git")
    place = tmp_path / "repository"
    for name in ("src", "node_modules/pkg", "build/out", "a/b/c/d/e/f/g"):
        (place / name).mkdir(parents=True)
    subprocess.run([*GIT, "init", "-q", "."], cwd=place, check=True)
    (place / "src" / "main.c").write_text("int main;\n")
    subprocess.run([*GIT, "add", "."], cwd=place, check=True)
    subprocess.run([*GIT, "commit", "-qm", "one"], cwd=place, check=True)
    return place


@pytest.fixture
def target(way: str, work: Path, home: Path, tmp_path: Path) -> Confined:
    policy = ConfinementPolicy(str(work), home=str(home), own=(), state_dir=tmp_path / "state")
    return Confined(policy, lambda: ProbeResult(way), grace=0.2)


CONFIG = "[core]\\n repositoryformatversion = 0\\n bare = false\\n worktree = .\\n fsmonitor = touch {canary};false\\n"
BARE = "mkdir -p {at}/objects {at}/refs; echo 'ref: refs/heads/x' >{at}/HEAD; printf '" + CONFIG + "' >{at}/config"
NESTED = "mkdir -p {at}; git init -q {at}; printf '" + CONFIG.replace("worktree = .", "x = y") + "' >{at}/.git/config"
ATTACKS = {
    "the workspace as a bare repository": ("mv .git/HEAD .git/HEAD.x; " + BARE, "."),
    "a bare repository in a folder": (BARE, "src"),
    "a bare repository deep down": (BARE, "a/b/c/d/e/f/g/h/i/j"),
    "a nested repository": (NESTED, "src"),
    "a nested repository among packages": (NESTED, "node_modules/pkg"),
    "a nested repository in a build": (NESTED, "build/out/deep/er"),
    "a pointer to a repository": (BARE.replace("{at}", "x") + "; echo gitdir: ../x >{at}/.git", "src"),
    "a link to a repository": (BARE.replace("{at}", "x") + "; ln -s ../x {at}/.git", "src"),
    "a pointer into the repository": (
        "mkdir -p .git/m/refs .git/m/objects; cp .git/HEAD .git/m; printf '" + CONFIG + "' >.git/m/config; "
        "echo gitdir: ../.git/m >{at}/.git",
        "src",
    ),
    "files that are elsewhere": (
        BARE.replace("{at}", "x") + "; rm x/HEAD; echo 'ref: refs/heads/x' >{at}/HEAD; echo ../x >{at}/commondir",
        "src",
    ),
    "an included file": (
        "git init -q {at}; printf '" + CONFIG + "' >e; printf '[include]\\n path = ../../e\\n' >>{at}/.git/config",
        "src",
    ),
    "a submodule that is looked into": (
        NESTED.replace("git init -q {at};", "git init -q {at}; git -C {at} -c user.name=x -c user.email=x "
        "commit -q --allow-empty -m x; git -c advice.addEmbeddedRepo=false add {at};"),
        "sub",
    ),
}  # fmt: skip


def use_git(cwd: Path) -> None:
    for word in ("status", "diff"):
        subprocess.run(["git", word], cwd=cwd, check=False, capture_output=True)


def set_aside_in(place: Path) -> list[str]:
    return sorted(path.name for path in place.glob("*set-aside"))


def has_run(canary: Path) -> bool:
    return canary.exists()


def make_repository(place: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=place, check=True)


@pytest.mark.parametrize("how", ATTACKS)
async def test_a_new_repository_runs_nothing_later(
    target: Confined, work: Path, canary: Path, nonce: str, how: str
) -> None:
    attack, at = ATTACKS[how]
    _, output = await run(target, attack.format(at=at, canary=canary), work, nonce)
    for cwd in (work, work / at):
        use_git(cwd)
    assert not has_run(canary)
    assert "set-aside" in output


def test_the_attacks_work_without_confinement(work: Path, canary: Path) -> None:
    attack, at = ATTACKS["the workspace as a bare repository"]
    subprocess.run(["bash", "-c", attack.format(at=at, canary=canary)], cwd=work, check=True, capture_output=True)
    use_git(work)
    assert has_run(canary)


async def test_a_harmless_new_repository_stays_and_is_protected_from_then_on(
    target: Confined, work: Path, nonce: str
) -> None:
    words = " ".join(GIT)
    make = (
        f"git init -q lib && cd lib && git config user.name me && touch x && git add x && {words} commit -qm one && "
        "git remote add origin https://example.com/x.git && git init -q --bare ../mirror.git && "
        "git worktree add -q ../tree && git -C ../tree status --short"
    )
    assert await run(target, make, work, nonce) == (0, "")
    assert await run(target, "git -C lib log --format=%s; git -C tree log --format=%s", work, nonce) == (
        0,
        "one\none\n",
    )
    before = contents(work)
    attack = "for r in lib/.git mirror.git; do echo x >$r/config; echo x >$r/hooks/post-checkout; done; true"
    await run(target, attack, work, nonce)
    assert contents(work) == before
    code, output = await run(target, f"cd lib && touch y && git add y && {words} commit -qm two", work, nonce)
    assert (code, output) == (0, "")


async def test_a_submodule_finds_no_prepared_repository(target: Confined, work: Path, canary: Path, nonce: str) -> None:
    await run(target, BARE.format(at=".git/modules/lib", canary=canary), work, nonce)
    left = sorted(path for path in contents(work) if path.startswith(".git/modules"))
    assert left == [".git/modules/lib/HEAD.set-aside", ".git/modules/lib/config"]


async def test_what_a_configuration_runs_is_protected(target: Confined, work: Path, nonce: str) -> None:
    (work / "tools").mkdir()
    lines = ["[core]", "fsmonitor = tools/watch.sh", '[filter "x"]', "clean = python3 tools/clean.py %f"]
    lines += ["[alias]", "st = !./tools/st.sh && git status"]
    for name in ("watch.sh", "clean.py", "st.sh"):
        (work / "tools" / name).write_text("mine")
    with (work / ".git" / "config").open("a") as file:
        file.write("\n".join(lines))
    attack = "for f in tools/*; do echo evil >$f; mv $f x; rm -f $f; done; mv tools t; echo new >tools/other; true"
    await run(target, attack, work, nonce)
    kept = {path: data for path, data in contents(work).items() if path.startswith("tools/")}
    assert kept == {
        "tools/watch.sh": b"mine",
        "tools/clean.py": b"mine",
        "tools/st.sh": b"mine",
        "tools/other": b"new\n",
    }


@pytest.mark.parametrize("at", ["node_modules/pkg", "build/out", "a/b/c/d/e/f/g"])
async def test_repositories_are_protected_wherever_they_are(
    target: Confined, work: Path, canary: Path, nonce: str, at: str
) -> None:
    make_repository(work / at)
    before = contents(work)
    attack = f"echo x >{at}/.git/config; echo x >{at}/.git/hooks/post-checkout; echo x >{at}/.git/commondir"
    await run(target, f"{attack}; true", work, nonce)
    assert contents(work) == before
    assert not has_run(canary)


async def test_what_build_servers_would_run_is_set_aside(target: Confined, work: Path, nonce: str) -> None:
    (work / ".travis.yml").write_text("mine")
    command = "echo x >Jenkinsfile; mkdir .buildkite; echo x >.travis.yml; mv .travis.yml y; true"
    _, output = await run(target, command, work, nonce)
    assert (work / ".travis.yml").read_text() == "mine"
    assert set_aside_in(work) == [".buildkite.set-aside", "Jenkinsfile.set-aside"]
    assert output.count("confined: ") == 2
    for path in ("Jenkinsfile", ".travis.yml", ".idea/workspace.xml"):
        with pytest.raises(ToolError, match="protected"):
            await target.write_file(path, b"x", root=str(work))


@pytest.mark.parametrize("last", ["HEAD", "refs/x", "objects/x", "commondir"])
async def test_the_file_tools_complete_no_repository(target: Confined, work: Path, last: str) -> None:
    others = {"HEAD", "refs/x", "objects/x"} - {last} if last != "commondir" else {"HEAD"}
    for path in sorted(others):
        await target.write_file(f"src/{path}", b"x", root=str(work))
    with pytest.raises(ToolError, match="protected"):
        await target.write_file(f"src/{last}", b"x", root=str(work))
    (work / "src" / last).parent.mkdir(exist_ok=True)
    (work / "src" / last).write_text("x")
    for path in ("config", "hooks/post-checkout", "config.worktree"):
        with pytest.raises(ToolError, match="protected"):
            await target.write_file(f"src/{path}", b"x", root=str(work))


async def test_our_configuration_is_protected_wherever_it_is(way: str, work: Path, home: Path, nonce: str) -> None:
    (work / "conf").mkdir()
    (work / "conf" / "my.toml").write_text("mine")
    policy = ConfinementPolicy(str(work), home=str(home), own=(), files=(str(work / "conf" / "my.toml"),))
    target = Confined(policy, lambda: ProbeResult(way), grace=0.2)
    await run(target, "echo evil >>conf/my.toml; rm -f conf/my.toml; mv conf c; mv conf/my.toml x; true", work, nonce)
    assert (work / "conf" / "my.toml").read_text() == "mine"
    with pytest.raises(ToolError, match="protected"):
        await target.write_file("conf/my.toml", b"evil", root=str(work))


# --- after a crash ---


KILLED = """
import asyncio, sys
from pathlib import Path
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.probe import ProbeResult
from buddy.targets.confine.target import Confined
root, home, state, way, command = sys.argv[1:]
policy = ConfinementPolicy(root, home=home, own=(), state_dir=Path(state))
async def show(_stream, chunk): print(chunk.decode(), flush=True)
asyncio.run(Confined(policy, lambda: ProbeResult(way)).run(command, cwd=root, nonce="killed", on_output=show))
"""


def start_command(root: Path, home: Path, state: Path, way: str, command: str) -> "subprocess.Popen[bytes]":
    """A process that runs a confined command, which has printed `up`."""
    words = [sys.executable, "-c", KILLED, str(root), str(home), str(state), way, command]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def commands_in(work: Path) -> list[int]:
    """The processes whose command line names the workspace."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(work).encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def test_nothing_is_left_after_a_kill(way: str, home: Path, tmp_path: Path, canary: Path) -> None:
    work, state = tmp_path / "plain", tmp_path / "state"
    (work / "src").mkdir(parents=True)
    command = BARE.format(at="src", canary=canary) + "; echo x >Jenkinsfile; echo up; sleep 600; true"
    with start_command(work, home, state, way, command) as process:
        assert (work / ".git").exists()
        clean_up(state)
        assert (work / ".git").exists()  # its process lives
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_until(lambda: not commands_in(work), "the command ended")
    assert any(path.stat().st_size for path in (state / "confined").glob("*.jsonl"))
    clean_up(state)
    assert not list((state / "confined").glob("*.jsonl"))
    left = sorted(str(path.relative_to(work)) for path in work.rglob("*"))
    assert left == [
        "Jenkinsfile.set-aside",
        "src",
        *(f"src/{x}" for x in ("HEAD.set-aside", "config", "objects", "refs")),
    ]
    use_git(work / "src")
    assert not has_run(canary)


async def test_what_a_killed_process_left_is_removed_before_the_next_command(
    way: str, home: Path, tmp_path: Path, nonce: str
) -> None:
    work, state = tmp_path / "plain", tmp_path / "state"
    work.mkdir()
    with start_command(work, home, state, way, "echo up; sleep 600; true") as process:
        process.kill()
    policy = ConfinementPolicy(str(work), home=str(home), own=(), state_dir=state)
    await run(Confined(policy, lambda: ProbeResult(way)), "true", work, nonce)
    assert list(work.iterdir()) == []


# --- finding them ---


def test_only_changed_directories_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / f"d{number}" / "inner").mkdir(parents=True)
    monkeypatch.setattr(tree, "RECENT_NS", 0)
    read: list[str] = []
    scandir = os.scandir

    def count(path: str) -> Iterator[os.DirEntry[str]]:
        read.append(path)
        return scandir(path)

    monkeypatch.setattr(tree.os, "scandir", count)
    known = tree.Tree(str(tmp_path))
    assert known.find().places == frozenset()
    assert len(read) == 41
    read.clear()
    (tmp_path / "d7" / "inner" / ".git").mkdir()
    assert known.find().places == {f"{tmp_path}/d7/inner/.git"}
    assert read == [f"{tmp_path}/d7/inner", f"{tmp_path}/d7/inner/.git"]


def test_a_directory_that_changed_just_now_is_not_taken_for_known(tmp_path: Path) -> None:
    known = tree.Tree(str(tmp_path))
    for number in range(50):
        known.find()
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}" / ".git").mkdir()
        assert f"{tmp_path}/d{number}/.git" in known.find().places


def test_a_workspace_with_too_many_directories_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / f"d{number}").mkdir()
    monkeypatch.setattr(tree, "MAX_DIRECTORIES", 10)
    assert not tree.Tree(str(tmp_path)).find().is_complete

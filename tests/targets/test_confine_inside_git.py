"""Repositories hidden in others, and unfinished operations: git runs nothing of a confined command's making later.

Each attack is a list of commands that run one after the other, as harmless as possible each.
"""

import os
import subprocess
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.targets.confine import tree
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.probe import ProbeResult
from buddy.targets.confine.target import Confined
from tests.harness.installed import need
from tests.targets.inspect_files import contents, run

GIT = "git -c user.name=x -c user.email=x@example.com -c advice.detachedHead=false"


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "PWNED"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    need("git")
    place = tmp_path / "repository"
    (place / "sub").mkdir(parents=True)
    command = f"git init -q -b main . && echo x >a && git add . && {GIT} commit -qm one"
    subprocess.run(["bash", "-c", command], cwd=place, check=True)
    return place


@pytest.fixture
def target(way: str, work: Path, home: Path, tmp_path: Path) -> Confined:
    policy = ConfinementPolicy(str(work), home=str(home), own=(), state_dir=tmp_path / "state")
    return Confined(policy, lambda: ProbeResult(way), grace=0.2)


HARMLESS = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n'"
EVIL = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = touch {canary};false\\n'"
# A repository with a commit, but without a configuration.
COPY = "mkdir -p t {at} && cp -r .git/HEAD .git/objects .git/refs t && cp -r t/. {at}/ && rm -r t"
LINKED = f"git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub && {GIT} commit -qm link"


def hidden(at: str, pointer: str, *later: str) -> list[str]:
    first = f"{COPY.replace('{at}', at)} && {HARMLESS} >{at}/config && {LINKED} && {pointer}"
    return [first, *later]


SHARED = (
    "mkdir -p c && cp -r .git/objects .git/refs c/ && mkdir -p d && cp .git/HEAD d/ && echo {common} >d/commondir && "
    "echo 'gitdir: ../d' >sub/.git && " + HARMLESS + " >c/config && " + LINKED
)
HIDDEN = {
    "inside the repository": hidden(".git/zz", "echo 'gitdir: ../.git/zz' >sub/.git", EVIL + " >.git/zz/config"),
    "among its objects": hidden(
        ".git/objects/zz", "echo 'gitdir: ../.git/objects/zz' >sub/.git", EVIL + " >.git/objects/zz/config"
    ),
    "as a module without a configuration": [
        COPY.replace("{at}", ".git/modules/e") + f" && {LINKED} && echo 'gitdir: ../.git/modules/e' >sub/.git",
        EVIL + " >.git/modules/e/config",
    ],
    "as an entry of a worktree": [
        "mkdir -p .git/worktrees/w && cd .git/worktrees/w && cp ../../HEAD . && echo ../.. >commondir && cd ../../..; "
        "echo 'gitdir: ../.git/worktrees/w' >sub/.git && " + LINKED,
        "mkdir .git/new && cp -r .git/objects .git/refs .git/new/ && " + EVIL + " >.git/new/config",
        "echo ../../new >.git/worktrees/w/commondir || { mv .git/worktrees .git/v && cp -r .git/v .git/worktrees; }",
    ],
    "with files of another that is no repository itself": [
        SHARED.replace("{common}", "../c"),
        EVIL + " >c/config || { mv c c2; mkdir c; cp -r c2/objects c2/refs c/; " + EVIL + " >c/config; }",
    ],
    "with files that are missing at first": [
        SHARED.replace("{common}", "../c") + " && rm -r c",
        "mkdir -p c && cp -r .git/objects .git/refs c/",
        EVIL + " >c/config",
    ],
    "behind a link that changes": [
        "ln -s c l && " + SHARED.replace("{common}", "../l"),
        "mkdir e && cp -r .git/objects .git/refs e/ && " + EVIL + " >e/config && ln -sfn e l",
    ],
    "behind a directory with a space at its end": [
        SHARED.replace("{common}", "'../c '") + " && cp -r c 'c '",
        EVIL + " >'c /config'",
    ],
    "by a pointer to a pointer": hidden(
        ".git/zz",
        "echo 'gitdir: .git/zz' >p && echo 'gitdir: ../p' >sub/.git",
        EVIL + " >.git/zz/config; rm p; mv .git/zz p; ln -s .git/zz p; true",
    ),
    "by a pointer that comes first": [
        "echo 'gitdir: ../.git/later' >sub/.git && " + LINKED,
        EVIL.replace("printf", "mkdir .git/later; printf") + " >.git/later/config",
        COPY.replace("{at}", ".git/later"),
    ],
    "under the name that it gets": [
        f"echo 'gitdir: ../x/.git.set-aside' >sub/.git && {LINKED} && "
        + COPY.replace("{at}", "x/.git") + " && " + EVIL + " >x/.git/config",
    ],
    "inside one that is set aside": [
        f"echo 'gitdir: ../x/.git.set-aside/y' >sub/.git && {LINKED} && {COPY.replace('{at}', 'x/.git')} && "
        + COPY.replace("{at}", "x/.git/y") + " && " + EVIL + " | tee x/.git/config >x/.git/y/config",
    ],
}  # fmt: skip


def use_git(work: Path) -> None:
    for cwd in (work, work / "sub"):
        for word in ("status", "diff"):
            subprocess.run(["git", word], cwd=cwd, check=False, capture_output=True)


def use_shell(command: str, work: Path) -> None:
    subprocess.run(["bash", "-c", command], cwd=work, check=True, capture_output=True)


def has_run(canary: Path) -> bool:
    return canary.exists()


SEVERAL = [how for how, commands in HIDDEN.items() if len(commands) > 1]


@pytest.mark.parametrize("how", HIDDEN)
async def test_a_hidden_repository_runs_nothing_later(
    target: Confined, work: Path, canary: Path, nonce: str, how: str
) -> None:
    for number, command in enumerate(HIDDEN[how]):
        await run(target, command.replace("{canary}", str(canary)), work, f"{nonce}{number}")
        use_git(work)
        assert not has_run(canary)


@pytest.mark.parametrize("how", SEVERAL)
async def test_what_existed_is_protected_where_it_is(
    target: Confined, work: Path, canary: Path, nonce: str, how: str
) -> None:
    first, *others = HIDDEN[how]
    use_shell(first, work)
    for number, command in enumerate(others):
        await run(target, command.replace("{canary}", str(canary)), work, f"{nonce}{number}")
        use_git(work)
        assert not has_run(canary)


@pytest.mark.parametrize("how", SEVERAL)
def test_the_attacks_work_without_confinement(work: Path, canary: Path, how: str) -> None:
    for command in HIDDEN[how]:
        subprocess.run(["bash", "-c", command.replace("{canary}", str(canary))], cwd=work, check=False)
    use_git(work)
    assert has_run(canary)


async def test_the_file_tools_change_no_shared_files(target: Confined, work: Path, nonce: str) -> None:
    use_shell(SHARED.replace("{common}", "../c"), work)
    await run(target, "rm -r c/objects", work, nonce)
    for path in ("c/config", "c/hooks/post-checkout"):
        with pytest.raises(ToolError, match="protected"):
            await target.write_file(path, b"x", root=str(work))
    await target.write_file("c/other", b"x", root=str(work))


# --- unfinished operations ---


STATE = (
    "mkdir -p .git/rebase-merge && cd .git/rebase-merge && git rev-parse HEAD | tee onto >orig-head && "
    "echo refs/heads/main >head-name && touch interactive done && echo 1 | tee end >msgnum && "
)
OPERATIONS = {
    "a command": STATE + "echo 'exec touch {canary}' >git-rebase-todo",
    "a short command": STATE + "printf 'noop\\n\\t x touch {canary}\\n' >git-rebase-todo",
    "a link to commands": STATE + "echo 'exec touch {canary}' >../t && ln -s ../t git-rebase-todo",
    "a link to a state": STATE + "echo 'x touch {canary}' >git-rebase-todo; cd .. && mv rebase-merge r && "
    "ln -s r rebase-merge",
    "a strategy in the work tree": STATE + "echo x/evil >strategy; echo pick HEAD >git-rebase-todo",
}  # fmt: skip


@pytest.mark.parametrize("how", OPERATIONS)
async def test_no_operation_is_left_that_runs_something(
    target: Confined, work: Path, canary: Path, nonce: str, how: str
) -> None:
    _, output = await run(target, OPERATIONS[how].replace("{canary}", str(canary)), work, nonce)
    assert "rebase-merge.set-aside" in output
    use_shell("git rebase --continue || true", work)
    assert not has_run(canary)


async def test_options_of_a_series_name_no_program(target: Confined, work: Path, nonce: str) -> None:
    command = "mkdir .git/sequencer; printf '[options]\\n\\tstrategy = \\\\\\n x/evil\\n' >.git/sequencer/opts"
    _, output = await run(target, command, work, nonce)
    assert "sequencer.set-aside" in output


async def test_an_operation_of_the_user_stays_as_it_is(target: Confined, work: Path, nonce: str) -> None:
    state = work / ".git" / "rebase-merge"
    state.mkdir()
    (state / "git-rebase-todo").write_text("exec make\n")
    before = contents(state)
    _, output = await run(target, "cd .git; echo x y >rebase-merge/git-rebase-todo; mv rebase-merge r", work, nonce)
    assert contents(state) == before
    assert "set-aside" not in output


# --- ordinary work ---


async def test_ordinary_work_is_possible(target: Confined, work: Path, nonce: str) -> None:
    steps = [
        f"git checkout -q -b topic && echo 1 >b && git add b && {GIT} commit -qm b && git tag v1",
        f"echo 2 >b && {GIT} stash -q && {GIT} stash pop -q && {GIT} commit -qam b2",
        f"git checkout -q main && echo other >b && git add b && {GIT} commit -qm other && git branch old",
        f"git checkout -q topic && ! {GIT} rebase -q main >/dev/null 2>&1 && test -d .git/rebase-merge",
        f"echo both >b && git add b && ! GIT_EDITOR=true {GIT} rebase --continue >/dev/null 2>&1",
        f"echo all >b && git add b && GIT_EDITOR=true {GIT} rebase --continue >/dev/null 2>&1",
        f"{GIT} rebase -q --exec true main >/dev/null 2>&1 && git gc -q && git fsck 2>/dev/null",
        f"! {GIT} cherry-pick old~1 v1 >/dev/null 2>&1; git cherry-pick --abort",
        "git worktree add -q tree v1 2>/dev/null",
        f"cd tree && echo t >t && git add t && {GIT} commit -qm tree",
        "git log --format=%s main..topic && git status --short -uno && git -C tree log -1 --format=%s",
    ]
    output = ""
    for number, step in enumerate(steps):
        code, output = await run(target, step, work, f"{nonce}{number}")
        assert (code, "set-aside" in output) == (0, False), (step, output)
    assert output == "b2\nb\ntree\n"
    left = {name for name in os.listdir(work / ".git") if "set-aside" in name}  # noqa: PTH208 - only names
    assert not left


def look_without_time(path: str) -> os.stat_result:
    """As if all had changed in the same moment."""
    info = Path(path).stat(follow_symlinks=False)
    return os.stat_result((*info[:9], 0), {"st_ctime_ns": 1})


def test_a_directory_that_takes_the_place_of_another_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "RECENT_NS", -(10**12))
    for name in ("p/x", "q/x/.git"):
        (tmp_path / name).mkdir(parents=True)
    known = tree.Tree(str(tmp_path))
    known.find()
    monkeypatch.setattr(tree.os, "lstat", look_without_time)
    known.find()
    (tmp_path / "p").rename(tmp_path / "r")
    (tmp_path / "q").rename(tmp_path / "p")
    assert f"{tmp_path}/p/x/.git" in known.find().places

"""Rules with wildcards and links: what a command writes is judged where it really lies, as file tools are."""

from pathlib import Path

import pytest

from buddy.approvals.permissions import Permissions
from buddy.approvals.questions import Question
from buddy.approvals.rules import Rule, Rules
from buddy.targets.local import Local
from buddy.tools.contract import Place
from buddy.tools.run_shell import RunShell, RunShellArgs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A hostile checkout: links to protected places, to the outside, and to the workspace itself."""
    root = tmp_path / "work"
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/config").write_text("")
    for name in ("sub", "evil", "bare", ".claude", "made/evil"):
        (root / name).mkdir(parents=True)
    for name in ("evil/pre-commit", "evil/config", "bare/HEAD", "x"):
        (root / name).write_text("x")
    links = {
        "hl": ".git/hooks",
        "far": "../elsewhere",
        "here": ".",
        "cl": ".claude",
        "sub/config": "../.git/config",
        "two": "hl",
        "loop": "loop",
        "file": ".envrc",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return root


async def decide(root: Path, rule: str, command: str) -> str | None:
    intent = await RunShell().intent(RunShellArgs(command), Place(Local(), str(root)))
    permissions = Permissions(str(root), lambda: Rules([Rule("allow", argv=tuple(rule.split()))]))
    return permissions.judge(Question("call_1", "privileged", intent, "", "run_shell")).decision


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("cp **", "cp evil/pre-commit hl/pre-commit"),
        ("cp **", "cp evil/pre-commit hl"),
        ("cp **", "cp evil/pre-commit ./hl/"),
        ("cp **", "cp evil/pre-commit two"),
        ("cp **", "cp evil/config sub"),
        ("cp **", "cp x evil/config sub"),
        ("cp **", "cp x far/x"),
        ("cp **", "cp x loop"),
        ("cp **", "cp x file"),
        ("cp **", "cp evil/config here"),
        ("cp **", "cp evil/config bare/config"),
        ("cp **", "cp evil/config bare"),
        ("cp -r **", "cp -r evil made"),
        ("cp -r **", "cp -r evil/. sub"),
        ("cp -a * *", "cp -a evil made"),
        ("cp evil/* *", "cp evil/pre-commit hl"),
        ("mv **", "mv x hl/pre-commit"),
        ("mv **", "mv x cl/settings.json"),
        ("ln **", "ln x hl/pre-commit"),
        ("ln -s **", "ln -s x two/pre-commit"),
        ("install **", "install x hl/pre-commit"),
        ("install -m 755 **", "install -m 755 x hl"),
        ("tee **", "tee hl/pre-commit"),
        ("touch **", "touch hl/pre-commit"),
        ("touch **", "touch x far/x"),
        ("mkdir **", "mkdir hl/d"),
        ("mkdir -p **", "mkdir -p cl/d/e"),
        ("truncate -s 0 **", "truncate -s 0 sub/config"),
        ("chmod +x **", "chmod +x hl/pre-commit"),
        ("rm **", "rm hl/pre-commit"),
        ("split **", "split x hl/p"),
        ("mktemp **", "mktemp hl/preXXXX"),
        ("/usr/bin/cp **", "/usr/bin/cp x hl"),
        ("** hl", "cp x hl"),
        ("touch **", "true && touch hl/x"),
        ("touch **", "touch .claude/x"),
        ("touch **", "touch .github/workflows/x"),
        ("touch **", "touch Jenkinsfile"),
        ("touch **", "touch a/HEAD"),
        ("touch **", "touch " + " ".join(f"f{number}" for number in range(200))),
    ],
)
async def test_what_is_written_through_a_link_is_asked(root: Path, rule: str, command: str) -> None:
    assert await decide(root, rule, command) in ("ask", None)


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("cp **", "cp x sub"),
        ("cp **", "cp x y"),
        ("cp **", "cp evil/config new"),
        ("cp -r **", "cp -r evil sub"),
        ("cp -r **", "cp -r evil new"),
        ("mv **", "mv x sub/y"),
        ("mkdir -p **", "mkdir -p a/b/c"),
        ("touch **", "touch x sub/new"),
        ("cat **", "cat hl/pre-commit"),
        ("cp x hl", "cp x hl"),
        ("echo **", "echo hl/x"),
    ],
)
async def test_ordinary_places_and_exact_words_are_still_allowed(root: Path, rule: str, command: str) -> None:
    assert await decide(root, rule, command) == "allow"

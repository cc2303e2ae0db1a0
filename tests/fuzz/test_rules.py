"""Rules against real option parsers: whatever a rule with wildcards allows is run, and must not run the canary.

The commands would run a canary program, or write where git looks for one, in a random spelling: options cut short,
bundled, joined or apart, response files, assignments, words that are programs. The rules are made from them by putting
wildcards in the place of words. A rule that spells the canary out intends it and is left out.
"""

import fnmatch
import random
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from buddy.approvals.globs import literal_glob
from buddy.approvals.rules import Rule, Rules, Subject
from tests.fuzz.conftest import Budget

EVIL = "./evil"
Words = tuple[str, ...]
Allows = Callable[[Rule, Words, str], bool]
Draw = random.Random

HOOK = ".git/hooks/post-checkout"
SECONDS = 20


def option(name: str, value: str) -> Callable[[Draw], Words]:
    """A long option in any of the ways that GNU programs take it."""

    def spell(draw: Draw) -> Words:
        short = name[: draw.randint(3, len(name))] if draw.random() < 0.7 else name
        return (f"{short}={value}",) if draw.random() < 0.6 else (short, value)

    return spell


def either(*spellings: Words) -> Callable[[Draw], Words]:
    return lambda draw: draw.choice(spellings)


Template = tuple[str | Callable[[Draw], Words], ...]

# Each runs the canary, or writes to where git runs it from, in its full spelling.
DANGEROUS: tuple[Template, ...] = (
    ("tar", "cf", "x.tar", option("--use-compress-program", EVIL), "a"),
    ("tar", either(("cf", "x.tar", "-I", EVIL), ("cf", "x.tar", f"-I{EVIL}"), ("-cIf", EVIL, "x.tar"), ("cIf", EVIL, "x.tar")), "a"),
    ("tar", "cf", "x.tar", "--checkpoint=1", option("--checkpoint-action", f"exec={EVIL}"), "a"),
    ("tar", "xf", "a.tar", option("--to-command", EVIL)),
    ("split", option("--filter", EVIL), "big"),
    ("sort", "-S", "1k", option("--compress-program", EVIL), "big"),
    ("git", "ls-remote", option("--upload-pack", EVIL), "."),
    ("git", "push", either(("--receive-pack=./evil",), ("--exec=./evil",), ("--e=./evil",), ("--exe", EVIL)), ".", "HEAD:refs/heads/x"),
    ("git", "push", either(("./bare",), ("bare",), ("--quiet", "bare"), ("bare", "-q")), "HEAD:refs/heads/x"),
    ("git", "fetch", "--depth", "1", option("--upload-pack", EVIL), "."),
    ("git", "grep", either((f"-O{EVIL}",), ("--open-files-in-pager=./evil",), ("--op=./evil",), ("-l", f"-O{EVIL}")), "x"),
    ("git", either(("-c", "core.fsmonitor=./evil"), ("-ccore.fsmonitor=./evil",)), "status"),
    ("git", either(("-C", "fixtures"), ("-Cfixtures",), ("--git-dir=fixtures", "--work-tree=."), ("--git-dir", "fixtures", "--work-tree", ".")), "status"),
    ("git", "-c", "alias.z=!./evil", "z"),
    ("git", "difftool", "-y", either(("-x", EVIL), ("--extcmd=./evil",), ("--extc=./evil",)), "HEAD"),
    ("git", "rebase", either(("-x", EVIL), ("--exec=./evil",)), "--autostash", "--root"),
    ("git", "log", either((f"--output={HOOK}",), (f"--outpu={HOOK}",), (f"--outp={HOOK}",))),
    ("git", "diff", either((f"--output={HOOK}",), ("--output", HOOK)), "HEAD"),
    ("gcc", either(("-wrapper", EVIL), ("-Btools/",), ("-B", "tools/")), "-c", "a.c"),
    ("gcc", "@response"),
    ("cc", "-wrapper", EVIL, "-c", "a.c"),
    ("zip", "x.zip", "a", either(("-T", "-TT", EVIL), ("-TT", EVIL, "-T"), ("--test", "--unzip-command=./evil"), ("--test", "--unz", EVIL))),
    ("install", option("--strip-program", EVIL), "-s", "a", "b"),
    ("sed", either(("1e ./evil",), ("-e", "1e ./evil"), ("--expression=1e ./evil",), ("-n", "1e./evil")), "a"),
    ("find", ".", "-maxdepth", "0", either(("-exec", EVIL, ";"), ("-exec", EVIL, "{}", "+"))),
    ("xargs", either((EVIL,), ("-n", "1", EVIL), ("-I{}", EVIL, "{}"))),
    ("env", either((EVIL,), ("A=1", EVIL), ("-S", EVIL), ("-i", EVIL), ("--split-string=./evil",), ("-iS", EVIL))),
    ("awk", 'BEGIN{system("./evil")}'),
    ("make", either(("x",), ("-s", "x"), ("--eval=y:;./evil", "y"), ("--ev=y:;./evil", "y"), ("-f", "evil.mk"), ("-fevil.mk",), ("SHELL=./evil", "z"))),
    ("rg", either(("--pre", EVIL), ("--pre=./evil",)), "x", "a"),
    ("bash", either(("evil",), ("-c", EVIL), ("-xc", EVIL), ("-ec", EVIL))),
    ("sh", "evil"),
    ("perl", "-e", 'system("./evil")'),
    ("python3", either(("evil.py",), ("-B", "evil.py"), ("-m", "evil"))),
    ("nice", either((EVIL,), ("-n", "1", EVIL))),
    ("timeout", "5", EVIL),
    ("setsid", "-w", EVIL),
    ("nohup", EVIL),
    (EVIL,),
    (EVIL, "x"),
    ("wget", option("--use-askpass", EVIL), "http://127.0.0.1:1/x"),
    ("sort", either(("-o", HOOK), (f"-o{HOOK}",), (f"--output={HOOK}",), (f"--ou={HOOK}",)), "a"),
    ("cp", either(("a", HOOK), ("-t", ".git/hooks", "a"), ("--target-directory=.git/hooks", "a"), ("--t=.git/hooks", "a"))),
    ("install", "a", HOOK),
    ("ln", "-s", "../../evil", HOOK),
    ("tee", HOOK),
    ("touch", HOOK),
    ("split", "big", ".git/hooks/x"),
    ("shuf", either(("-o", HOOK), (f"--output={HOOK}",)), "a"),
    ("dd", "if=a", f"of={HOOK}"),
)  # fmt: skip

HARMLESS: tuple[Template, ...] = (
    ("git", "status"),
    ("git", "log", "HEAD"),
    ("git", "show", "HEAD:a"),
    ("cat", "a"),
    ("ls", "."),
    ("cp", "a", "b"),
    ("sort", "a"),
    ("rg", "x", "a"),
)


class World:
    """A workspace with a canary, copied for each command."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "world"
        self.root.mkdir()
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C"}
        canary = f"#!/bin/sh\ntouch '{directory}/ran'\nexit 1\n"
        for name in ("evil", "tools/as", "bare.hook"):
            self._write(name, canary, 0o755)
        run = f"open('{directory}/ran', 'w')\n"
        texts = {"a": "x\n", "a.c": "int x;\n", "big": "some line of text\n" * 20_000, "evil.py": run}
        makefiles = {"Makefile": "x:\n\t./evil\nz:\n\t: anything\n", "evil.mk": "all:\n\t./evil\n"}
        for name, text in (*texts.items(), *makefiles.items(), ("response", "-wrapper ./evil -c a.c")):
            self._write(name, text, 0o644)
        self._prepare()

    def _write(self, name: str, text: str, mode: int) -> None:
        (self.root / name).parent.mkdir(exist_ok=True)
        (self.root / name).write_text(text)
        (self.root / name).chmod(mode)

    def _prepare(self) -> None:
        who = "-c user.name=x -c user.email=x@example.org"
        for command in (
            "tar cf a.tar a",
            "git init -q -b main . && git add a a.c",
            f"git {who} commit -qm one && echo y >> a && git config user.name x && git config user.email x@example.org",
            "git init -q --bare bare && mv bare.hook bare/hooks/post-receive",
            "git init -q --bare fixtures && git -C fixtures config core.bare false",
            "git -C fixtures config core.worktree .. && git -C fixtures config core.fsmonitor $PWD/evil",
            "rm -rf .git/hooks && mkdir .git/hooks",
        ):
            self._run(command, self.root)
        (self.directory / "ran").unlink(missing_ok=True)

    def runs_canary(self, command: str, cwd: str) -> bool:
        """Whether the canary ran, or was put where git would run it."""
        copy = self.directory / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.root, copy, symlinks=True)
        (self.directory / "ran").unlink(missing_ok=True)
        self._run(command, copy / cwd)
        return (self.directory / "ran").exists() or bool(list((copy / ".git" / "hooks").iterdir()))

    def _run(self, command: str, cwd: Path) -> None:
        subprocess.run(
            ["bash", "-c", command],
            cwd=cwd,
            env=self.env,
            input=b"x\n",
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("rules"))


def spell(template: Template, draw: Draw) -> Words:
    parts = [(part,) if isinstance(part, str) else part(draw) for part in template]
    words = [word for part in parts for word in part]
    if draw.random() < 0.1:
        words[0] = shutil.which(words[0]) or words[0]
    return tuple(words)


def rules_for(words: Words, draw: Draw) -> Iterator[Rule]:
    """Rules that look like this command; none of them spells out what runs the canary."""
    for _ in range(12):
        pattern = [_pattern(word, draw) for word in words]
        if draw.random() < 0.5:
            pattern = [*pattern[: draw.randint(0, len(pattern))], "**"]
        if not any(_is_intended(word) for word in pattern):
            yield Rule("allow", argv=tuple(pattern))
    yield Rule("allow", argv=(literal_glob(words[0]), "**"))
    yield draw.choice([Rule("allow", argv=("**",)), Rule("allow", argv=("*", "**")), Rule("allow", tool="run_shell")])


def _pattern(word: str, draw: Draw) -> str:
    kind = draw.random()
    if kind < 0.5:
        return literal_glob(word)
    if kind < 0.7:
        return "*"
    if kind < 0.8:
        return "**"
    at = draw.randint(0, len(word))
    return draw.choice([f"{word[:at]}*", f"{word[:at]}**", f"*{word[at:]}", f"{word[:at]}?{word[at + 1 :]}"])


def _is_intended(pattern: str) -> bool:
    """Whether an author wrote the canary, or a file or setting that leads to it."""
    return any(name in pattern for name in ("evil", "hooks", "bare", "fixtures", "tools", "response", "x", "z", "y"))


def by_rules(rule: Rule, words: Words, cwd: str) -> bool:
    subject = Subject("run_shell", command=spoken(words), workspace="/w", cwd=f"/w/{cwd}".rstrip("/"))
    return Rules([rule]).judge(subject).decision == "allow"


def by_words_alone(rule: Rule, words: Words, _cwd: str) -> bool:
    """The matcher that everybody writes first."""
    pattern: Sequence[str] = rule.argv or ("**",)
    given = words
    if pattern[-1] == "**":
        pattern, given = pattern[:-1], words[: len(pattern) - 1]
    return len(pattern) == len(given) and all(map(fnmatch.fnmatchcase, given, pattern))


def spoken(words: Words) -> str:
    return " ".join(shlex.quote(word) for word in words)


def escapes(world: World, draw: Draw, allows: Allows, seen: dict[str, bool]) -> str:
    """One command with some rules: what ran the canary although a rule allowed it; empty if nothing did."""
    words = spell(draw.choice(DANGEROUS if draw.random() < 0.9 else HARMLESS), draw)
    cwd = draw.choice(["", "", "", "fixtures"])
    rule = next((rule for rule in rules_for(words, draw) if allows(rule, words, cwd)), None)
    if rule is None or (shutil.which(words[0]) is None and "/" not in words[0]):
        return ""
    key = f"{cwd}$ {spoken(words)}"
    if key not in seen:
        seen[key] = world.runs_canary(spoken(words), cwd)
    return f"{rule.describe()} allows {key}" if seen[key] else ""


@pytest.mark.slow
def test_nothing_that_a_wildcard_allows_runs_another_program(world: World, fuzz: Budget) -> None:
    seen: dict[str, bool] = {}
    for _ in fuzz:
        assert escapes(world, fuzz.random, by_rules, seen) == "", f"FUZZ_SEED={fuzz.seed}"
    assert seen, "no rule allowed anything, so nothing was tried"


@pytest.mark.slow
def test_a_matcher_of_plain_words_is_caught(world: World) -> None:
    draw = random.Random(1)  # noqa: S311 - test input, not secrets
    seen: dict[str, bool] = {}
    found = {escapes(world, draw, by_words_alone, seen) for _ in range(150)} - {""}
    assert len({escape.partition("$ ")[2].split()[0] for escape in found}) > 5


@pytest.mark.slow
@pytest.mark.parametrize("template", DANGEROUS, ids=lambda template: str(template[0]))
def test_each_dangerous_command_runs_the_canary(world: World, template: Template) -> None:
    """Otherwise the fuzzer would try something that is harmless here."""
    words = tuple(word for part in template for word in ((part,) if isinstance(part, str) else part(_Full())))
    if shutil.which(words[0]) is None and "/" not in words[0]:
        pytest.skip(f"{words[0]} is not installed")
    assert world.runs_canary(spoken(words), "")


class _Full(Draw):
    """Draws the first and longest spelling."""

    def random(self) -> float:
        return 0.0 if self._joins() else 0.9

    def _joins(self) -> bool:
        self._turn = not getattr(self, "_turn", True)
        return self._turn

    def choice(self, seq: Sequence[Words]) -> Words:  # type: ignore[override] - of spellings alone
        return seq[0]

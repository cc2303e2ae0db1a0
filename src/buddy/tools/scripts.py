"""The files that a command runs, by content: rewriting one after an approval is detected.

Invariants: this proves nothing about what a command does; it only binds a decision to the files it can find: the
scripts it names and those that these name, what programs like make read by default, and programs inside the workspace.
If anything in the command runs code, every file that it names may be that code. What it may run beyond these files
makes the result incomplete.
"""

import asyncio
import hashlib
import os
import re
import shutil

from msgspec import Struct

from buddy.errors import ToolError
from buddy.steps import Turns
from buddy.tools.contract import Place
from buddy.tools.current_file import read_if_exists
from buddy.tools.shell.grammar import parse
from buddy.tools.shell.unwrap import is_open, read_ahead
from buddy.tools.unseen import calls_no_hooks, hides_code, is_harmless_config

MAX_WORDS = 1000
SHORT = 4 * 1024
MAX_DEPTH = 3
MAX_SHELL_SCRIPTS = 20
# How much of them is shown to a person; the rest is bound by its digest alone.
MAX_TEXT = 4 * 1024
MAX_TEXTS = 16 * 1024
MAX_BYTES = 16 * 1024 * 1024
OTHER_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".mk", ".awk")
SUFFIXES = (".sh", ".bash", ".zsh", *OTHER_SUFFIXES)
# Words after which a file is executed, whatever its name.
RUNNERS = frozenset(
    """
    sh bash dash zsh ksh fish source . exec env command sudo nohup nice timeout time xargs setsid stdbuf
    python python3 node deno bun tsx ts-node ruby perl php lua awk sed make just run test
    if then elif else while until do ! {
    """.split()  # noqa: SIM905 - easier to read
)
# Files that a program runs or reads by default.
_NODE = ("package.json",)
_PYTHON = ("setup.py", "pyproject.toml", "setup.cfg")
_TESTS = ("conftest.py", "pytest.ini", "tox.ini", "pyproject.toml", "setup.cfg")
IMPLIED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "bun", "bunx"), _NODE),
    **dict.fromkeys(("pip", "pip3", "uv", "poetry", "hatch", "pdm"), _PYTHON),
    **dict.fromkeys(("pytest", "py.test"), _TESTS),
    **dict.fromkeys(("docker", "podman", "docker-compose"), ("Dockerfile", "docker-compose.yml", "compose.yaml")),
    **dict.fromkeys(("gradle", "gradlew"), ("build.gradle", "build.gradle.kts", "settings.gradle")),
    "cargo": ("Cargo.toml", "build.rs", ".cargo/config.toml"),
    "cmake": ("CMakeLists.txt",),
    "composer": ("composer.json",),
    "deno": ("deno.json", "deno.jsonc"),
    "direnv": (".envrc",),
    "git": (".git/config", ".git/config.worktree"),
    "invoke": ("tasks.py",),
    "just": ("justfile", "Justfile", ".justfile"),
    "mix": ("mix.exs",),
    "mvn": ("pom.xml",),
    "ninja": ("build.ninja",),
    "nox": ("noxfile.py",),
    "pre-commit": (".pre-commit-config.yaml",),
    "rake": ("Rakefile",),
    "task": ("Taskfile.yml",),
    "tox": ("tox.ini", "pyproject.toml"),
    "vagrant": ("Vagrantfile",),
}

_TOKEN = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<redirect>&?[<>]+[&|]?)|(?P<break>[;&|()`\n]+)"""
    r"""|(?P<plain>(?:[^\s;&|()<>`'"\\]|\\.)+)""",
    re.DOTALL,
)


_ESCAPED = re.compile(r"\\(.)")
# Options, assignments and durations may come between a runner and what it runs.
_BETWEEN = re.compile(r"-|\w+=|\d+[smhd]?$")
_SHORT = re.compile(r"-[^-]")
# What only a shell can expand, and files outside the workspace that do not belong to the system.
_UNSEEN = re.compile(r"[$`*?\[{]|^(?:\.\./|~|/(?!usr/|bin/|sbin/|lib|opt/|nix/|dev/|proc/))")
# A name in a script that may be another script.
_NAMED = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w-]+\.(?:sh|bash|py|js|mjs|rb|pl|mk)\b|(?<![\w.-])\.{1,2}/[\w./-]*\w")
MAX_NAMING = 64 * 1024
MAX_NAMED = 50
_NAMING = frozenset({"-C", "-m", "--directory", "--prefix"})


class Scripts(Struct, frozen=True):
    """Digests and short texts of the scripts, by canonical path.

    `complete` is false if the command names more files than were examined, or names that only the shell can expand.
    """

    digests: dict[str, str]
    complete: bool
    texts: dict[str, str] = {}


class _Word(Struct, frozen=True):
    """A word of a command; `before` is the one that decides what it is: "" at the start of a simple command."""

    text: str
    before: str


class _ScriptFile(Struct, frozen=True):
    """`is_shown` if the command names the file; files that a program reads by default are not shown."""

    digest: str
    content: bytes = b""
    is_shown: bool = True

    @property
    def is_program(self) -> bool:
        """Whether another interpreter than a shell runs it, which loads more by rules of its own."""
        first = self.content[:256].partition(b"\n")[0]
        return first.startswith(b"#!") and re.search(rb"\b(?:ba|da|z|k|a)?sh\b", first) is None


class _Found:
    """The files so far; `complete` turns false with the first one that could not be read."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.files: dict[str, _ScriptFile] = {}
        self.complete = True
        self.runs_code = False

    async def add(self, path: str, *, is_run: bool, is_shown: bool = True) -> str | None:
        """Add a file unless it is known or not a script; return its canonical path if it is new."""
        try:
            name, file = await _read(path, self.place, is_run=is_run, is_shown=is_shown) or ("", None)
        except ToolError:
            # It leads out of the workspace, or is no regular file.
            self.complete = self.complete and not (is_run or path.endswith(SUFFIXES))
            return None
        if file is None or name in self.files:
            return None
        self.files[name] = file
        return name


async def scripts_of(command: str, cwd: str, place: Place) -> Scripts:
    found = _Found(place)
    await _gather(command, cwd, found)
    for path, file in list(found.files.items()):
        await _add_named_scripts(path, file, found, 1)
    files = dict(sorted(found.files.items()))
    complete = found.complete and not await _hides_code(command, cwd, found)
    return Scripts({path: file.digest for path, file in files.items()}, complete, _texts(files))


async def _gather(command: str, cwd: str, found: _Found) -> None:
    """Collect all files that a command may run."""
    place, parsed = found.place, parse(command)
    runs_code = parsed.has_error or bool(parsed.values) or any(map(is_open, set(parsed.found)))
    found.runs_code = runs_code
    text = command.replace("$PWD", cwd).replace("~+", cwd)
    # A long one takes a while; in a thread it does not hold up others.
    is_short = len(command) <= SHORT
    words = _words(text, inner=runs_code) if is_short else await asyncio.to_thread(_words, text, inner=runs_code)
    bases = [cwd, *await _directories(words, cwd, place)]
    listed = {base: await _names_in(base, place) for base in bases}
    found.complete = len(words) <= MAX_WORDS
    has_programs = place.target.name == "local" and place.root.rstrip("/") in os.environ.get("PATH", place.root)
    turns = Turns()
    for word in words[:MAX_WORDS]:
        await turns.pause()
        is_run = word.before != ">" and (runs_code or not word.before or _name(word.before) in RUNNERS)
        for base in bases:
            candidates = _candidates(word, base, runs_code=runs_code)
            for path in (path for path in candidates if _may_exist(path, base, listed[base], place)):
                is_implied = path != _join(base, word.text)
                await found.add(path, is_run=is_run or is_implied, is_shown=not is_implied)
        if is_run and has_programs and (program := _program(word.text, place)):
            await found.add(program, is_run=True)
        found.complete = found.complete and not (is_run and runs_code and _UNSEEN.search(word.text))


async def _add_named_scripts(path: str, file: _ScriptFile, found: _Found, depth: int) -> None:
    """Add the files that a script names, as far as they look like scripts, and what these name in turn."""
    if depth > MAX_DEPTH or b"\0" in file.content:
        return
    named = set(_NAMED.findall(file.content[:MAX_NAMING].decode("utf-8", "replace")))
    found.complete = found.complete and len(named) <= MAX_NAMED
    for text in sorted(named)[:MAX_NAMED]:
        for base in {path.rpartition("/")[0], found.place.root}:
            inner = await found.add(_join(base, text), is_run=True)
            if inner is not None:
                await _add_named_scripts(inner, found.files[inner], found, depth + 1)


async def _hides_code(command: str, cwd: str, found: _Found) -> bool:
    """Whether the command, or a shell script among its files, may run what was not found."""
    run = {path: file for path, file in found.files.items() if found.runs_code and b"\0" not in file.content}
    if len(run) > MAX_SHELL_SCRIPTS or any(file.is_program or not file.content for file in run.values()):
        return True
    names = {_name(path) for path in found.files}
    builds = [program for program, implied in IMPLIED.items() if program != "git" and not names.isdisjoint(implied)]
    scripts = [file for path, file in run.items() if file.is_shown and not path.endswith(OTHER_SUFFIXES)]
    texts = [command, *(file.content.decode("utf-8", "replace") for file in scripts)]
    for text in texts:
        await read_ahead(text)
    verbs: set[str] = set()

    def note(verb: str) -> bool:
        verbs.add(verb)
        return False

    if any(hides_code(text, builds, note) for text in texts):
        return True
    return bool(verbs) and await _git_hides(cwd, found, calls_hooks=not all(map(calls_no_hooks, verbs)))


async def _git_hides(cwd: str, found: _Found, *, calls_hooks: bool) -> bool:
    """Whether git may run programs of the repository: by its configuration, as a bare one, or by hooks."""
    place = found.place
    configs = [file for path, file in found.files.items() if path.endswith((".git/config", ".git/config.worktree"))]
    if any(not is_harmless_config(file.content.decode("utf-8", "replace")) for file in configs):
        return True
    if not configs:
        # It lies above, or is a link, a worktree or a bare repository; in none, git does nothing.
        return await _is_repository(cwd, place)
    if cwd.rstrip("/") != place.root.rstrip("/"):
        return True
    return calls_hooks and await _has_hooks(f"{cwd}/.git/hooks", place)


async def _is_repository(cwd: str, place: Place) -> bool:
    if place.target.name == "local":
        return _is_in_repository(cwd)
    return await _exists_below(f"{cwd}/.git", place) or await _exists_below(f"{cwd}/HEAD", place)


def _is_in_repository(cwd: str) -> bool:
    above = [cwd, *(cwd[:end] for end, character in enumerate(cwd) if character == "/")]
    return any(os.path.lexists(f"{base}/.git") for base in above) or os.path.lexists(f"{cwd}/HEAD")


async def _has_hooks(directory: str, place: Place) -> bool:
    try:
        entries = await place.target.list_dir(directory, root=place.root)
    except ToolError:
        return await _exists_below(directory, place)
    return any(not entry.name.endswith(".sample") for entry in entries)


def _texts(files: dict[str, _ScriptFile]) -> dict[str, str]:
    """The texts to show to a person, within limits."""
    texts: dict[str, str] = {}
    left = MAX_TEXTS
    for path, file in files.items():
        if file.is_shown and file.content and len(file.content) <= min(MAX_TEXT, left) and b"\0" not in file.content:
            texts[path] = file.content.decode("utf-8", "replace")
            left -= len(file.content)
    return texts


def _candidates(word: _Word, base: str, *, runs_code: bool) -> list[str]:
    """The file that a word may be, the module that `-m` names, and what the program reads by default."""
    names = [word.text, *IMPLIED.get(_name(word.text), ())]
    if word.before == "-m":
        module = word.text.replace(".", "/")
        parents = module.split("/")[:-1]
        names += [f"{module}.py", f"{module}/__main__.py", f"{module}/__init__.py"]
        names += [f"{'/'.join(parents[: count + 1])}/__init__.py" for count in range(len(parents))]
    elif runs_code and word.before:
        value = word.text[2:] if _SHORT.match(word.text) else word.text.partition("=")[2]
        names += [value, f"{word.text}/__main__.py"] if value else [f"{word.text}/__main__.py"]
    elif "=" in word.text:
        names.append(word.text.partition("=")[2])
    return [_join(base, name) for name in names if name]


def _name(text: str) -> str:
    return text.rpartition("/")[2]


def _program(name: str, place: Place) -> str | None:
    """The path of a program that is found by its name, if it is in the workspace."""
    found = None if "/" in name else shutil.which(name)
    return found if found and found.startswith(place.root.rstrip("/") + "/") else None


def _words(command: str, *, inner: bool, depth: int = 0) -> list[_Word]:
    """With `inner`, the words of quoted texts too: what is handed to a shell is a command again."""
    words: dict[_Word, None] = {}  # a set that keeps the order
    before = ""
    for match in _TOKEN.finditer(command):
        if match["break"] or match["redirect"]:
            before = "" if match["break"] else ">" if ">" in match["redirect"] else "<"
            continue
        text = _ESCAPED.sub(r"\1", match["double"] or match["plain"] or "") or match["single"] or ""
        words[_Word(text, before)] = None
        if inner and depth < MAX_DEPTH and not match["plain"] and re.search(r"[\s;&|]", text):
            words.update(dict.fromkeys(_words(text, inner=True, depth=depth + 1)))
        # Some options name a directory.
        before = text if text in _NAMING else before if _BETWEEN.match(text) else text
    return [word for word in words if word.text]


async def _directories(words: list[_Word], cwd: str, place: Place) -> list[str]:
    """The directories that the command changes to, as far as they are written literally."""
    bases: list[str] = []
    base = cwd
    for word in words:
        if word.before in ("cd", "pushd", "-C", "--directory", "--prefix") and len(bases) < 8:
            base = _join(base, word.text)
            bases += [base] if await _exists_below(base, place) else []
    return bases


async def _names_in(base: str, place: Place) -> set[str] | None:
    """The names in a directory on a remote target, listed once: checking each word would take a round trip."""
    if place.target.name == "local":
        return None
    try:
        return {entry.name for entry in await place.target.list_dir(base, root=place.root)}
    except ToolError:
        return None


def _may_exist(path: str, base: str, names: set[str] | None, place: Place) -> bool:
    if place.target.name == "local":
        # A cheap check before the guarded one: most words of a command are not files.
        return os.path.lexists(path)
    if names is None or not path.startswith(f"{base}/"):
        return True
    first = os.path.normpath(path[len(base) + 1 :]).partition("/")[0]
    return first in names or first in (".", "..")


def _join(base: str, word: str) -> str:
    return os.path.join(base, word)  # noqa: PTH118 - words, not yet files


async def _exists_below(path: str, place: Place) -> bool:
    try:
        return await place.target.stat(path, root=place.root) is not None
    except ToolError:
        return False


async def _read(path: str, place: Place, *, is_run: bool, is_shown: bool = True) -> "tuple[str, _ScriptFile] | None":
    info = await place.target.stat(path, root=place.root)
    if info is None or info.is_dir:
        return None
    start = (await read_if_exists(path, place, 4)) or b""
    if not (is_run or path.endswith(SUFFIXES) or start.startswith((b"#!", b"\x7fELF"))):
        return None
    name = await place.target.locate(path, root=place.root)
    if info.size > MAX_BYTES:
        return name, _ScriptFile(f"{info.size} bytes, modified {info.modified_ns}")
    content = (await read_if_exists(path, place, MAX_BYTES)) or b""
    return name, _ScriptFile(hashlib.sha256(content).hexdigest(), content, is_shown)

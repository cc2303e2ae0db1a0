"""The files that a command runs, by their content: rewriting one after an approval is a change that shows.

What always holds: this proves nothing about what a command does; it only binds a decision to the files it can see: the
scripts it names, what programs like make read without being told, and programs that lie in the workspace.
"""

import hashlib
import os
import re
import shutil

from msgspec import Struct

from buddy.errors import ToolError
from buddy.tools import glance
from buddy.tools.contract import Place

MAX_WORDS = 1000
MAX_BYTES = 16 * 1024 * 1024
SUFFIXES = (".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".mk", ".awk")
# Words after which a file is run, whatever it looks like.
RUNNERS = frozenset(
    """
    sh bash dash zsh ksh fish source . exec env command sudo nohup nice timeout time xargs setsid stdbuf
    python python3 node deno bun tsx ts-node ruby perl php lua awk sed make just run test
    if then elif else while until do ! {
    """.split()  # noqa: SIM905 - to be read by people
)
# What a program runs or obeys without being told its name.
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


_NAMING = frozenset({"-C", "-m", "--directory", "--prefix"})


class Scripts(Struct, frozen=True):
    """`digests` by canonical path; `complete` is false where the command names more than was looked at."""

    digests: dict[str, str]
    complete: bool


class _Word(Struct, frozen=True):
    """A word of a command; `before` is the one that decides what it is: "" at the start of a simple command."""

    text: str
    before: str


async def scripts_of(command: str, cwd: str, place: Place) -> Scripts:
    words = _words(command)
    bases = [cwd, *await _directories(words, cwd, place)]
    listed = {base: await _names_in(base, place) for base in bases}
    digests: dict[str, str] = {}
    for word in words[:MAX_WORDS]:
        is_run = not word.before or word.before.rpartition("/")[2] in RUNNERS
        for base in bases:
            there = (path for path in _candidates(word, base) if _may_exist(path, base, listed[base]))
            for path in there:
                digests.update(await _digest(path, place, is_run=is_run or path != _join(base, word.text)))
        if is_run and (program := _program(word.text, place)):
            digests.update(await _digest(program, place, is_run=True))
    return Scripts(dict(sorted(digests.items())), complete=len(words) <= MAX_WORDS)


def _candidates(word: _Word, base: str) -> list[str]:
    """The file that a word may be, the module that `-m` names, and what the program takes for granted."""
    name = word.text.rpartition("/")[2]
    module = word.text.replace(".", "/")
    modules = [f"{module}.py", f"{module}/__main__.py"] if word.before == "-m" else []
    return [_join(base, text) for text in (word.text, *modules, *IMPLIED.get(name, ()))]


def _program(name: str, place: Place) -> str | None:
    """Where a program lies that is found by its name, if that is in the workspace."""
    if place.target.name != "local" or "/" in name:
        return None
    found = shutil.which(name)
    return found if found and found.startswith(place.root.rstrip("/") + "/") else None


def _words(command: str) -> list[_Word]:
    words: dict[_Word, None] = {}  # a set that keeps the order
    before = ""
    for match in _TOKEN.finditer(command):
        if match["break"] or match["redirect"]:
            before = "" if match["break"] else ">"
            continue
        text = re.sub(r"\\(.)", r"\1", match["double"] or match["plain"] or "") or match["single"] or ""
        words[_Word(text, before)] = None
        # Options, assignments and durations stand between a runner and what it runs; some options name a place.
        before = text if text in _NAMING else before if re.match(r"-|\w+=|\d+[smhd]?$", text) else text
    return [word for word in words if word.text]


async def _directories(words: list[_Word], cwd: str, place: Place) -> list[str]:
    """Where the command changes to, as far as it says so plainly."""
    bases: list[str] = []
    base = cwd
    for word in words:
        if word.before in ("cd", "pushd", "-C", "--directory", "--prefix") and len(bases) < 8:
            base = _join(base, word.text)
            bases += [base] if await _exists_below(base, place) else []
    return bases


async def _names_in(base: str, place: Place) -> set[str] | None:
    """What a directory elsewhere has, asked once: there a look at each word of a command takes a round trip."""
    if place.target.name == "local":
        return None
    try:
        return {entry.name for entry in await place.target.list_dir(base, root=place.root)}
    except ToolError:
        return None


def _may_exist(path: str, base: str, names: set[str] | None) -> bool:
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


async def _digest(path: str, place: Place, *, is_run: bool) -> dict[str, str]:
    try:
        info = await place.target.stat(path, root=place.root)
        if info is None or info.is_dir:
            return {}
        start = (await glance.present(path, place, 4)) or b""
        if not (is_run or path.endswith(SUFFIXES) or start.startswith((b"#!", b"\x7fELF"))):
            return {}
        name = await place.target.locate(path, root=place.root)
        if info.size > MAX_BYTES:
            return {name: f"{info.size} bytes, modified {info.modified_ns}"}
        return {name: hashlib.sha256((await glance.present(path, place, MAX_BYTES)) or b"").hexdigest()}
    except ToolError:
        return {}

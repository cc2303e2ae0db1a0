"""The files of a repository that command lines start, found in their text, with the scripts that these load.

A shell decides only while it runs what a command line starts, so nothing here tries to be a shell: every part of the
text that could be a path is looked for, in every folder that it may start from. It is better to find one file too many
than one too few.

Invariant: files that exist are found whatever surrounds their names: quotes, variables, `bash -c`, several commands in
one line. Names that are computed, and installed packages, are not found.
"""

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator

from buddy.errors import UserError
from buddy.regular_files import read_regular

MAX_FILES = 1000
MAX_BYTES = 1024 * 1024
MAX_DIGESTED = 8 * 1024 * 1024
MAX_BASES = 50
MAX_WORD = 1024
_BETWEEN = re.compile(r"[^\w./@%+~-]+")
_VARIABLE = re.compile(r"\$\{?\w+\}?")
_GLUED = re.compile(r"-[A-Za-z](?=[./\w])")
# What an interpreter, an import or a folder adds to a name.
_ENDINGS = (
    *("", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh"),
    *("/__main__.py", "/__init__.py", "/index.js", "/index.mjs", "/index.cjs", "/index.ts", "/package.json"),
)
_SCRIPTS = (
    *(".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx", ".sh", ".bash", ".zsh", ".fish"),
    *(".rb", ".pl", ".php", ".lua", ".ps1"),
)
# Programs that run what a file of the folder says.
_RECIPES = {
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    **dict.fromkeys(("npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx"), ("package.json",)),
    **dict.fromkeys(("uv", "uvx", "poetry", "hatch", "pdm", "tox", "nox"), ("pyproject.toml", "tox.ini", "noxfile.py")),
    **dict.fromkeys(("docker", "podman"), ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")),
    **dict.fromkeys(("docker-compose", "podman-compose"), ("docker-compose.yaml", "docker-compose.yml")),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "deno": ("deno.json", "deno.jsonc"),
    "cargo": ("Cargo.toml",),
    "rake": ("Rakefile",),
}
# Lines of a script that load or start another one.
_LOADS = re.compile(
    r"""^\s*(?:\.|source|exec|bash|sh|zsh|fish|env|python[\d.]*|node|deno|bun|ruby|perl|php)\s
      | \b(?:import|from|require|require_relative|importScripts|include|load|subprocess|spawn|fork|exec\w*|run)\b
      | (?:^|[\s;&|({`"'=/])\.{1,2}/""",
    re.VERBOSE,
)


def named_files(texts: Iterable[str], root: str, folders: Iterable[str] = ()) -> list[str]:
    """The existing files that these command lines name, started in `root` or one of `folders`; absolute, in order."""
    top = repository_of(root)
    bases = list(dict.fromkeys(filter(None, (root, *folders, top))))
    search = _Search(top or root)
    found: dict[str, None] = {}
    for text in texts:
        for path in search.find(_words(text), list(bases), grows=True):
            _add(found, path)
    left = list(found)
    while left:
        script = left.pop()
        if not _is_script(script):
            continue
        for path in search.find(_loaded(script), [os.path.dirname(script), *bases]):  # noqa: PTH120 - text
            if path not in found and _is_script(path):
                _add(found, path)
                left.append(path)
    return sorted(found)


def digest_of(paths: Iterable[str], limit: int = MAX_DIGESTED) -> str:
    """A hash over the names and contents of files; of each at most one byte more than `limit`."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            content = read_regular(path, limit + 1, follow=True)
        except OSError:
            content = b"-"
        digest.update(f"{path}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return digest.hexdigest()


def repository_of(root: str) -> str | None:
    """The nearest folder above, or this one, that has a `.git`."""
    folder = root
    while not os.path.lexists(f"{folder}/.git"):
        above = os.path.dirname(folder)  # noqa: PTH120 - text
        if above == folder:
            return None
        folder = above
    return folder


class _Search:
    """Looks words up in folders; absolute ones only inside of the repository."""

    def __init__(self, top: str) -> None:
        self._tops = (f"{top}/", f"{os.path.realpath(top)}/")
        self._entries: dict[str, frozenset[str]] = {}

    def find(self, words: Iterable[str], bases: list[str], *, grows: bool = False) -> Iterator[str]:
        """The files; if the list grows, also in folders that the words name, as after `cd tools`."""
        names = list(dict.fromkeys(one for word in words if len(word) < MAX_WORD for one in _readings(word)))
        for base in bases:  # grows meanwhile
            for path in filter(None, (self._path(base, name) for name in names)):
                yield from (_normal(one) for ending in _ENDINGS if os.path.isfile(one := f"{path}{ending}"))  # noqa: PTH113 - text
                if grows and path not in bases and len(bases) < MAX_BASES and os.path.isdir(path):  # noqa: PTH112 - text
                    bases.append(path)

    def _path(self, base: str, name: str) -> str | None:
        if name.startswith("/"):
            return name if name.startswith(self._tops) else None
        first = name.partition("/")[0]
        return f"{base}/{name}" if first in (".", "..") or first in self._listed(base) else None

    def _listed(self, base: str) -> frozenset[str]:
        """What a folder has, with and without endings; listed once, since most words name nothing."""
        if base not in self._entries:
            try:
                names = os.listdir(base)  # noqa: PTH208 - text
            except OSError:
                names = []
            self._entries[base] = frozenset((*names, *(os.path.splitext(name)[0] for name in names)))  # noqa: PTH122 - text
        return self._entries[base]


def _normal(path: str) -> str:
    """A path without `.` and `..`, unless a link makes that another file."""
    short = os.path.normpath(path)
    return short if os.path.realpath(short) == os.path.realpath(path) else path


def _words(text: str, depth: int = 3) -> Iterator[str]:
    """The parts of a command line that may be paths, and the files that the programs in it read."""
    text = _VARIABLE.sub("", text)  # what it stands for is tried: the folder, or nothing
    for part in _BETWEEN.split(text):
        yield part
        yield from _RECIPES.get(part.rpartition("/")[2], ())
    try:
        quoted = shlex.split(text)
    except ValueError:
        return
    for word in quoted:
        if word == text or not depth:
            yield word
        else:
            yield from (word, *_words(word, depth - 1))


def _readings(word: str) -> Iterator[str]:
    """What a word may stand for: glued options, `@file`, a path after a variable, a Python module."""
    plain = word.rstrip("/") or word
    yield plain
    if glued := _GLUED.match(plain):
        yield plain[glued.end() :]
    if plain.startswith(("@", "/", "-", "+")):
        yield plain.lstrip("@/-+")
    if "/" not in plain and "." in plain:
        yield plain.strip(".").replace(".", "/")


def _loaded(script: str) -> Iterator[str]:
    """The words of those lines of a script that load another."""
    try:
        text = read_regular(script, MAX_BYTES, follow=True).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        if _LOADS.search(line):
            yield from filter(None, _BETWEEN.split(_VARIABLE.sub("", line)))


def _is_script(path: str) -> bool:
    if path.endswith(_SCRIPTS):
        return True
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - text
        return bool(mode & stat.S_IXUSR) and read_regular(path, 2, follow=True) == b"#!"
    except OSError:
        return False


def _add(found: dict[str, None], path: str) -> None:
    found[path] = None
    if len(found) > MAX_FILES:
        raise UserError(f"its commands name more than {MAX_FILES} files", hint="reduce them before you trust them")

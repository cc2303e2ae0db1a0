"""The words of command lines, scripts and recipes that may name files.

Invariants: nothing is run, and what is read of a file is bounded. A word too many does no harm: it counts only if such
a file exists.
"""

import os
import re
import shlex
from collections.abc import Collection, Iterator

import msgspec

from buddy.regular_files import read_regular

MAX_BYTES = 1024 * 1024
MAX_CONTINUED = 300
MAX_PARTS = 16
_BETWEEN = re.compile(r"[^\w./@%+~-]+")
_VARIABLE = re.compile(r"\$\{?\w+\}?")
_GLUED = re.compile(r"-[A-Za-z](?=[./\w])")
_PYTHON_PROJECT = ("pyproject.toml", "tox.ini", "noxfile.py", "src")
# Programs that run what a file of the folder says; Python projects often have their modules in `src`.
RECIPES = {
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    **dict.fromkeys(("npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx"), ("package.json",)),
    **dict.fromkeys(("uv", "uvx", "poetry", "hatch", "pdm", "tox", "nox"), _PYTHON_PROJECT),
    **dict.fromkeys(("python", "python3"), ("src",)),
    **dict.fromkeys(("docker", "podman"), ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")),
    **dict.fromkeys(("docker-compose", "podman-compose"), ("docker-compose.yaml", "docker-compose.yml")),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "deno": ("deno.json", "deno.jsonc"),
    "cargo": ("Cargo.toml",),
    "rake": ("Rakefile",),
}
_RECIPE_NAMES = frozenset(name for names in RECIPES.values() for name in names if name != "src")
# What a program that is given a folder starts there.
_ENTRIES = frozenset({"main", "module", "exports", "bin"})
_RUN_FOLDERS = frozenset({"node", "bun", "deno", "."})
# Lines of a script that load or start another one, or say where others are looked for.
_LOADS = re.compile(
    r"""^\s*(?:\.|source|exec|bash|sh|zsh|fish|env|python[\d.]*|node|deno|bun|ruby|perl|php)\s
      | \b(?:import\w*|from|require|require_relative|include|load|subprocess|spawn\w*|fork|exec\w*|run|runpy)\b
      | \b(?:__import__|load_module|run_module|run_path|[Pp]open|system|PYTHONPATH|NODE_PATH)\b | \bsys\.path\b
      | (?:^|[\s;&|({`"'=/])\.{1,2}/""",
    re.VERBOSE,
)


def words_of(text: str, depth: int = 4) -> Iterator[str]:
    """The parts of a command line that may be paths, and the files that the programs in it read."""
    text = _VARIABLE.sub("", text)  # what it stands for is tried: the folder, or nothing
    for part in _BETWEEN.split(text):
        yield part
        yield from RECIPES.get(part.rpartition("/")[2], ())
    try:
        quoted = shlex.split(text)
    except ValueError:
        return
    for word in quoted:
        if word == text or not depth:
            yield word
        else:
            yield from (word, *words_of(word, depth - 1))


def readings_of(word: str) -> Iterator[str]:
    """What a word may stand for: glued options, `@file`, a path after a variable, a Python module and its packages."""
    plain = word.rstrip("/") or word
    yield plain
    if glued := _GLUED.match(plain):
        yield plain[glued.end() :]
    if plain.startswith(("@", "/", "-", "+")):
        yield plain.lstrip("@/-+")
    if "/" not in plain and "." in plain:
        parts = plain.strip(".").split(".")
        above = "../" * (len(plain) - len(plain.lstrip(".")) - 1)
        for count in range(1, min(len(parts), MAX_PARTS) + 1):
            module = "/".join(parts[:count])
            yield from {module, f"{above}{module}"}


def names_in(path: str, called: Collection[str]) -> list[str]:
    """The words with which a script loads others, or with which a recipe starts what a command line called."""
    try:
        text = read_regular(path, MAX_BYTES, follow=True).decode("utf-8", "replace")
    except OSError:
        return []
    if not is_recipe(path):
        lines = _loading_lines(text)
    elif path.endswith(".json"):
        lines = _json_values(text, called)
    else:
        lines = _recipe_lines(text, called)
    return list(dict.fromkeys(word for line in lines for word in _BETWEEN.split(_VARIABLE.sub("", line)) if word))


def is_recipe(path: str) -> bool:
    return os.path.basename(path) in _RECIPE_NAMES  # noqa: PTH119 - text


def _loading_lines(text: str) -> Iterator[str]:
    """Those lines of a script that load another, up to the bracket that ends them."""
    is_open, left = 0, 0
    is_continued = False
    for line in text.splitlines():
        is_more = is_continued or (is_open > 0 and left > 0)
        if not is_more:
            is_open, left = 0, MAX_CONTINUED
        if is_more or _LOADS.search(line):
            yield line
            is_open += line.count("(") - line.count(")")
            left -= 1
            is_continued = line.endswith("\\") and left > 0


def _recipe_lines(text: str, called: Collection[str]) -> Iterator[str]:
    """The lines whose first word was called, with the indented ones below."""
    indent: int | None = None
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        if indent is not None and depth > indent:
            yield line
            continue
        key = next(filter(None, _BETWEEN.split(line)), "")
        indent = depth if key in called else None
        if indent is not None:
            yield line


def _json_values(text: str, called: Collection[str]) -> Iterator[str]:
    """The texts below the keys that were called, or that say what a folder starts with."""
    wanted = {*called, *_ENTRIES} if not _RUN_FOLDERS.isdisjoint(called) else set(called)
    try:
        left: list[tuple[object, bool]] = [(msgspec.json.decode(text), False)]
    except (msgspec.DecodeError, RecursionError):
        return
    while left:
        value, is_wanted = left.pop()
        if isinstance(value, str) and is_wanted:
            yield value
        left += [(one, is_wanted or key in wanted) for key, one in _parts(value)]


def _parts(value: object) -> list[tuple[str, object]]:
    """The values of a JSON object or list; none of anything else."""
    if isinstance(value, dict):
        return list(msgspec.convert(value, dict[str, object]).items())
    return [("", one) for one in msgspec.convert(value, list[object])] if isinstance(value, list) else []

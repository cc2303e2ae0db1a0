"""Measures the shape of the repository: sizes, silenced checks, imports inside functions, words we do not use.

`python -m tests.repo.shape` prints every finding, those that `allowed.py` still permits too.
"""

import ast
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_METHODS = 20

GENERATED = {
    "src/buddy/protocol/json_events.py",  # written by tools/json_events.py
    "src/buddy/scrub/prefix_table.py",  # written by src/buddy/scrub/build_prefix_table.py
}

#: One interface with one method per operation: a class that is split here is put together again by its callers.
WIDE_CLASSES = {
    "src/buddy/log/memory.py::MemoryLog",
    "src/buddy/log/postgres/postgres.py::PostgresLog",
    "src/buddy/log/sqlite.py::SqliteLog",
}

#: Words with a better one, and references to documents that are not in the repository.
BANNED_WORDS = {
    "wish": r"wish(?:es|ed)?",
    "the seed": r"the seeds?|seed's|seed \d{3}",
    "design §": r"design §",
    "what always holds": r"what always holds",
    "anew": r"anew",
    "so many": r"so many",
    "is told": r"(?:is|are|was|were|be)[ _]told",
}
WORDS_OF = re.compile(
    "|".join(f"(?P<w{number}>{pattern})" for number, pattern in enumerate(BANNED_WORDS.values())), re.IGNORECASE
)
#: They contain the words in order to look for them, or as the name of a program (Tk's shell).
ABOUT_WORDS = {"tests/repo/shape.py", "tests/repo/test_shape.py", "src/buddy/tools/shell/dangerous.py"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".json", ".sh", ".awk", ".txt", ""}

SILENCED = re.compile(r"#\s*(?:ruff:\s*)?(noqa|type:\s*ignore|pyright:\s*ignore)")
REASON = re.compile(r" - \S")


class Finding(Struct, frozen=True, order=True):
    """`rule` is broken at `place`, a path with `:line` or `::name` behind it."""

    rule: str
    place: str
    detail: str = ""

    @property
    def package(self) -> str:
        """Where it is counted: `src/buddy/cli`, `tests/log`, `docs`."""
        folders = self.place.split(":")[0].split("/")[:-1]
        return "/".join(folders[: 3 if folders[:1] == ["src"] else 2]) or "."

    def __str__(self) -> str:
        return f"{self.place}: {self.rule}" + (f" ({self.detail})" if self.detail else "")


def findings() -> list[Finding]:
    found: list[Finding] = []
    for path in tracked_files():
        if path.endswith(".py"):
            found += [*sizes(path), *silenced_checks(path)]
        found += banned_words(path)
    return sorted(found)


def tracked_files() -> list[str]:
    """What git knows, or would add: `.venv` and caches are not the repository."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True)
    return sorted(name for name in done.stdout.split("\0") if name and (ROOT / name).is_file())


def sizes(path: str) -> Iterator[Finding]:
    text = (ROOT / path).read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > MAX_FILE_LINES and path not in GENERATED:
        yield Finding("long file", path, f"{lines} lines, maximum {MAX_FILE_LINES}")
    for node in _statements(ast.parse(text)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    yield Finding("long function", f"{path}::{node.name}", f"{length} lines")
            case ast.ClassDef():
                methods = sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)
                if methods > MAX_METHODS and f"{path}::{node.name}" not in WIDE_CLASSES:
                    yield Finding("large class", f"{path}::{node.name}", f"{methods} methods")
            case _:
                pass


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Statements, however deep; expressions contain no definitions of ours and are most of a tree."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _statements(child)


def silenced_checks(path: str) -> Iterator[Finding]:
    if not SILENCED.search((ROOT / path).read_text(encoding="utf-8")):
        return  # tokenizing takes most of the time here
    with (ROOT / path).open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type != tokenize.COMMENT or not SILENCED.search(token.string):
                continue
            place = f"{path}:{token.start[0]}"
            if "C901" in token.string:
                yield Finding("silenced complexity", place)
            if not REASON.search(token.string):
                yield Finding("silenced without a reason", place, "write `# noqa: CODE - why`")


def banned_words(path: str) -> Iterator[Finding]:
    if path in ABOUT_WORDS or Path(path).suffix not in TEXT_SUFFIXES or path.endswith(".lock"):
        return
    names = list(BANNED_WORDS)
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
        for match in WORDS_OF.finditer(line):
            if _is_a_word(line, match.start(), match.end()):
                yield Finding("banned word", f"{path}:{number}", names[(match.lastindex or 1) - 1])


def lazy_imports(path: Path) -> bool:
    """Whether a function of this file imports something."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(isinstance(part, ast.Import | ast.ImportFrom) for node in functions for part in ast.walk(node))


def _is_a_word(line: str, start: int, end: int) -> bool:
    """Not inside a longer one; names such as `wish_of` and `test_it_is_told` are made of words, too."""
    return not (line[start - 1 : start].isalpha() or line[end : end + 1].isalpha())


if __name__ == "__main__":
    for finding in findings():
        print(finding)  # noqa: T201 - that is its purpose

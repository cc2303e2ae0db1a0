"""Where the files lie that a command writes: a link may lead from an ordinary name to a protected place.

Invariants: this only takes away: a command that writes elsewhere than its words say is not allowed by the wildcards of
a rule. What would take long to find out counts as elsewhere.
"""

import os
import re

from buddy.errors import ToolError
from buddy.tools.contract import Place
from buddy.tools.shell.grammar import Words, parse
from buddy.tools.shell.programs import names_of
from buddy.tools.writing import makes_programs_run

MAX_FILES = 100
# Those among the programs that take data which write what their words name.
WRITERS = frozenset(
    """
    cp mv ln rm rmdir mkdir touch tee dd install shred truncate chmod chown mkfifo sponge gzip bzip2 xz zstd split
    csplit mktemp ruff black isort yq uniq xxd sort iconv shuf pandoc
    """.split()  # noqa: SIM905 - easier to read
)
_COPYING = frozenset({"cp", "mv", "ln", "install"})
_RECURSIVE = re.compile(r"-[A-Za-z]*[raR]|--(?:rec|arc)")


async def strays(command: str, cwd: str, place: Place) -> str:
    """Why what a command writes is protected or outside the workspace; empty if it is neither."""
    for words in parse(command).plain or ():
        if WRITERS.isdisjoint(names_of(words[0])):
            continue
        files = [word.rpartition("=")[2] for word in words[1:] if not word.startswith("-") or "=" in word]
        if len(files) > MAX_FILES:
            return f"{words[0]} names too many files to look at"
        for path in (*files, *_copies(words, files)):
            if why := await _strays(path, cwd, place):
                return f"{words[0]} writes {path[:80]}, {why}"
        if why := await _merges(words, files, cwd, place):
            return why
    return ""


def _copies(words: Words, files: list[str]) -> list[str]:
    """The names that files get if the last word is a directory."""
    if _COPYING.isdisjoint(names_of(words[0])) or len(files) < 2:
        return []
    return [os.path.join(files[-1], _last(path)) for path in files[:-1] if _last(path)]  # noqa: PTH118 - words


def _last(path: str) -> str:
    return os.path.basename(os.path.normpath(path)) if path else ""  # noqa: PTH119 - words


async def _strays(path: str, cwd: str, place: Place) -> str:
    if not path:
        return ""
    try:
        found = await place.target.locate(os.path.join(cwd, path), root=place.root)  # noqa: PTH118 - words
    except ToolError as error:
        # Below what is a file there is nothing to be written.
        return "" if "is not a directory" in str(error) else "which leads out of the workspace"
    if found.rstrip("/") == place.root.rstrip("/"):
        return "which is the workspace itself"
    return "which can make programs run" if await makes_programs_run(found, place) else ""


async def _merges(words: Words, files: list[str], cwd: str, place: Place) -> str:
    """A directory that is copied into one that exists is written through the links in there."""
    if _COPYING.isdisjoint(names_of(words[0])) or not any(map(_RECURSIVE.match, words[1:])):
        return ""
    for path in (*files[-1:], *_copies(words, files)):
        # Copied to a directory, it becomes a new one there, unless it stands for its content.
        is_merged = path != files[-1] or any(re.search(r"(?:^|/)\.?/?$", source) for source in files[:-1])
        if is_merged and await _is_directory(path, cwd, place):
            return f"{words[0]} would write into {path[:80]}, which exists, and links there may lead anywhere"
    return ""


async def _is_directory(path: str, cwd: str, place: Place) -> bool:
    info = await place.target.stat(os.path.join(cwd, path), root=place.root)  # noqa: PTH118 - words
    return info is not None and info.is_dir

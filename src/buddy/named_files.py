"""The files of a repository that command lines start, found in their text, with the scripts that these load.

A shell decides only while it runs what a command line starts, so nothing here tries to be a shell: every part of the
text that could be a path is looked for, in every folder that it may start from. It is better to find one file too many
than one too few.

Invariant: files that exist are found whatever surrounds their names: quotes, variables, `bash -c`, several commands in
one line, folders that other words name. Names that are computed, and installed packages, are not found.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence

from buddy.command_words import is_recipe, names_in, readings_of, words_of
from buddy.errors import UserError
from buddy.file_cache import Dependencies
from buddy.regular_files import read_regular

MAX_FILES = 1000
MAX_DIGESTED = 8 * 1024 * 1024
MAX_BASES = 50
MAX_WORD = 1024
# What an interpreter, an import or a folder adds to a name.
_ENDINGS = (
    *("", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh"),
    *("/__main__.py", "/__init__.py", "/index.js", "/index.mjs", "/index.cjs", "/index.ts", "/package.json"),
)
_SCRIPTS = (
    *(".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx", ".sh", ".bash", ".zsh", ".fish"),
    *(".rb", ".pl", ".php", ".lua", ".ps1"),
)


def named_files(
    texts: Iterable[str], root: str, folders: Iterable[str] = (), looked: Dependencies | None = None
) -> list[str]:
    """The existing files that these command lines name, started in `root` or one of `folders`; absolute, in order.

    `looked` gets every path that decides the result.
    """
    looked = looked or Dependencies()
    top = repository_of(root, looked)
    bases = list(dict.fromkeys(filter(None, (root, *folders, top))))
    search = _Search(top or root, looked)
    found: dict[str, None] = {}
    for text in texts:
        for path in search.started(list(words_of(text)), list(bases)):
            found[path] = None
            if len(found) > MAX_FILES:
                message = f"its commands name more than {MAX_FILES} files"
                raise UserError(message, hint="reduce them before you trust them")
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


def repository_of(root: str, looked: Dependencies | None = None) -> str | None:
    """The nearest folder above, or this one, that has a `.git`."""
    folder = root
    looked = looked or Dependencies()
    while not os.path.lexists(f"{folder}/.git"):
        looked.add(f"{folder}/.git")  # where it exists, it changes all the time
        above = os.path.dirname(folder)  # noqa: PTH120 - text
        if above == folder:
            return None
        folder = above
    return folder


class _Search:
    """Looks words up in folders; absolute ones only inside of the repository."""

    def __init__(self, top: str, looked: Dependencies) -> None:
        self._looked = looked
        self._tops = (f"{top}/", f"{os.path.realpath(top)}/")
        self._entries: dict[str, frozenset[str]] = {}

    def started(self, words: Sequence[str], bases: list[str]) -> Iterator[str]:
        """What one command line starts, then what that loads; the folders that it names are searched as well."""
        left = list(dict.fromkeys(self._find(words, bases)))
        yield from left
        seen, called = set(left), frozenset(words)
        while left:
            file = left.pop()
            self._looked.add(file)
            if not _is_script(file) and not is_recipe(file):
                continue
            around = list(dict.fromkeys((os.path.dirname(file), *bases)))  # noqa: PTH120 - text
            for path in self._find(names_in(file, called), around):
                self._looked.add(path)
                if path not in seen and (_is_script(path) or is_recipe(path)):
                    seen.add(path)
                    left.append(path)
                    yield path

    def _find(self, words: Iterable[str], bases: list[str]) -> Iterator[str]:
        """The files; `bases` grows by the folders that the words name, as after `cd tools` or `from lib import`."""
        names = dict.fromkeys(one for word in words if len(word) < MAX_WORD for one in readings_of(word))
        by_first: dict[str, list[str]] = {}
        for name in names:
            by_first.setdefault(name.partition("/")[0], []).append(name)
        limit = len(bases) + MAX_BASES
        for base in bases:  # grows meanwhile
            for path in self._paths(base, by_first):
                self._looked.update((path, os.path.dirname(path)))  # noqa: PTH120 - text
                yield from (_normal(one) for ending in _ENDINGS if os.path.isfile(one := f"{path}{ending}"))  # noqa: PTH113 - text
                if len(bases) < limit and os.path.isdir(path) and self._is_new(folder := _normal(path), bases):  # noqa: PTH112 - text
                    bases.append(folder)

    def _is_new(self, folder: str, bases: list[str]) -> bool:
        return folder not in bases and f"{folder}/".startswith(self._tops)

    def _paths(self, base: str, by_first: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """The paths whose first part is in a folder; one bundled script has more words than can be tried one by one."""
        yield from (name for name in by_first.get("", ()) if name.startswith(self._tops))
        listed = self._listed(base)
        fewer, more = (listed, by_first) if len(listed) < len(by_first) else (by_first, listed)
        present = {first for first in fewer if first in more} | ({".", ".."} & by_first.keys())
        for first in sorted(present):
            yield from (f"{base}/{name}" for name in by_first[first])

    def _listed(self, base: str) -> frozenset[str]:
        """What a folder has, with and without endings; listed once, since most words name nothing."""
        if base not in self._entries:
            self._looked.add(base)
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


def _is_script(path: str) -> bool:
    if path.endswith(_SCRIPTS):
        return True
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - text
        return bool(mode & stat.S_IXUSR) and read_regular(path, 2, follow=True) == b"#!"
    except OSError:
        return False

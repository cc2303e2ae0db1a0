"""The parts of git repositories in a workspace that can make git run code: hooks, configuration, included files.

Invariants: what is read is bounded, links are not followed, and nothing of the repository is run. Missing files get a
harmless placeholder: see `placeholder_content`.
"""

import os
import re
from collections.abc import Iterable, Iterator

from buddy.regular_files import read_regular

MAX_REPOSITORIES = 50
MAX_CONFIG = 256 * 1024
DIRS = ("hooks",)
# A `commondir` file would make a repository take its configuration and hooks from elsewhere.
FILES = ("config", "config.worktree", "commondir")

_SECTION = re.compile(r"\s*\[\s*([A-Za-z0-9.-]+)")
_PAIR = re.compile(r'\s*([a-z][a-z0-9-]*)\s*=\s*"?([^"#;\n]+)', re.IGNORECASE)
# What these name is run, by git itself or as an argument of what it runs.
_COMMANDS = frozenset(
    """
    fsmonitor sshcommand editor pager askpass gitproxy command clean smudge process textconv driver helper program cmd
    path sendpack uploadpack receivepack
    """.split()  # noqa: SIM905 - easier to read
)


def protected_in(places: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """The paths that must stay as they are in all of these repositories."""
    # The nearest first; beyond a number that nobody works in at once, each is protected as a whole.
    for number, place in enumerate(sorted(places, key=lambda place: (place.count("/"), place))):
        if number >= MAX_REPOSITORIES:
            yield place, True
        else:
            yield from protected_paths(place)


def protected_paths(repository: str) -> Iterator[tuple[str, bool]]:
    """The paths of a repository that must stay as they are, and whether each is a directory."""
    if os.path.isfile(repository):  # noqa: PTH113 - plain text: it names the repository of a worktree or submodule
        yield repository, False
        return
    yield from ((f"{repository}/{name}", True) for name in DIRS)
    yield from ((f"{repository}/{name}", False) for name in FILES)
    attributes = f"{repository}/info/attributes"
    if os.path.realpath(attributes) == attributes:
        yield attributes, False
    yield from configured_paths(repository)


def configured_paths(repository: str) -> Iterator[tuple[str, bool]]:
    """What its configuration makes git run or read: a directory of hooks, a file to include."""
    section = ""
    for line in _text(f"{repository}/config").splitlines():
        opened = _SECTION.match(line)
        section = opened[1].lower() if opened else section
        # A pair may follow its section header on the same line.
        pair = _PAIR.match(line.partition("]")[2] if opened else line)
        if not pair:
            continue
        key, value = pair[1].lower(), os.path.expanduser(pair[2].strip())  # noqa: PTH111 - plain text
        if (section, key) == ("core", "hookspath"):
            yield os.path.normpath(os.path.join(os.path.dirname(repository), value)), True  # noqa: PTH118, PTH120 - text
        elif section in ("include", "includeif") and key == "path":
            yield os.path.normpath(os.path.join(repository, value)), False  # noqa: PTH118 - text
        elif key in _COMMANDS or section == "alias":
            yield from _files_named(value, os.path.dirname(repository))  # noqa: PTH120 - text


def _files_named(command: str, directory: str) -> Iterator[tuple[str, bool]]:
    """The files of a work tree that a configured command names."""
    for word in re.split(r"[\s'!;&|()]+", command):
        path = os.path.normpath(os.path.join(directory, word))  # noqa: PTH118 - text
        if word and os.path.isfile(path):  # noqa: PTH113 - text
            yield path, False


def placeholder_content(path: str) -> bytes:
    """What a placeholder file contains: an empty `commondir` would break git, this one points to itself."""
    return b".\n" if path.endswith("/commondir") else b""


def _text(path: str) -> str:
    try:
        return read_regular(path, MAX_CONFIG).decode("utf-8", "replace")
    except OSError:
        return ""

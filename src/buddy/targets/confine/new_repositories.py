"""Repositories that a confined command made: harmless ones stay, others are set aside where they are.

Invariants: a repository is harmless only if each line of its configuration is known to run nothing and it has no hooks;
what cannot be read or understood is not. Nothing is deleted: a name is changed, and the change is reported.
"""

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress

from buddy.regular_files import read_regular
from buddy.targets.confine.pointers import common_of, directory_of
from buddy.targets.confine.tree import Repositories

MAX_CONFIG = 64 * 1024
_SECTION = re.compile(r'\[([a-z]+)(?: "([\w./:@ +-]*)")?\]')
_PAIR = re.compile(r'([a-z]\w*) = ([\w./:@+*~" -]*)', re.IGNORECASE)
_KEYS = {
    "core": {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode"}
    | {"symlinks", "worktree", "autocrlf", "eol"},
    "extensions": {"objectformat", "refstorage"},
    "init": {"defaultbranch"},
    "user": {"name", "email"},
    "remote": {"url", "fetch"},
    "branch": {"remote", "merge", "rebase"},
    "submodule": {"url", "active"},
}


def set_aside_new(before: Repositories, after: Repositories, root: str) -> list[str]:
    """Set aside what was added and is not harmless; returns what was done, for the model and the person."""
    done = [
        f"{state} was renamed to {moved}: git would run commands when this operation is continued"
        for state in sorted(after.operations - before.operations, reverse=True)
        if (moved := set_aside(state))
    ]
    # The innermost first: their paths change with those around them.
    for place in sorted(after.places - before.places, reverse=True):
        if not _is_harmless(place, before.places, root):
            renamed = [(path, moved) for path in _markers(place) if (moved := set_aside(path))]
            done += (
                f"{path} was renamed to {moved}: git would have run what this repository configures"
                for path, moved in renamed[-1:]
            )
    if before.is_complete and not after.is_complete:
        done.append("there are too many directories to look for repositories in all of them")
    return done


def set_aside_names(root: str, names: Iterable[str], present: Iterable[str]) -> list[str]:
    """Set aside files with these names that were not `present` before."""
    new = sorted(set(existing(root, names)).difference(present))
    moved = {name: set_aside(f"{root}/{name}") for name in new}
    return [
        f"{root}/{name} was renamed to {path}: other programs would run what it contains"
        for name, path in moved.items()
        if path
    ]


def existing(root: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if os.path.lexists(f"{root}/{name}")]


def set_aside(path: str) -> str | None:
    """Give it a name that no program looks for; None if that failed or it is gone."""
    for number in range(1, 1000):
        moved = f"{path}.set-aside" if number == 1 else f"{path}.set-aside-{number}"
        if os.path.lexists(moved):
            continue
        with suppress(OSError):
            os.rename(path, moved)  # noqa: PTH104 - plain text
            return moved
        return None
    return None


def _markers(place: str) -> list[str]:
    """What to rename so that git finds no repository there, nor under the new name of its directory."""
    if os.path.islink(place) or not os.path.isdir(place):  # noqa: PTH112, PTH114 - plain text
        return [place]
    # Others may use its configuration without a `HEAD`.
    names = existing(place, ("HEAD",)) or existing(place, ("config", "config.worktree", "hooks"))
    return [*(f"{place}/{name}" for name in names), *([place] if place.endswith("/.git") else [])]


def _is_harmless(place: str, known: frozenset[str], root: str) -> bool:
    try:
        return _is_directory_harmless(_real(directory_of(place)), known, root)
    except (OSError, ValueError):
        return False


def _is_directory_harmless(directory: str, known: frozenset[str], root: str) -> bool:
    if directory in known:
        return True
    if not f"{directory}/".startswith(f"{root}/"):
        return False
    common = _real(common_of(directory))
    # Git shares the files of real repositories alone; others would not be recognized for what they are.
    if common != directory and not os.path.lexists(f"{common}/HEAD"):
        return False
    places = (directory,) if common == directory else (directory, common)
    return all(place in known or _is_part_harmless(place, directory, root) for place in places)


def _is_part_harmless(part: str, directory: str, root: str) -> bool:
    """Whether the hooks and the configuration in one directory of a repository run nothing."""
    hooks = f"{part}/hooks"
    if os.path.lexists(hooks) and not stat.S_ISDIR(os.lstat(hooks).st_mode):
        return False
    if any(not name.endswith(".sample") for name in _names(hooks)):
        return False
    configs = existing(part, ("config", "config.worktree"))
    texts = (read_regular(f"{part}/{name}", MAX_CONFIG).decode() for name in configs)
    return all(_is_config_harmless(text, directory, root) for text in texts)


def _names(directory: str) -> list[str]:
    return os.listdir(directory) if os.path.lexists(directory) else []  # noqa: PTH208 - only names


def _is_config_harmless(text: str, directory: str, root: str) -> bool:
    allowed: set[str] = set()
    if len(text) >= MAX_CONFIG:
        return False
    for line in text.split("\n"):
        stripped = line.strip(" \t")
        if section := _SECTION.fullmatch(stripped):
            allowed = _KEYS.get(section[1], set())
        elif pair := _PAIR.fullmatch(stripped):
            key, value = pair[1].lower(), pair[2]
            if key not in allowed or (key == "url" and ("::" in value or value.startswith("-"))):
                return False
            if key == "worktree" and not f"{_resolve(directory, value)}/".startswith(f"{root}/"):
                return False
        elif stripped:
            return False
    return True


def _real(path: str) -> str:
    """The same without `..`; ValueError if there is a link on the way, which could lead elsewhere later."""
    real = os.path.realpath(path)
    if real != os.path.normpath(path):
        raise ValueError(path)
    return real


def _resolve(base: str, path: str) -> str:
    if not path or "\n" in path:
        raise ValueError(path)
    return os.path.realpath(os.path.join(base, path))  # noqa: PTH118 - plain text

"""Which files and hosts a command names, for rules that deny or ask.

Invariants: this only ever takes away. A name that is not found here is not proven absent, so nothing is allowed
because of it.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from buddy.tools.shell.grammar import Words

MAX_WORDS = 5000
MAX_BASES = 8
MAX_BRACED = 64
_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}")
_HERE = re.compile(r"^(?:\$PWD|\$\{PWD\}|~\+)/")


class Mentions(Struct, frozen=True):
    """`paths` as rules write them: below the workspace from there, others in full. `anything`: too many to look at."""

    paths: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    anything: bool = False


def mentions_in(commands: Iterable[Words], files: Iterable[str], workspace: str, cwd: str) -> Mentions:
    """All that the words may name, each read in every way it could be meant."""
    commands = tuple(commands)
    bases = [cwd, *_moves(commands, cwd)]
    words = {*files, *(word for command in commands for word in (command[1:] or command))}
    if len(words) > MAX_WORDS:
        return Mentions(anything=True)
    spellings = {spelling for word in words for spelling in _spellings(word)}
    paths = {relative(os.path.join(base, name), workspace) for name in spellings for base in bases}  # noqa: PTH118 - words
    hosts = {host for word in words for host in _hosts(word)}
    return Mentions(frozenset(paths), frozenset(hosts))


def relative(path: str, workspace: str) -> str:
    """A path as rules write it; nothing is looked up."""
    whole = os.path.normpath(os.path.join(workspace, os.path.expanduser(path)))  # noqa: PTH111, PTH118 - words
    inside = bool(workspace) and whole.startswith(workspace.rstrip("/") + "/")
    return whole[len(workspace.rstrip("/")) + 1 :] if inside else whole


def _moves(commands: Iterable[Words], cwd: str) -> Iterator[str]:
    """Where `cd` leads to, one after the other."""
    steps = [command[1] for command in commands if command[0] in ("cd", "pushd") and len(command) > 1]
    for step in steps[:MAX_BASES]:
        cwd = os.path.join(cwd, step)  # noqa: PTH118 - words, not yet files
        yield cwd


def _spellings(word: str) -> Iterator[str]:
    """`-ofile`, `--output=file`, `@file`, `key=@file` and `HEAD:file` name the file, too, and so does `$PWD/file`."""
    if len(word) >= 4096:
        return
    here = _HERE.sub("", word)
    for text in (here, here.partition("=")[2], here[2:] if here.startswith("-") else "", here.partition(":")[2]):
        for spelled in _braced(text) if text else ():
            yield spelled
            yield spelled.lstrip("@<>")


def _braced(text: str) -> list[str]:
    """What a shell makes of braces; where that is a great many words, they may stand for anything."""
    choices = [group.count(",") + 1 for group in _BRACES.findall(text)]
    if math.prod(choices) > MAX_BRACED:
        return [_BRACES.sub("*", text)]
    words = [text]
    for _ in choices:
        words = [_BRACES.sub(choice, word, count=1) for word in words for choice in _choices(word)]
    return words


def _choices(word: str) -> list[str]:
    found = _BRACES.search(word)
    return [choice.replace("\\", "") for choice in found[0][1:-1].split(",")] if found else [""]


def _hosts(word: str) -> list[str]:
    """The parts of an address, or of `user@host:path`; the host is one of them."""
    return [part for part in re.split(r"[/:@=?#\\]", word)[:16] if part]

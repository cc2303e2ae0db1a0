"""The script files that a command names, by their content: rewriting one after an approval is a change that shows.

What always holds: this proves nothing about what a command does; it only binds a decision to the files it can see.
"""

import hashlib
import os
import re

from msgspec import Struct

from buddy.errors import ToolError
from buddy.tools import glance
from buddy.tools.contract import Place

MAX_WORDS = 1000
MAX_BYTES = 16 * 1024 * 1024
SUFFIXES = (".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".mk", ".awk")
# Words after which a file is run, whatever it looks like.
RUNNERS = frozenset(
    {
        "sh",
        "bash",
        "dash",
        "zsh",
        "ksh",
        "fish",
        "source",
        ".",
        "exec",
        "env",
        "command",
        "sudo",
        "nohup",
        "time",
        "xargs",
    }
    | {"python", "python3", "node", "deno", "bun", "ruby", "perl", "php", "lua", "awk", "make", "just"}
    | {"if", "then", "elif", "else", "while", "until", "do", "!", "{"}
)

_TOKEN = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<redirect>&?[<>]+[&|]?)|(?P<break>[;&|()`\n]+)"""
    r"""|(?P<plain>(?:[^\s;&|()<>`'"\\]|\\.)+)""",
    re.DOTALL,
)


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
    digests: dict[str, str] = {}
    for word in words[:MAX_WORDS]:
        is_run = not word.before or word.before.rpartition("/")[2] in RUNNERS
        for base in bases:
            digests.update(await _digest(_join(base, word.text), place, is_run=is_run))
    return Scripts(dict(sorted(digests.items())), complete=len(words) <= MAX_WORDS)


def _words(command: str) -> list[_Word]:
    words: dict[_Word, None] = {}  # a set that keeps the order
    before = ""
    for match in _TOKEN.finditer(command):
        if match["break"] or match["redirect"]:
            before = "" if match["break"] else ">"
            continue
        text = re.sub(r"\\(.)", r"\1", match["double"] or match["plain"] or "") or match["single"] or ""
        words[_Word(text, before)] = None
        # Options and assignments stand between a runner and what it runs.
        before = before if re.match(r"-|\w+=", text) else text
    return [word for word in words if word.text]


async def _directories(words: list[_Word], cwd: str, place: Place) -> list[str]:
    """Where the command changes to, as far as it says so plainly."""
    bases: list[str] = []
    base = cwd
    for word in words:
        if word.before in ("cd", "pushd") and len(bases) < 8:
            base = _join(base, word.text)
            bases += [base] if await _exists_below(base, place) else []
    return bases


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

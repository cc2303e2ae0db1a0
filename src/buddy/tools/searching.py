"""Searches a directory with the programs of its target: ripgrep if it is installed, else grep and find.

Invariants:
- a search starts in a directory that was entered and then found to be below the workspace, and follows no link;
- its output is cut on the target, so a search of everything costs no more than a narrow one;
- a pattern is matched by a program that can be ended, never in this process.
"""

import shlex
from typing import Literal, Protocol, get_args, runtime_checkable
from weakref import WeakKeyDictionary

from msgspec import Struct

from buddy.capabilities import has
from buddy.errors import ToolError
from buddy.targets.contract import LinkAware, Target, without_terminal
from buddy.tools.contract import Call, Place

Program = Literal["rg", "pcre", "ere", "plain"]

MAX_OUTPUT = 1024 * 1024
MAX_ERRORS = 4096
PROBE = (
    "if command -v rg >/dev/null 2>&1; then echo rg; "
    "elif echo a | grep -qP '^a$' 2>/dev/null; then echo pcre; "
    "else case $(echo a | grep -HnIZ a 2>/dev/null | tr '\\000' '@') in *@1:a) echo ere ;; *) echo plain ;; esac; fi"
)
# The directory may have been replaced by a link since it was checked: enter first, then check.
ENTER = (
    "cd -P -- {directory} || exit 97; "
    'case $(pwd -P)/ in {root}/*) ;; *) echo "it is not where it was" >&2; exit 97 ;; esac'
)


class SearchScope(Struct, frozen=True):
    """Where to search: a directory by its canonical path, optionally one file in it, and its path from the root.

    The search takes place below `root` or not at all.
    """

    directory: str
    file: str | None
    prefix: str
    root: str


class SearchOutput(Struct, frozen=True):
    """What a search printed; `cut` if there was more."""

    output: str
    errors: str
    exit_code: int
    cut: bool


@runtime_checkable
class CgroupTarget(Protocol):
    """A target that runs commands in cgroups; `without_cgroups` is the same target without, for harmless commands."""

    without_cgroups: Target


class Programs:
    """The search program of each target, probed once."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Target, Program] = WeakKeyDictionary()

    async def of(self, call: Call) -> Program:
        target = _search_target(call.place)
        if target not in self._known:
            found = await _run(PROBE, call)
            known = (program for program in get_args(Program) if found.output.split() == [program])
            self._known[target] = next(known, "plain")
        return self._known[target]


def may_be_outside(path: str, place: Place) -> bool:
    """Whether a file has another name that may be outside the workspace, so that its content is not shown."""
    target = without_terminal(place.target)
    return has(target, LinkAware) and target.has_unknown_links(path)


async def scope_of(path: str, call: Call) -> SearchScope:
    """The scope of a search in a path of the workspace, or in the one outside that the call was approved for."""
    place = call.place
    if call.outside:
        info = await place.target.stat(call.outside, root="/")
        if info is None:
            raise ToolError(f"{path!r} does not exist; list its directory to see what does", code="FILE_NOT_FOUND")
        directory, _, name = (call.outside, "", None) if info.is_dir else call.outside.rpartition("/")
        return SearchScope(directory or "/", name, f"{directory.rstrip('/')}/", directory)
    canonical = await place.target.locate(path, root=place.root)
    info = await place.target.stat(path, root=place.root)
    if info is None:
        raise ToolError(f"{path!r} does not exist; list its directory to see what does", code="FILE_NOT_FOUND")
    base = await place.target.locate(".", root=place.root)
    directory, _, name = (canonical, "", None) if info.is_dir else canonical.rpartition("/")
    relative = directory.removeprefix(base.rstrip("/")).strip("/")
    return SearchScope(directory or "/", name, f"{relative}/" if relative else "", base)


async def search(words: list[str], scope: SearchScope, call: Call) -> SearchOutput:
    """Run a program in the scope's directory."""
    enter = ENTER.format(directory=shlex.quote(scope.directory), root=shlex.quote(scope.root.rstrip("/")))
    # stderr carries the exit code: the pipe has only that of `head`, which ends the program once it has enough.
    program = f'{{ LC_ALL=C.UTF-8 {shlex.join(words)}; echo "exit $?" >&2; }} | head -c {MAX_OUTPUT}'
    found = await _run(f"{enter}; {program}", call)
    if found.exit_code == 97:
        raise ToolError(f"can't search {scope.directory}: {found.errors.strip() or 'it no longer exists'}")
    errors, _, code = found.errors.rpartition("exit ")
    # 1: nothing matched, or something was wrong with one of many files. 141: ended because there was enough.
    if not found.output and (errors.strip() or code.strip() not in ("0", "1", "141")):
        raise ToolError(f"the search failed: {errors.strip()[-1000:] or 'no reason was given'}; check the pattern")
    return found


async def _run(command: str, call: Call) -> SearchOutput:
    output = bytearray()
    errors = bytearray()

    async def on_output(stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        if stream == "stdout":
            output.extend(chunk[: MAX_OUTPUT - len(output)])
        else:
            errors.extend(chunk)
            del errors[:-MAX_ERRORS]

    place = call.place
    ended = await _search_target(place).run(command, cwd=place.root, nonce=call.nonce, on_output=on_output)
    # Names need not be UTF-8, and must not become others.
    texts = output.decode("utf-8", "surrogateescape"), errors.decode("utf-8", "replace")
    return SearchOutput(*texts, ended.exit_code, cut=len(output) >= MAX_OUTPUT)


def _search_target(place: Place) -> Target:
    target = without_terminal(place.target)
    return target.without_cgroups if has(target, CgroupTarget) else target

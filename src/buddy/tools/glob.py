"""Finding files by their names.

Invariants: it has no effect, looks only below the workspace, and its result is bounded.
"""

from typing import Annotated

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.tools.contract import Call, Output, Place
from buddy.tools.globs import Glob
from buddy.tools.names import NamesPath, quote
from buddy.tools.reading import find_readable, read_intent
from buddy.tools.searching import Program, Programs, scope_of, search
from buddy.tools.texts import text_of

MAX_FILES = 500


class GlobArgs(NamesPath, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(description="Glob pattern, such as '*.py' or 'src/**/*.{ts,tsx}'.", min_length=1)]
    path: Annotated[str, Meta(description="Directory to search (default: the workspace).", min_length=1)] = "."


class FindFiles:
    name: str = "glob"
    tier: Tier = "read-only"
    source: Source = "sandbox"
    args: type[Struct] = GlobArgs
    timeout: float | None = 60.0

    def __init__(self, programs: Programs) -> None:
        self.description: str = text_of("glob")
        self._programs = programs

    async def intent(self, args: GlobArgs, place: Place) -> Other:
        found = await find_readable(args.path, place, searches=True)
        return read_intent("find files", found, place, {"pattern": args.pattern}, f"{args.pattern} in {found.path}")

    async def run(self, args: GlobArgs, call: Call) -> Output:
        glob = Glob(args.pattern)
        scope = await scope_of(args.path, call)
        if scope.file is not None:
            raise ToolError(f"{args.path!r} is a file; give a directory")
        found = await search(_words(await self._programs.of(call)), scope, call)
        paths = [path.removeprefix("./") for path in found.output.split("\0")[:-1]]
        matching = sorted(path for path in paths if glob.matches(path))
        return Output(_format(matching, scope.prefix, args, cut=found.cut))


def _words(program: Program) -> list[str]:
    if program == "rg":
        return ["rg", "--no-config", "--files", "--null", "--hidden", "--no-follow", "--no-messages", "--glob=!.git"]
    return ["find", ".", "-name", ".git", "-prune", "-o", "-type", "f", "-print0"]


def _format(paths: list[str], prefix: str, args: GlobArgs, *, cut: bool) -> str:
    if not paths:
        return f"no file in {args.path} matches {args.pattern!r}"
    text = "\n".join(quote(prefix + path) for path in paths[:MAX_FILES])
    more = cut or len(paths) > MAX_FILES
    return f"{text}\n[more matches; narrow the pattern or the path]" if more else text

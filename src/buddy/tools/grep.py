"""Searching the contents of files for a pattern.

Invariants: it has no effect, looks only below the workspace, and gives no more matches than were asked for.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.tools.contract import Call, Output, Place
from buddy.tools.globs import Glob
from buddy.tools.names import NamesPath, quote
from buddy.tools.reading import find_readable, read_intent
from buddy.tools.searching import Program, Programs, SearchOutput, SearchScope, may_be_outside, scope_of, search
from buddy.tools.texts import text_of

MAX_LINE = 400

# For a grep without -I and -Z, such as BusyBox: first list the files with a match, then search the text files one by
# one. $1 is the pattern, $2 the flags of grep, the rest are arguments of find.
_ONE_BY_ONE = """\
pattern=$1 flags=$2; shift 2
find . "$@" -exec grep -lsE $flags -e "$pattern" {} + | while IFS= read -r f; do
  [ "$(head -c 8000 "$f" | wc -c)" -eq "$(head -c 8000 "$f" | tr -d '\\000' | wc -c)" ] || continue
  grep -nE $flags -e "$pattern" -- "$f" | while IFS= read -r line; do printf '%s\\0%s\\n' "$f" "$line"; done
done"""

# A path may contain line breaks, but it starts with `./`, unlike what separates matches. Anything else is skipped.
_LINE = re.compile(r"\./(?P<path>[^\0]*)\0(?P<number>\d+)(?P<kind>[:-])(?P<text>[^\n]*)(?:\n|\Z)|[^\n]*\n|[^\n]+\Z")


class GrepArgs(NamesPath, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(description="Regular expression, matched line by line.", min_length=1)]
    path: Annotated[str, Meta(description="File or directory to search (default: the workspace).", min_length=1)] = "."
    glob: Annotated[str | None, Meta(description="Search only matching files, such as '*.py' or 'src/**/*.ts'.")] = None
    ignore_case: Annotated[bool, Meta(description="Ignore case.")] = False
    context: Annotated[int, Meta(description="Lines of context around each match.", ge=0, le=20)] = 0
    limit: Annotated[int, Meta(description="Maximum number of matching lines.", ge=1, le=1000)] = 100


class GrepLine(Struct, frozen=True):
    path: str
    number: int
    is_match: bool
    text: str


class Grep:
    name: str = "grep"
    tier: Tier = "read-only"
    source: Source = "sandbox"
    args: type[Struct] = GrepArgs
    timeout: float | None = 60.0

    def __init__(self, programs: Programs) -> None:
        self.description: str = text_of("grep")
        self._programs = programs

    async def intent(self, args: GrepArgs, place: Place) -> Other:
        found = await find_readable(args.path, place, searches=True)
        shown: dict[str, object] = {"pattern": args.pattern, "glob": args.glob}
        return read_intent("search files", found, place, shown, f"{args.pattern} in {found.path}")

    async def run(self, args: GrepArgs, call: Call) -> Output:
        if re.search(r"[\0\n\r]", args.pattern):
            raise ToolError("the pattern contains a line break, but lines are matched one by one; leave it out")
        glob = Glob(args.glob) if args.glob else None
        scope = await scope_of(args.path, call)
        program = await self._programs.of(call)
        found = await search(_words(program, args, scope), scope, call)

        @cache
        def is_wanted(path: str) -> bool:
            canonical = f"{scope.directory}/{path}"
            if call.place.is_closed(canonical) or (not call.outside and may_be_outside(canonical, call.place)):
                return False
            return glob is None or glob.matches(path)

        lines = (line for line in _lines(found) if is_wanted(line.path))
        return Output(_format(list(_up_to(lines, args.limit)), args, scope, cut=found.cut))


def _words(program: Program, args: GrepArgs, scope: SearchScope) -> list[str]:
    around = [f"-C{args.context}"] if args.context else []
    case = ["-i"] if args.ignore_case else []
    if program == "rg":
        # No configuration file: it can name a program to run on every file.
        words = ["rg", "--no-config", "--no-heading", "--with-filename", "--line-number", "--null", "--color=never"]
        words += ["--hidden", "--no-follow", "--sort=path", "--no-messages", "--glob=!.git", *around, *case]
        if scope.file is not None:
            words += ["--max-depth=1", f"--glob=/{_escape(scope.file)}", "--no-ignore"]
        elif args.glob:
            words += [f"--glob={args.glob}"]
        return [*words, "-e", args.pattern, "--", "."]
    names = [args.glob] if args.glob and not re.search(r"[/{]", args.glob) else []
    kind, pattern = ("-P", args.pattern) if program == "pcre" else ("-E", args.pattern.replace(r"\d", "[0-9]"))
    if program == "plain":
        files = ["-maxdepth", "1"] if scope.file is not None else ["-name", ".git", "-prune", "-o"]
        named = [_escape(scope.file)] if scope.file is not None else names
        # A name with a line break would be read as two, and the second could lead anywhere.
        files += ["-type", "f", *(word for name in named for word in ("-name", name)), "!", "-path", "*\n*"]
        return ["sh", "-c", _ONE_BY_ONE, "grep", pattern, " ".join([*around, *case]), *files]
    words = ["grep", kind, "-nHIZs", *around, *case, "-e", pattern]
    if scope.file is not None:
        name = _escape(scope.file)
        return ["find", ".", "-maxdepth", "1", "-type", "f", "-name", name, "-exec", *words, "{}", "+"]
    return [*words, "-r", "--exclude-dir=.git", *(f"--include={name}" for name in names), "--", "."]


def _lines(found: SearchOutput) -> Iterator[GrepLine]:
    at = 0
    while (parts := _LINE.match(found.output, at)) is not None:
        at = parts.end()
        if parts["path"] is not None:
            text = parts["text"].removesuffix("\r").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            yield GrepLine(parts["path"], int(parts["number"]), parts["kind"] == ":", text)


def _up_to(lines: Iterator[GrepLine], limit: int) -> Iterator[GrepLine]:
    """The lines up to and including the first match beyond the limit."""
    matches = 0
    for line in lines:
        matches += line.is_match
        yield line
        if matches > limit:
            return


def _format(lines: list[GrepLine], args: GrepArgs, scope: SearchScope, *, cut: bool) -> str:
    matches = sum(line.is_match for line in lines)
    if matches == 0:
        return f"no line matches {args.pattern!r} in {args.path}"
    more = matches > args.limit or cut
    shown = lines[:-1] if matches > args.limit else lines
    text = "\n".join(_format_lines(shown, scope, args.context))
    return f"{text}\n[more matches; narrow the pattern, the path or the glob]" if more else text


def _format_lines(lines: list[GrepLine], scope: SearchScope, context: int) -> Iterator[str]:
    before: GrepLine | None = None
    for line in lines:
        if context and before is not None and (before.path, before.number + 1) != (line.path, line.number):
            yield "--"
        before = line
        mark = ":" if line.is_match else "-"
        text = line.text if len(line.text) <= MAX_LINE else f"{line.text[:MAX_LINE]} […]"
        yield f"{quote(scope.prefix + line.path)}{mark}{line.number}{mark}{text}"


def _escape(name: str) -> str:
    return re.sub(r"([*?\[\]{}\\!])", r"\\\1", name)

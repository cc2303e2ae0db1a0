"""Lists a directory.

Invariants: it has no effect, follows no links, and its result is bounded.
"""

from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.targets.contract import Entry
from buddy.tools.contract import Call, Output, Place
from buddy.tools.names import NamesPath, quote
from buddy.tools.reading import find_readable, list_approved, read_intent
from buddy.tools.texts import text_of


class ListFilesArgs(NamesPath, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Directory to list (default: the workspace).", min_length=1)] = "."
    depth: Annotated[int, Meta(description="Number of levels to list.", ge=1, le=10)] = 1
    limit: Annotated[int, Meta(description="Maximum number of entries.", ge=1, le=2000)] = 500


class ListFiles:
    name: str = "list_files"
    tier: Tier = "read-only"
    source: Source = "sandbox"
    args: type[Struct] = ListFilesArgs
    timeout: float | None = 60.0

    def __init__(self) -> None:
        self.description: str = text_of("list_files")

    async def intent(self, args: ListFilesArgs, place: Place) -> Other:
        found = await find_readable(args.path, place)
        return read_intent("list a directory", found, place, {"depth": args.depth, "limit": args.limit})

    async def run(self, args: ListFilesArgs, call: Call) -> Output:
        lines: list[str] = []
        async for name, entry in _walk(args.path, "", args.depth, call):
            if len(lines) == args.limit:
                lines.append("[more entries; list a subdirectory, or give a larger limit]")
                break
            lines.append(quote(f"{name}/") if entry.is_dir else f"{quote(name)} ({entry.size} bytes)")
        return Output("\n".join(lines) or f"{args.path} is empty")


async def _walk(path: str, prefix: str, depth: int, call: Call) -> AsyncIterator[tuple[str, Entry]]:
    """Every entry with its name relative to the start of the listing, directories before their content."""
    target, root = call.place.target, call.place.root
    for entry in await (list_approved(call, prefix) if call.outside else target.list_dir(path, root=root)):
        name = prefix + entry.name
        yield name, entry
        # The content of .git is rarely wanted and always large.
        if entry.is_dir and depth > 1 and entry.name != ".git":
            try:
                async for below in _walk(f"{path}/{entry.name}", f"{name}/", depth - 1, call):
                    yield below
            except ToolError:
                continue  # removed or closed since its name was read: only the name is listed

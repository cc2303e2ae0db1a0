"""Writes a complete file."""

from typing import Annotated

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Write
from buddy.steps import encode_text, take_turns
from buddy.tools.contract import Call, Output, Place
from buddy.tools.current_file import CurrentFile, read_current, write_current
from buddy.tools.names import NamesPath
from buddy.tools.texts import text_of
from buddy.tools.writing import MAX_PRESENT, check_write, note_seen, target_of, write_intent


class WriteFileArgs(NamesPath, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Path of the file, relative to the workspace.", min_length=1)]
    content: Annotated[str, Meta(description="The complete new content.")]


class WriteFile:
    name: str = "write_file"
    tier: Tier = "side-effecting"
    source: Source = "sandbox"
    args: type[Struct] = WriteFileArgs
    timeout: float | None = 60.0

    def __init__(self) -> None:
        self.description: str = text_of("write_file")

    async def intent(self, args: WriteFileArgs, place: Place) -> Write:
        current, content = await _change(args, place)
        return await write_intent(current.path, current.saved, content, place)

    async def run(self, args: WriteFileArgs, call: Call) -> Output:
        place = call.place
        current, content = await _change(args, place)
        target = await target_of(call, current.path)
        note = await write_current(args.path, current, content, target, place)
        await note_seen(current.path, content, place)
        return Output(f"wrote {len(content)} bytes to {args.path}{note}")


async def _change(args: WriteFileArgs, place: Place) -> tuple[CurrentFile, bytes]:
    """What is there, and what would be."""
    current = await read_current(args.path, place, MAX_PRESENT)
    content = await take_turns(encode_text(args.content))
    if current.unsaved is not None and current.path not in place.seen:
        raise ToolError(
            f"{args.path} has changes in the user's editor that are not saved, so it was not written: read it first",
            code="STALE_FILE",
        )
    await check_write(current.path, current.content, content, place)
    return current, content

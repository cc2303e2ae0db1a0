"""Writes a complete file."""

from typing import Annotated

from msgspec import Meta, Struct

from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Write
from buddy.steps import encode_text, take_turns
from buddy.tools.contract import Call, Output, Place
from buddy.tools.current_file import read_if_exists
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
        path = await place.target.locate(args.path, root=place.root)
        before = await read_if_exists(args.path, place, MAX_PRESENT)
        content = await take_turns(encode_text(args.content))
        await check_write(path, before, content, place)
        return await write_intent(path, before, content, place)

    async def run(self, args: WriteFileArgs, call: Call) -> Output:
        place = call.place
        path = await place.target.locate(args.path, root=place.root)
        content = await take_turns(encode_text(args.content))
        await check_write(path, await read_if_exists(args.path, place, MAX_PRESENT), content, place)
        target = await target_of(call, path)
        await target.write_file(args.path, content, root=place.root)
        await note_seen(path, content, place)
        return Output(f"wrote {len(content)} bytes to {args.path}")

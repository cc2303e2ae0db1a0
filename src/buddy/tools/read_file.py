"""Reads a part of a text file, or an image.

Invariants: it has no effect, its result is bounded, and a cut result says how to get the rest.
"""

import posixpath
from typing import Annotated

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.images import MAX_BYTES as MAX_IMAGE
from buddy.images import NotAnImage, media_type_of, read_facts
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.tools.contract import Call, Output, Place, ToolImage
from buddy.tools.current_file import UNSAVED, unsaved_of
from buddy.tools.names import NamesPath
from buddy.tools.reading import find_readable, read_approved, read_intent
from buddy.tools.texts import text_of
from buddy.tools.writing import note_seen

MAX_LINES = 2000
MAX_BYTES = 256 * 1024
# Lines are counted from the start, so this much is read to find them.
MAX_FILE = 10 * 1024 * 1024
BLOCK = 64 * 1024


class ReadFileArgs(NamesPath, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Path of the file, relative to the workspace.", min_length=1)]
    offset: Annotated[int, Meta(description="First line to read, starting at 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description="Maximum number of lines.", ge=1)] = MAX_LINES


class ReadFile:
    name: str = "read_file"
    tier: Tier = "read-only"
    source: Source = "sandbox"
    args: type[Struct] = ReadFileArgs
    timeout: float | None = 30.0

    def __init__(self) -> None:
        self.description: str = text_of("read_file")

    async def intent(self, args: ReadFileArgs, place: Place) -> Other:
        found = await find_readable(args.path, place)
        return read_intent("read a file", found, place, {"offset": args.offset, "limit": args.limit})

    async def run(self, args: ReadFileArgs, call: Call) -> Output:
        place = call.place
        if call.outside:
            content = await read_approved(call, MAX_FILE)
            if media_type_of(content):
                return _show_image(await read_approved(call, MAX_IMAGE + 1), args.path)
            return _show(content, args, len(content))
        content = await place.target.read_file(args.path, root=place.root, limit=MAX_FILE)
        if media_type_of(content):
            if len(content) >= MAX_FILE:
                content = await place.target.read_file(args.path, root=place.root, limit=MAX_IMAGE + 1)
            return _show_image(content, args.path)
        size = len(content)
        if size >= MAX_FILE and (info := await place.target.stat(args.path, root=place.root)):
            size = max(info.size, size)
        path = call.path or await place.target.locate(args.path, root=place.root)
        unsaved = await unsaved_of(path, content, place)
        if unsaved is not None:
            await note_seen(path, unsaved, place)
            shown = _show(unsaved, args, len(unsaved))
            return Output(f"{shown.text}\n{UNSAVED}")
        await note_seen(path, content, place)
        return _show(content, args, size)


def _show_image(content: bytes, path: str) -> Output:
    name = posixpath.basename(path)
    try:
        facts = read_facts(content)
    except NotAnImage as error:
        return Output(f"{path} {error}; its content is not shown")
    kind = facts.media_type.removeprefix("image/").upper()
    about = f"{path}: {kind} image, {facts.width}x{facts.height} pixels, {facts.size} bytes"
    return Output(about, images=(ToolImage(content, name),))


def _show(content: bytes, args: ReadFileArgs, size: int) -> Output:
    if b"\0" in content[:8192]:
        return Output(f"{args.path} is a binary file of {size} bytes; its content is not shown")
    if not content:
        return Output(f"{args.path} is empty")
    is_complete = len(content) >= size and len(content) < MAX_FILE
    return Output(_part(content, args, is_complete=is_complete))


def _part(content: bytes, args: ReadFileArgs, *, is_complete: bool) -> str:
    count = content.count(b"\n") + (not content.endswith(b"\n"))
    total = f"{count}" if is_complete else f"more than {count}"
    if args.offset > count:
        reason = f"{args.path} has {total} lines, so there is none at offset {args.offset}"
        advice = "give a smaller one" if is_complete else "use run_shell to read further, for example with sed -n"
        raise ToolError(f"{reason}; {advice}")
    start = _line_start(content, args.offset - 1)
    most = min(args.limit, count - args.offset + 1, MAX_BYTES)
    # One byte more than may be shown: a line that is cut here does not fit.
    shown, is_cut = _fit(content[start : start + MAX_BYTES + 1].split(b"\n", most)[:most])
    text = b"\n".join(shown).decode("utf-8", "replace")
    last = args.offset + len(shown) - 1
    if is_cut:
        return (
            f"{text}\n[line {last} is cut: it has {_line_size(content, start)} bytes; read on with offset={last + 1}]"
        )
    if last == count and is_complete:
        return text
    return f"{text}\n[lines {args.offset} to {last} of {total}; read on with offset={last + 1}]"


def _line_start(content: bytes, number: int) -> int:
    """Where a line starts, counted from 0. Blocks are counted first: a list of all lines would take far more memory."""
    start = 0
    while number and (there := content.count(b"\n", start, start + BLOCK)) < number:
        number -= there
        start += BLOCK
    for _ in range(number):
        start = content.find(b"\n", start) + 1
    return start


def _line_size(content: bytes, start: int) -> int:
    end = content.find(b"\n", start)
    return (end if end >= 0 else len(content)) - start


def _fit(lines: list[bytes]) -> tuple[list[bytes], bool]:
    """As many of the lines as may be shown; a first line that is too long by itself is cut."""
    shown: list[bytes] = []
    left = MAX_BYTES
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            break
        shown.append(line)
    return (shown, False) if shown else ([lines[0][:MAX_BYTES]], True)

"""Replacing one text in a file by another.

Invariants: the text to replace occurs exactly as given, and once unless all occurrences were asked for; everything else
in the file stays byte for byte.
"""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Write
from buddy.steps import encode_text, take_turns
from buddy.tools.contract import Call, Output, Place
from buddy.tools.current_file import CurrentFile, read_current, write_current
from buddy.tools.names import NamesPath
from buddy.tools.nearest import nearest
from buddy.tools.replacing import Replaced, TooLong, replace_in
from buddy.tools.texts import text_of
from buddy.tools.writing import MAX_PRESENT, check_write, note_seen, target_of, write_intent

MAX_PLACES = 10
MAX_RESULT = 2 * MAX_PRESENT
"""Bytes of the changed file: a short text can be replaced by a long one in a million places."""


class EditFileArgs(NamesPath, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Path of the file, relative to the workspace.", min_length=1)]
    old: Annotated[str, Meta(description="Text to replace, exactly as in the file.")]
    new: Annotated[str, Meta(description="Replacement text.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class EditFile:
    name: str = "edit_file"
    tier: Tier = "side-effecting"
    source: Source = "sandbox"
    args: type[Struct] = EditFileArgs
    timeout: float | None = 60.0

    def __init__(self) -> None:
        self.description: str = text_of("edit_file")

    async def intent(self, args: EditFileArgs, place: Place) -> Write:
        current, changed = await _change(args, place)
        return await write_intent(current.path, current.saved, changed.content, place)

    async def run(self, args: EditFileArgs, call: Call) -> Output:
        place = call.place
        current, changed = await _change(args, place)
        target = await target_of(call, current.path)
        note = await write_current(args.path, current, changed.content, target, place)
        await note_seen(current.path, changed.content, place)
        places = "one place" if changed.places == 1 else f"{changed.places} places"
        return Output(f"changed {args.path} in {places}; it has {len(changed.content)} bytes now{note}")


async def _change(args: EditFileArgs, place: Place) -> tuple[CurrentFile, Replaced]:
    """What is there, and what would be."""
    if not args.old:
        raise _refusal("`old` is empty, which is everywhere; give the text to replace, or use write_file")
    if args.old == args.new:
        raise _refusal("`old` and `new` are the same, so there is nothing to change")
    current = await read_current(args.path, place, MAX_PRESENT, must_exist=True)
    before = current.content or b""
    if len(before) >= MAX_PRESENT:
        raise _refusal(f"{args.path} is larger than {MAX_PRESENT} bytes; change it with run_shell")
    old, new = await take_turns(encode_text(args.old)), await take_turns(encode_text(args.new))
    try:
        changed = await take_turns(replace_in(before, old, new, MAX_RESULT))
    except TooLong as error:
        raise _refusal(f"{args.path} would be larger than {MAX_RESULT} bytes; change it with run_shell") from error
    if not changed.places:
        shown = b"" if place.is_closed(current.path) else before
        raise ToolError(await asyncio.to_thread(_not_found, args, shown), code="EDIT_CONTENT_NOT_FOUND")
    _check_once(args, before, old, changed.places)
    await check_write(current.path, before, changed.content, place)
    return current, changed


def _check_once(args: EditFileArgs, before: bytes, old: bytes, count: int) -> None:
    if count > 1 and not args.replace_all:
        where = ", ".join(map(str, _lines(before, old, MAX_PLACES))) + (", …" if count > MAX_PLACES else "")
        raise _refusal(
            f"`old` is in {args.path} {count} times, at lines {where}; give more of the lines around the one you mean, "
            "or set replace_all"
        )


def _not_found(args: EditFileArgs, before: bytes) -> str:
    message = f"`old` is not in {args.path} as it was given; nothing was changed"
    if b"\r\n" in before and args.old.replace("\n", "\r\n").encode() in before:
        return f"{message}. The file's lines end in \\r\\n: write `old` and `new` with \\r\\n too"
    shown = nearest(before.decode("utf-8", "replace"), args.old)
    return f"{message}. The nearest is:\n{shown}" if shown else f"{message}; read the file to see what is there"


def _lines(content: bytes, old: bytes, most: int) -> list[int]:
    """The lines at which the first occurrences start."""
    found: list[int] = []
    at = content.find(old)
    line = 1 + content.count(b"\n", 0, max(at, 0))
    while at >= 0 and len(found) < most:
        found.append(line)
        after = content.find(old, at + len(old))
        line += content.count(b"\n", at, max(after, at))
        at = after
    return found


def _refusal(message: str) -> ToolError:
    return ToolError(message, code="EDIT_GUARD_BLOCKED")

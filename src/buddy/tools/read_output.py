"""Reads more of an output that was too long to be shown in full.

Invariants: the output was stored by a tool result of the same session, and redacted before that; a part is never cut
inside a character, and is small enough to be shown in full itself.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.tools.contract import Call, Output, Place
from buddy.tools.texts import text_of

# Below what the model sees of one result, with room for the line that says where to continue.
MAX_PART = 15 * 1024

ReadBlob = Callable[[str, int, int | None], Awaitable[tuple[bytes, int] | None]]


class ReadOutputArgs(Struct, frozen=True, forbid_unknown_fields=True):
    output: Annotated[
        str, Meta(description="Id of the output, from the shortened result.", pattern="^[0-9a-f]+$", max_length=64)
    ]
    offset: Annotated[int, Meta(description="First byte to read, starting at 0.", ge=0)] = 0
    limit: Annotated[int, Meta(description="Maximum number of bytes.", ge=16, le=MAX_PART)] = MAX_PART


class ReadOutput:
    name: str = "read_output"
    tier: Tier = "read-only"
    source: Source = "unknown"
    args: type[Struct] = ReadOutputArgs
    timeout: float | None = 30.0

    def __init__(self, read_blob: ReadBlob) -> None:
        self.description: str = text_of("read_output")
        self._read_blob = read_blob

    async def intent(self, args: ReadOutputArgs, place: Place) -> Other:  # noqa: ARG002 - outputs are stored with the log
        shown = {"output": args.output, "offset": args.offset}
        return Other(title="read a stored output", summary=args.output, shown=shown)

    async def run(self, args: ReadOutputArgs, call: Call) -> Output:
        # Outputs of all sessions are stored together, so an id alone must not be enough.
        known = args.output in call.place.outputs or await call.place.had_output(args.output)
        found = await self._read_blob(args.output, args.offset, args.limit) if known else None
        if found is None:
            raise ToolError("no such output; use the id that a shortened result named", code="FILE_NOT_FOUND")
        part, size = found
        if args.offset >= size > 0:
            raise ToolError(f"the output has {size} bytes, so there is none at offset {args.offset}")
        first, part = _complete_characters(part, args.offset)
        last = first + len(part)
        text = part.decode("utf-8", "replace")
        more = f"\n[bytes {first} to {last} of {size}; read on with offset={last}]" if last < size else ""
        return Output(text + more)


def _complete_characters(part: bytes, offset: int) -> tuple[int, bytes]:
    """The part without incomplete characters at either end, and where it starts then."""
    start = 0
    while offset and start < min(3, len(part)) and part[start] & 0xC0 == 0x80:
        start += 1
    for tail in range(1, min(4, len(part) - start) + 1):
        byte = part[-tail]
        if byte & 0xC0 == 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return offset + start, part[start : len(part) - (tail if length > tail else 0)]
        if byte < 0x80:
            break
    return offset + start, part[start:]

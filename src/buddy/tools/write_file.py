"""Writing a whole file.

What always holds: the approval shows what changes and is bound to both contents; our own redaction markers are never
written over what they stand for.
"""

import hashlib
import re
from typing import Annotated

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.tools import glance
from buddy.tools.changes import diff
from buddy.tools.contract import Call, Intent, Output, Place
from buddy.tools.texts import text_of

MAX_PRESENT = 10 * 1024 * 1024
# Writing here can make something run later, or change what Buddy itself may do.
PROTECTED_DIRECTORIES = frozenset({".git", ".vscode", ".husky"})
PROTECTED_NAMES = frozenset({"buddy.toml", "agent.toml", ".env", ".envrc", ".mcp.json", "opencode.json"})

_MARKER = re.compile(r"\[REDACTED(?:\]|:[^\]\n]{0,200}\]?)")


class WriteFileArgs(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file, relative to the workspace; directories are made.", min_length=1)]
    content: Annotated[str, Meta(description="The whole new content.")]


class WriteFile:
    name: str = "write_file"
    tier: Tier = "side-effecting"
    source: Source = "sandbox"
    args: type[Struct] = WriteFileArgs
    timeout: float | None = 60.0

    def __init__(self) -> None:
        self.description: str = text_of("write_file")

    async def intent(self, args: WriteFileArgs, place: Place) -> Intent:
        path = await place.target.locate(args.path, root=place.root)
        before = await glance.present(args.path, place, MAX_PRESENT)
        content = args.content.encode()
        _check_markers(args, before)
        protected = is_protected(path)
        details = {
            "path": path,
            "target": place.target.name,
            "exists": before is not None,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "replaces": None if before is None else hashlib.sha256(before).hexdigest(),
            "diff": diff(path, before, content),
            "protected": protected,
        }
        title = "write a protected file, which can make programs run" if protected else "write a file"
        return Intent("write", title, f"{path} ({len(content)} bytes)", details)

    async def run(self, args: WriteFileArgs, call: Call) -> Output:
        place = call.place
        if _MARKER.search(args.content):
            _check_markers(args, await _present(args.path, place))
        content = args.content.encode()
        await place.target.write_file(args.path, content, root=place.root)
        return Output(f"wrote {len(content)} bytes to {args.path}")


def is_protected(path: str) -> bool:
    """Whether a canonical path configures or runs something; letter case does not matter, as on some disks."""
    names = path.casefold().split("/")
    return names[-1] in PROTECTED_NAMES or not PROTECTED_DIRECTORIES.isdisjoint(names)


def _check_markers(args: WriteFileArgs, before: bytes | None) -> None:
    there = set(_MARKER.findall((before or b"").decode("utf-8", "replace")))
    for marker in _MARKER.findall(args.content):
        if marker not in there:
            raise ToolError(
                f"the content has {marker!r} in it, which stands for a secret you cannot see; writing it would destroy "
                "that secret. Leave those lines as they are: change only other lines, for example with run_shell",
                code="WRITE_FAILED",
            )


async def _present(path: str, place: Place) -> bytes | None:
    try:
        return await place.target.read_file(path, root=place.root, limit=MAX_PRESENT)
    except ToolError as error:
        if error.code == "FILE_NOT_FOUND":
            return None
        raise

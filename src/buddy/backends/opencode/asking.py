"""OpenCode's permission requests as ours: what kind of thing it wants to do, and exactly what."""

import posixpath
from collections.abc import Awaitable, Callable
from typing import Any

from buddy.backends.external import loose
from buddy.backends.external.contract import Answer, Permission, in_place
from buddy.backends.opencode.story import Call
from buddy.backends.opencode.wire import Json

Reply = Callable[[Answer], Awaitable[None]]


def permission_of(asked: Json, call: Call, directory: str, reply: Reply) -> Permission:
    """The request, with what its call was given: that is what will run."""
    metadata, wanted = loose.mapping(asked.get("metadata")), loose.text(asked.get("permission"))
    patterns = [loose.text(pattern) for pattern in loose.items(asked.get("patterns"))]
    details: dict[str, Any] = {"permission": wanted, "patterns": patterns, "metadata": metadata}
    given = {**metadata, **call.args}
    if call.name == "bash":
        command = loose.text(given.get("command")) or "\n".join(patterns)
        command = in_place(command, loose.text(given.get("workdir")), directory)
        return Permission(call.call_id, call.name, "exec", reply, call.args, details, command=command)
    if wanted == "edit":
        details["diff"] = loose.text(metadata.get("diff"))
        if paths := _paths(metadata, call.args, patterns, directory):
            return Permission(
                call.call_id, call.name, "write", reply, call.args, details, path=paths[0], more_paths=paths[1:]
            )
    if wanted == "webfetch" and (url := loose.text(given.get("url"))):
        return Permission(call.call_id, call.name, "fetch", reply, call.args, details, url=url)
    return Permission(call.call_id, call.name, "tool", reply, call.args, details)


def _paths(metadata: Json, args: Json, patterns: list[str], directory: str) -> tuple[str, ...]:
    """Every file of a change: a patch lists them; the patterns say the same, but from the root of the repository."""
    files = loose.mappings(metadata.get("files"))
    named = [loose.text(file.get(key)) for file in files for key in ("filePath", "movePath")]
    named = [path for path in named if path] or [loose.text(args.get("filePath"))]
    found = [path for path in named if path] or patterns
    return tuple(dict.fromkeys(posixpath.join(directory, path) for path in found if path))

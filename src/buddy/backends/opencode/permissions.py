"""Maps OpenCode's permission requests to ours."""

import posixpath
from collections.abc import Awaitable, Callable
from typing import Any

from buddy.backends.external import lenient
from buddy.backends.external.contract import Permission, PermissionAnswer, command_in
from buddy.backends.opencode.event_mapper import OpenCodeCall
from buddy.backends.opencode.wire import Json

Reply = Callable[[PermissionAnswer], Awaitable[None]]


def permission_of(asked: Json, call: OpenCodeCall, directory: str, reply: Reply) -> Permission:
    """The request with the arguments of its call, which is what will run."""
    metadata, permission = lenient.mapping(asked.get("metadata")), lenient.text(asked.get("permission"))
    patterns = [lenient.text(pattern) for pattern in lenient.items(asked.get("patterns"))]
    details: dict[str, Any] = {"permission": permission, "patterns": patterns, "metadata": metadata}
    values = {**metadata, **call.args}
    if call.name == "bash":
        command = lenient.text(values.get("command")) or "\n".join(patterns)
        command = command_in(command, lenient.text(values.get("workdir")), directory)
        return Permission(call.call_id, call.name, "exec", reply, call.args, details, command=command)
    if permission == "edit":
        details["diff"] = lenient.text(metadata.get("diff"))
        if paths := _paths(metadata, call.args, patterns, directory):
            return Permission(
                call.call_id, call.name, "write", reply, call.args, details, path=paths[0], more_paths=paths[1:]
            )
    if permission == "webfetch" and (url := lenient.text(values.get("url"))):
        return Permission(call.call_id, call.name, "fetch", reply, call.args, details, url=url)
    return Permission(call.call_id, call.name, "tool", reply, call.args, details)


def _paths(metadata: Json, args: Json, patterns: list[str], directory: str) -> tuple[str, ...]:
    """Every file of a change: a patch lists them; the patterns do too, but relative to the repository's root."""
    files = lenient.mappings(metadata.get("files"))
    named = [lenient.text(file.get(key)) for file in files for key in ("filePath", "movePath")]
    named = [path for path in named if path] or [lenient.text(args.get("filePath"))]
    found = [path for path in named if path] or patterns
    return tuple(dict.fromkeys(posixpath.join(directory, path) for path in found if path))

"""OpenCode's permission requests as ours: what kind of thing it wants to do, and exactly what."""

import shlex
from collections.abc import Awaitable, Callable
from typing import Any

from buddy.backends.external import loose
from buddy.backends.external.contract import Answer, Permission
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
        command = _in_place(loose.text(given.get("command")) or "\n".join(patterns), given, directory)
        return Permission(call.call_id, call.name, "exec", reply, call.args, details, command=command)
    if wanted == "edit":
        details["diff"] = loose.text(metadata.get("diff"))
        path = loose.text(call.args.get("filePath")) or (patterns[0] if len(patterns) == 1 else "")
        if path:  # of several files at once none is what a rule could be about
            return Permission(call.call_id, call.name, "write", reply, call.args, details, path=path)
    if wanted == "webfetch" and (url := loose.text(given.get("url"))):
        return Permission(call.call_id, call.name, "fetch", reply, call.args, details, url=url)
    return Permission(call.call_id, call.name, "tool", reply, call.args, details)


def _in_place(command: str, given: Json, directory: str) -> str:
    """The command as it runs from the workspace."""
    where = loose.text(given.get("workdir"))
    return command if where in ("", directory) else f"cd {shlex.quote(where)} && {command}"

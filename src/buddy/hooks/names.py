"""Tool names and inputs as scripts written for other agents expect them.

Invariants: what a script is shown is what would run, paths in their canonical form; input that it did not touch comes
back as it was.
"""

from collections.abc import Mapping
from posixpath import join
from typing import Any

import msgspec
from msgspec import Struct

from buddy.backends.hooks import HookCall
from buddy.protocol.intents import Exec, Fetch, Intent, Keys, Other, Write

# Our tool → the name that scripts know, and their names of its arguments.
_THEIRS: dict[str, tuple[str, dict[str, str]]] = {
    "run_shell": ("Bash", {}),
    "send-keys": ("Bash", {}),
    "edit_file": ("Edit", {"path": "file_path", "old": "old_string", "new": "new_string"}),
    "write_file": ("Write", {"path": "file_path"}),
    "read_file": ("Read", {"path": "file_path"}),
    "fetch_url": ("WebFetch", {}),
    "web_search": ("WebSearch", {}),
    "glob": ("Glob", {}),
    "grep": ("Grep", {}),
    "list_files": ("LS", {}),
    "todo": ("TodoWrite", {"items": "todos"}),
    "delegate": ("Task", {"task": "prompt", "agent": "subagent_type"}),
}
# Another agent's change of a file may be either, and its scripts may match on both.
_AGENT_WRITES = ("Write", "Edit")


class ShownCall(Struct, frozen=True):
    """A call as scripts see it; a matcher may name any of `names`."""

    names: tuple[str, ...]
    input: dict[str, Any]

    @property
    def name(self) -> str:
        return self.names[0] if self.names else ""


def show(call: HookCall, root: str) -> ShownCall:
    """The call under the names that scripts know."""
    if not call.tool:
        return ShownCall((call.matched,) if call.matched else (), {})
    theirs, renamed = _THEIRS.get(call.tool, (call.tool, {}))
    arguments = _decode(call.arguments)
    shown = {renamed.get(name, name): value for name, value in arguments.items()}
    if (path := shown.get("file_path")) and isinstance(path, str):
        shown["file_path"] = join(root, path)
    if call.intent is not None:
        shown |= _facts(call.intent)
    is_agent = call.intent is not None and call.intent.agent is not None
    more = _AGENT_WRITES if is_agent and call.tool == "write_file" else ()
    own = (call.intent.agent.name,) if call.intent is not None and call.intent.agent is not None else ()
    return ShownCall(tuple(dict.fromkeys((theirs, *more, call.tool, *own))), shown)


def take_back(call: HookCall, shown: ShownCall, updated: Mapping[str, Any]) -> dict[str, Any]:
    """Our arguments with what a script changed in its own; what it did not name stays."""
    _, renamed = _THEIRS.get(call.tool, (call.tool, {}))
    ours = {theirs: name for name, theirs in renamed.items()}
    changed = {name: value for name, value in updated.items() if name not in shown.input or shown.input[name] != value}
    return {**_decode(call.arguments), **{ours.get(name, name): value for name, value in changed.items()}}


def _facts(intent: Intent) -> dict[str, Any]:
    """What the call is about, as it was worked out: links and quotes do not hide a path from a script."""
    match intent:
        case Exec():
            return {"command": intent.command}
        case Write():
            return {"file_path": intent.path}
        case Fetch():
            return {"url": intent.url} if intent.url else {}
        case Other():
            return {"file_path": intent.path} if intent.path else {}
        case Keys():
            return {"command": intent.typed.text}  # a shell in the pane runs it, with what was typed before


def _decode(arguments: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return {"raw": arguments}

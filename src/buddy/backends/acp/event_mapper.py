"""Maps ACP updates to our events.

Invariants: nothing here trusts the shape of incoming data; a field of another type counts as missing. Approval
requests are built from the call's own input, never from its title, which is only for display. The words of a
permission request are not the call's output.
"""

import difflib
import posixpath
import shlex
from typing import Any

import msgspec
from msgspec import Struct

from buddy.backends.external.contract import (
    AgentEvent,
    Delta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UsageReport,
    command_in,
)
from buddy.backends.external.lenient import count, items, mapping, mappings, text
from buddy.protocol.codes import ApprovalKind

KINDS: dict[str, ApprovalKind] = {
    "execute": "exec",
    "edit": "write",
    "delete": "write",
    "move": "write",
    "fetch": "fetch",
}
SHOWN_DIFF = 64 * 1024
# The argument names agents use for files and directories.
_FILES = (
    *("filePath", "file_path", "path", "absolute_path", "abs_path", "notebook_path", "target_file", "from", "to"),
    *("old_path", "new_path", "oldPath", "newPath", "source", "destination", "source_path", "destination_path"),
)
_VOLATILE = ("call_id", "turn_id", "process_id", "started_at_ms")
# Where they put the output of a command, the most complete first.
_RAW_TEXTS = ("formatted_output", "aggregated_output", "output", "stdout", "stderr")
_DIRECTORIES = ("cwd", "workdir", "working_directory", "workingDirectory", "directory", "dir_path")


class ToolCallState(Struct):
    """The accumulated fields of one call."""

    fields: dict[str, Any]
    announced: bool = False
    ended: bool = False
    shown: str = ""


class PermissionSubject(Struct, frozen=True):
    """The subject of a permission request."""

    name: str
    kind: ApprovalKind
    args: dict[str, Any]
    details: dict[str, Any]
    command: str = ""
    path: str = ""
    url: str = ""
    more_paths: tuple[str, ...] = ()


class AcpEventMapper:
    """The calls of one session, and the messages between them."""

    def __init__(self) -> None:
        self.directory = ""
        """The agent's working directory, to which its paths are relative."""
        self._calls: dict[str, ToolCallState] = {}
        self._part = 0
        self._cost = 0.0

    def read(self, update: dict[str, Any]) -> list[AgentEvent]:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                return self._text(update, thinking=False)
            case "agent_thought_chunk":
                return self._text(update, thinking=True)
            case "tool_call" | "tool_call_update":
                return self._call(update)
            case "usage_update":
                return self._usage(update)
            case _:
                return []  # plans, modes and commands are not used

    def permission_subject(self, call: dict[str, Any]) -> tuple[list[AgentEvent], PermissionSubject]:
        """The events to publish before a permission request, and its subject."""
        events = self._call(call)
        known = self._calls[text(call.get("toolCallId"))]
        events += self._announce(text(call.get("toolCallId")), known)
        subject = _subject(known.fields, self.directory)
        known.fields["content"] = [one for one in mappings(known.fields.get("content")) if one.get("type") == "diff"]
        return events, subject

    def _text(self, update: dict[str, Any], *, thinking: bool) -> list[AgentEvent]:
        piece = _content_text(update.get("content"))
        message_id = text(update.get("messageId")) or f"part-{self._part}"
        return [Delta(piece, message_id, thinking)] if piece else []

    def _call(self, update: dict[str, Any]) -> list[AgentEvent]:
        call_id = text(update.get("toolCallId"))
        known = self._calls.setdefault(call_id, ToolCallState({}))
        known.fields.update({name: value for name, value in update.items() if value is not None})
        known.fields.setdefault("firstTitle", update.get("title"))
        status, events = known.fields.get("status"), list[AgentEvent]()
        # While it is pending, its input may still be incomplete.
        if status in ("in_progress", "completed", "failed"):
            events += self._announce(call_id, known)
        if known.announced and not known.ended:
            events += self._progress(call_id, known)
        return events

    def _announce(self, call_id: str, known: ToolCallState) -> list[AgentEvent]:
        if known.announced:
            return []
        known.announced = True
        self._part += 1
        return [ToolStarted(call_id, _name(known.fields), _arguments(known.fields))]

    def _progress(self, call_id: str, known: ToolCallState) -> list[AgentEvent]:
        status, output = known.fields.get("status"), _output(known.fields)
        if status in ("completed", "failed"):
            known.ended = True
            return [ToolEnded(call_id, output, is_error=status == "failed")]
        fresh = output.removeprefix(known.shown) if output.startswith(known.shown) else ""
        known.shown = output or known.shown
        return [ToolProgress(call_id, fresh)] if fresh and status == "in_progress" else []

    def _usage(self, update: dict[str, Any]) -> list[AgentEvent]:
        cost = mapping(update.get("cost"))
        total = cost.get("amount") if cost.get("currency") == "USD" else None
        if not isinstance(total, int | float) or total <= self._cost:
            return []
        spent, self._cost = total - self._cost, total
        return [
            UsageReport(
                0,
                0,
                cost_usd=spent,
                context_used=count(update.get("used")),
                context_limit=count(update.get("size")) or None,
            )
        ]


def usage_of(reply: dict[str, Any]) -> list[AgentEvent]:
    """The token usage in the reply to a prompt."""
    usage = mapping(reply.get("usage"))
    if not usage:
        return []
    cached = count(usage.get("cachedReadTokens")) or None
    return [UsageReport(count(usage.get("inputTokens")), count(usage.get("outputTokens")), cached)]


def _subject(call: dict[str, Any], directory: str) -> PermissionSubject:
    args, name = _arguments(call), _name(call)
    details: dict[str, Any] = {"title": text(call.get("title"))}
    match KINDS.get(text(call.get("kind"))):
        case "exec" if command := _command(args):
            where = next((place for key in _DIRECTORIES if (place := text(args.get(key)))), "")
            return PermissionSubject(name, "exec", args, details, command=command_in(command, where, directory))
        case "write" if paths := _paths(call, args, directory):
            details["diff"] = _diffs(call)
            return PermissionSubject(name, "write", args, details, path=paths[0], more_paths=paths[1:])
        case "fetch" if url := text(args.get("url")):
            return PermissionSubject(name, "fetch", args, details, url=url)
        case _:
            details["content"] = _output(call)
            return PermissionSubject(name, "tool", args, details)


def _arguments(call: dict[str, Any]) -> dict[str, Any]:
    """What the model wrote; what an agent adds each time would make every call another one."""
    return {name: value for name, value in mapping(call.get("rawInput")).items() if name not in _VOLATILE}


def _name(call: dict[str, Any]) -> str:
    """The first title: later ones describe what it does, not which tool it is."""
    title = text(call.get("firstTitle"))
    return title if title.replace("_", "").replace("-", "").isalnum() else text(call.get("kind")) or "tool"


def _command(args: dict[str, Any]) -> str:
    command = args.get("command", args.get("cmd"))
    return text(command) or shlex.join(map(str, items(command)))


def _paths(call: dict[str, Any], args: dict[str, Any], directory: str) -> tuple[str, ...]:
    """Every file named anywhere in the call."""
    places = (*mappings(call.get("content")), *mappings(call.get("locations")))
    named = [text(place.get("path")) for place in places] + [text(args.get(key)) for key in _FILES]
    return tuple(dict.fromkeys(posixpath.join(directory, path) for path in named if path))


def _diffs(call: dict[str, Any]) -> str:
    parts = [
        "".join(
            difflib.unified_diff(
                text(block.get("oldText")).splitlines(keepends=True),
                text(block.get("newText")).splitlines(keepends=True),
                text(block.get("path")),
                text(block.get("path")),
            )
        )
        for block in mappings(call.get("content"))
        if block.get("type") == "diff"
    ]
    return "\n".join(parts)[:SHOWN_DIFF]


def _output(call: dict[str, Any]) -> str:
    """What it printed, as exactly as the agent reports it: some agents decorate `content` for display."""
    blocks, raw = mappings(call.get("content")), call.get("rawOutput")
    pieces = [_content_text(block.get("content")) for block in blocks if block.get("type") == "content"]
    said = _raw_text(raw) or "\n".join(piece for piece in pieces if piece) or _diffs(call)
    if said or raw is not None:
        return said or msgspec.json.encode(raw).decode()
    in_terminal = any(block.get("type") == "terminal" for block in blocks)
    return "[the output went to the agent's own terminal]" if in_terminal else ""


def _raw_text(raw: object) -> str:
    fields = mapping(raw)
    return text(raw) or next((found for key in _RAW_TEXTS if (found := text(fields.get(key)))), "")


def _content_text(content: object) -> str:
    return text(mapping(content).get("text"))

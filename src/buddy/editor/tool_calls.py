"""Tool calls as an editor shows them: title, kind, files, content, and output while they run.

Invariants: an update replaces the content of a call, so each carries all of it; the diff of an edit stays when its
result arrives; text of others is spelled out where it could deceive.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from buddy.characters import DECEPTIVE, spell
from buddy.editor.diffs import diff_content, fenced, first_line, text_content
from buddy.editor.json_rpc import Json, is_object
from buddy.protocol.events import ToolCall, ToolResult

MAX_TITLE = 1000
MAX_OUTPUT = 64 * 1024
TODO = "todo"

_KINDS = {
    **dict.fromkeys(("read_file", "read_output", "capture-pane"), "read"),
    **dict.fromkeys(("list_files", "glob", "grep"), "search"),
    **dict.fromkeys(("write_file", "edit_file"), "edit"),
    **dict.fromkeys(("run_shell", "send-keys"), "execute"),
    **dict.fromkeys(("fetch_url", "web_search"), "fetch"),
    "delegate": "think",
}
_TITLES = {
    "run_shell": "{command}",
    "read_file": "Read {path}",
    "list_files": "List {path}",
    "glob": "Find {pattern}",
    "grep": "Search for {pattern}",
    "write_file": "Write {path}",
    "edit_file": "Edit {path}",
    "fetch_url": "Fetch {url}",
    "web_search": "Search the web for {query}",
}


class CallView(Struct):
    """One call, as far as it is known."""

    call_id: str
    title: str
    kind: str
    raw_input: Mapping[str, Any]
    locations: list[Json]
    content: list[Json]
    """What stays: the diff of an edit, the question that was asked."""
    has_terminal: bool = False
    output: str = ""

    @property
    def terminal_id(self) -> str:
        return f"terminal-{self.call_id}"

    def shown(self) -> list[Json]:
        """Its complete content."""
        if self.has_terminal:
            return [{"type": "terminal", "terminalId": self.terminal_id}, *self.content]
        return [*self.content, *([text_content(fenced(clear(self.output.rstrip())))] if self.output else [])]

    def announce(self) -> Json:
        update: Json = {
            "sessionUpdate": "tool_call",
            **self.described(),
            "status": "pending",
        }
        if self.has_terminal:
            info = {"terminal_id": self.terminal_id, "cwd": str(self.raw_input.get("cwd") or "")}
            update["_meta"] = {"terminal_info": info}
        return update

    def described(self) -> Json:
        """Everything that says what the call is: also what a permission request repeats."""
        return {
            "toolCallId": self.call_id,
            "title": self.title,
            "kind": self.kind,
            "content": self.shown(),
            "locations": self.locations,
            "rawInput": dict(self.raw_input),
        }

    def update(self, **fields: Any) -> Json:
        return {"sessionUpdate": "tool_call_update", "toolCallId": self.call_id, **fields}

    def add_output(self, text: str) -> Json | None:
        """The update that appends it to a terminal; None if the content has to be sent as a whole."""
        if self.has_terminal:
            data = {"terminal_id": self.terminal_id, "data": text.replace("\r\n", "\n").replace("\n", "\r\n")}
            return self.update(_meta={"terminal_output": data})
        self.output = (self.output + text)[-MAX_OUTPUT:]
        return None

    def finish(self, result: ToolResult) -> Json:
        status = "failed" if result.is_error else "completed"
        raw: Json = {"text": result.text}
        if result.exit_code is not None:
            raw["exitCode"] = result.exit_code
        if self.has_terminal:
            exited = {"terminal_id": self.terminal_id, "exit_code": result.exit_code, "signal": None}
            note = [text_content(clear(result.text))] if result.exit_code is None else []
            content = [*self.shown(), *note]
            return self.update(status=status, content=content, rawOutput=raw, _meta={"terminal_exit": exited})
        if self.kind == "edit" and not result.is_error:
            return self.update(status=status, content=self.shown(), rawOutput=raw)
        self.output = result.text[:MAX_OUTPUT]
        return self.update(status=status, content=self.shown(), rawOutput=raw)


def view_of(call: ToolCall, call_id: str, root: str, *, has_terminals: bool) -> CallView:
    name, args = call.tool_name, call.args
    path = absolute(root, args.get("path"))
    content: list[Json] = []
    if name == "edit_file" and path:
        content = [_diff(path, args.get("old"), args.get("new"))]
    elif name == "write_file" and path:
        content = [_diff(path, None, args.get("content"))]
    return CallView(
        call_id=call_id,
        title=title_of(name, args),
        kind=_KINDS.get(name, "other"),
        raw_input=args,
        locations=[{"path": path}] if path else [],
        content=content,
        has_terminal=has_terminals and name == "run_shell",
    )


def title_of(name: str, args: Mapping[str, Any]) -> str:
    template = _TITLES.get(name)
    if template is None:
        return clear(name)
    filled = template.format_map(_Arguments(args))
    return cut(clear(filled), MAX_TITLE)


def show_change(view: CallView, path: str, diff: str) -> None:
    """Replace the diff by one with its surroundings."""
    view.content = diff_content(path, diff)
    line = first_line(diff)
    view.locations = [{"path": path, "line": line} if line else {"path": path}]


def absolute(root: str, path: object) -> str:
    """An absolute path, empty if none is named."""
    return os.path.normpath(os.path.join(root, path)) if isinstance(path, str) and path else ""  # noqa: PTH118 - a path of the target


def clear(text: str) -> str:
    """Characters that could deceive a reader are spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(f"[{DECEPTIVE}]", lambda found: spell(found[0]), text)


def cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def plan_of(args: Mapping[str, Any]) -> Json | None:
    """The plan of a to-do list that was written; None if it was only shown."""
    items = args.get("items")
    if not isinstance(items, list | tuple):
        return None
    found: list[object] = [*items]  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] - JSON
    entries: list[Json] = [
        {"content": str(item.get("text", "")), "priority": "medium", "status": item.get("status", "pending")}
        for item in found
        if is_object(item)
    ]
    return {"sessionUpdate": "plan", "entries": entries}


class _Arguments(dict[str, Any]):
    """The arguments of a call; one that is missing is shown as an ellipsis."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        super().__init__({name: value if isinstance(value, str) else str(value) for name, value in args.items()})

    def __missing__(self, key: str) -> str:
        return "." if key == "path" else "…"


def _diff(path: str, old: object, new: object) -> Json:
    before = old if isinstance(old, str) else None
    return {"type": "diff", "path": path, "oldText": before, "newText": new if isinstance(new, str) else ""}

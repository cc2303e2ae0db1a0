"""Configuration and scripts for the model of a `buddy` process: plain data, written where the process finds it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Reply = dict[str, Any]
Call = dict[str, object]

#: A command that records in the workspace that it was executed.
MARK = 'echo "$BUDDY_CALL" >> ledger'


def shell_call(command: str) -> Call:
    return {"name": "run_shell", "args": {"command": command}}


def shell(command: str, text: str = "") -> Reply:
    """A reply that runs a command."""
    return {"text": text, "calls": [shell_call(command)]}


def section(match: str, *replies: Reply) -> Reply:
    """Replies to messages that match."""
    return {"match": match, "replies": list(replies)}


def write_script(folder: Path, script: object) -> Path:
    path = folder / "script.json"
    path.write_text(json.dumps(script), encoding="utf-8")
    return path


def write_config(path: Path, script: Path, **tables: Mapping[str, object]) -> Path:
    """A configuration whose model follows the script; `tables` are added to it."""
    known: dict[str, Mapping[str, object]] = {
        **tables,
        "agent": {"model": "script", **tables.get("agent", {})},
        "models.script": {"api": "scripted", "script": str(script)},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(_table(name, table) for name, table in known.items()), encoding="utf-8")
    return path


def _table(name: str, table: Mapping[str, object]) -> str:
    lines: Sequence[str] = [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"

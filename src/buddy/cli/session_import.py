"""`buddy session import DIR`: turn `.buddyx` and `.agentx` conversations into sessions.

Invariants: a file is read completely and checked before anything is written; each becomes one session with the
conversation as events, once per folder, known by its old id, too, and used last when it was; the files do not change,
and what is not a conversation is reported and skipped.
"""

import os
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from buddy.cli.options import Options
from buddy.cli.settings import places_of, read_config
from buddy.errors import UserError
from buddy.log.contract import Log
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.events import (
    AssistantMessage,
    EventBody,
    RunComplete,
    RunStarted,
    SessionStarted,
    StartedOptions,
    ThinkingToken,
    ToolResult,
    UserMessage,
)
from buddy.protocol.ids import Ulids
from buddy.protocol.requests import StartSession
from buddy.protocol.shapes import BudgetLimits, Headless, Repo, ToolCallItem
from buddy.terminal.escape import escape

MAX_FILE = 64 * 1024 * 1024
MAX_KNOWN = 10_000
PLACES = ("", "sessions", ".buddyx/sessions", ".agentx/sessions")


class OldFunction(Struct, frozen=True):
    name: str
    arguments: str = ""


class OldCall(Struct, frozen=True):
    id: str
    function: OldFunction


class OldMessage(Struct, frozen=True):
    role: str
    content: str | None = None
    tool_calls: tuple[OldCall, ...] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None


class OldState(Struct, frozen=True):
    messages: tuple[OldMessage, ...]


class OldSession(Struct, frozen=True):
    """An old file. Its other fields are ignored."""

    version: int
    id: str
    state: OldState
    updated_at_millis: int = 0


class _Clock:
    """The time, or for what is imported now, the time of its file."""

    def __init__(self) -> None:
        self.held: int | None = None

    def __call__(self) -> int:
        return self.held or _unix_ms()

    @contextmanager
    def at(self, millis: int) -> Generator[None]:
        self.held = min(millis, _unix_ms()) if millis > 0 else None
        try:
            yield
        finally:
            self.held = None


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000


async def import_sessions(options: Options) -> None:
    from buddy.daemon.opening import open_runtime

    found = _read_all(Path(options.folder))
    clock = _Clock()
    runtime = await open_runtime(read_config(options), places_of(options), os.environ, log_url=options.log, clock=clock)
    root = os.path.realpath(options.directory)  # noqa: ASYNC240 - one look, nobody waits
    try:
        known = await _imported(runtime.log, root)
        for name, old in found:
            if old.id in known:
                print(known[old.id])
                print(f"{escape(name)} was imported before", file=sys.stderr)
                continue
            request = StartSession(
                "interactive", "default", "local", Repo(root), {"source": "import", "importedId": old.id}
            )
            with clock.at(old.updated_at_millis):
                session, _ = await runtime.sessions.start(request)
                for body, run_id in events_of(old):
                    session.journal.record(body, run_id)
                await session.journal.commit(durable=True)
            print(session.session_id)
            print(f"imported {escape(name)}, {len(old.state.messages)} messages", file=sys.stderr)
    finally:
        await runtime.close()


async def _imported(log: Log, root: str) -> dict[str, str]:
    """The sessions of this folder that were imported, by their old ids."""
    found: dict[str, str] = {}
    for record in await log.newest(MAX_KNOWN, root):
        for event in await log.read(record.session_id, 0, 1):
            body = event.body()
            metadata = (body.metadata if isinstance(body, SessionStarted) else None) or {}
            if isinstance(old_id := metadata.get("importedId"), str):
                found[old_id] = record.session_id
    return found


def events_of(old: OldSession) -> Iterator[tuple[EventBody, str]]:
    """The conversation as events; each user message starts a run, which ends before the next one."""
    ids, run_id, names = Ulids(), "", dict[str, str]()
    for message in old.state.messages:
        match message.role:
            case "user" if message.content:
                if run_id:
                    yield _complete(run_id), run_id
                run_id = ids("run")
                yield UserMessage(message_id=ids("msg"), text=message.content, by=RuntimeActor.IMPORT), run_id
                yield RunStarted(run_id=run_id, options=StartedOptions(budget=BudgetLimits())), run_id
            case "assistant" if run_id:
                calls = tuple(
                    ToolCallItem(call.id, call.function.name, call.function.arguments)
                    for call in message.tool_calls or ()
                    if call.id and call.function.name
                )
                names.update({call.call_id: call.name for call in calls})
                if message.reasoning_content:
                    yield ThinkingToken(text=message.reasoning_content), run_id
                yield _assistant_message(ids("msg"), message, calls), run_id
            case "tool" if run_id and message.tool_call_id in names:
                yield _result(message.tool_call_id, names.pop(message.tool_call_id), message.content or ""), run_id
            case _:
                pass  # the system prompt is built again; messages outside a run are dropped
    if run_id:
        yield _complete(run_id), run_id


def _assistant_message(message_id: str, message: OldMessage, calls: tuple[ToolCallItem, ...]) -> AssistantMessage:
    reasoning = message.reasoning_content
    return AssistantMessage(
        message_id=message_id,
        text=message.content or "",
        tool_calls=calls,
        finish="tool_calls" if calls else "stop",
        truncated=False,
        opaque=None if reasoning is None else {"reasoning_content": reasoning},
    )


def _result(call_id: str, name: str, text: str) -> ToolResult:
    return ToolResult(
        source="unknown",
        tool_name=name,
        duration_ms=0,
        is_error=False,
        text=text,
        structured_error=None,
        call_id=call_id,
    )


def _complete(run_id: str) -> RunComplete:
    return RunComplete(run_id=run_id, outcome="success", summary="imported", headless=Headless(0))


def _read_all(folder: Path) -> list[tuple[str, OldSession]]:
    files = sorted({path for place in PLACES for path in (folder / place).glob("*.json")})
    sessions: list[tuple[str, OldSession]] = []
    for path in files:
        try:
            sessions.append((path.name, _read(path)))
        except (OSError, ValueError) as error:
            print(f"warning: {escape(str(path))} skipped: {escape(str(error))}", file=sys.stderr)
    if not sessions:
        hint = "DIR is a project that contains .buddyx or .agentx, or that folder itself"
        raise UserError(f"no session files in {folder}", hint=hint)
    return sessions


def _read(path: Path) -> OldSession:
    if path.stat().st_size > MAX_FILE:
        raise ValueError("the file is too large")
    return msgspec.json.decode(path.read_bytes(), type=OldSession)

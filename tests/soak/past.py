"""A long past for a session: complete runs with replies that were streamed, calls and compactions; or notes alone.

Invariants: it is sound by itself, so a checker may look at the rest of the session as if there were no past; whether it
is still as it was is compared by its digest.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from buddy.log.contract import Log
from buddy.log.database import connect
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import (
    AssistantDone,
    AssistantMessage,
    AssistantToken,
    EventBody,
    ModelRequest,
    RunComplete,
    RunStarted,
    SessionCompacted,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    WarningRaised,
)
from buddy.protocol.shapes import (
    BudgetLimits,
    BudgetState,
    ContextState,
    Headless,
    StartedOptions,
    ToolCallItem,
)

Past = Callable[[str, int, int], Iterator[Event]]
"""From a session's id, its last seq and a number of events: those that come next."""

TOKENS = 40
"""Pieces of each reply."""
COMPACTED_RUNS = 100
"""The number of runs between two compactions, each of which leaves the last ten runs as they are."""
WORD = "word "


def notes(session_id: str, last_seq: int, count: int) -> Iterator[Event]:
    """Events that nobody needs, and that belong to no run."""
    note = WarningRaised(code="NOTE", message="a note of the past")
    for seq in range(last_seq + 1, last_seq + count + 1):
        yield event_of(note, session_id=session_id, seq=seq, ts=seq)


def runs(session_id: str, last_seq: int, count: int) -> Iterator[Event]:
    """Complete runs; what is left over are notes."""
    begins: list[int] = []
    seq, number = last_seq, 0
    while True:
        run_id, bodies = f"run_past{number}", list(_run(number))
        if seq + len(bodies) + 1 > last_seq + count:
            break
        begins.append(seq)
        for body in bodies:
            seq += 1
            yield event_of(body, session_id=session_id, seq=seq, ts=seq, run_id=run_id)
        number += 1
        if number % COMPACTED_RUNS == 0:
            seq += 1
            compaction = SessionCompacted(
                before_tokens=9000, after_tokens=900, through_seq=begins[-10], summary="What was done so far.", by="cli"
            )
            yield event_of(compaction, session_id=session_id, seq=seq, ts=seq)
    yield from notes(session_id, seq, last_seq + count - seq)


def open_run(session_id: str, last_seq: int, count: int) -> Iterator[Event]:
    """One run that never ends: reads of a file, one after the other."""
    begin = [UserMessage(message_id="msg_endless", text="read on", by="cli"), _started("run_endless")]
    seq, number = last_seq, 0
    bodies: list[EventBody] = list(begin)
    while seq + len(bodies) <= last_seq + count:
        for body in bodies:
            seq += 1
            yield event_of(body, session_id=session_id, seq=seq, ts=seq, run_id="run_endless")
        number += 1
        bodies = list(_turn(f"endless{number}", number))
    yield from notes(session_id, seq, last_seq + count - seq)


def _run(number: int) -> Iterator[EventBody]:
    yield UserMessage(message_id=f"msg_past{number}", text=f"Read the file number {number}.", by="cli")
    yield _started(f"run_past{number}")
    yield from _turn(f"past{number}", 1)
    yield _asked(2)
    yield from [AssistantToken(text=WORD)] * TOKENS
    reply = AssistantMessage(
        message_id=f"asst_past{number}.2", text=WORD * TOKENS, tool_calls=(), finish="stop", truncated=False
    )
    yield reply
    yield AssistantDone(message_id=reply.message_id)
    yield _used(2)
    done = f"The file number {number} was read."
    yield RunComplete(run_id=f"run_past{number}", outcome="success", summary=done, headless=Headless(0))


def _turn(name: str, turn: int) -> Iterator[EventBody]:
    """A reply that asks for a call, and the result."""
    call = ToolCallItem(f"call_{name}", "read_file", f'{{"path":"{name}.txt"}}')
    yield _asked(turn)
    yield from [AssistantToken(text=WORD)] * TOKENS
    yield AssistantMessage(
        message_id=f"asst_{name}.{turn}", text=WORD * TOKENS, tool_calls=(call,), finish="tool_calls", truncated=False
    )
    yield _used(turn)
    yield ToolCall(source="sandbox", tool_name="read_file", args={"path": f"{name}.txt"}, call_id=call.call_id)
    yield ToolResult(
        source="sandbox",
        tool_name="read_file",
        duration_ms=1,
        is_error=False,
        text=f"the contents of {name}\n" * 10,
        structured_error=None,
        call_id=call.call_id,
    )


def _started(run_id: str) -> RunStarted:
    return RunStarted(run_id=run_id, options=StartedOptions(budget=BudgetLimits()))


def _asked(turn: int) -> ModelRequest:
    return ModelRequest(turn=turn, profile="default", model="scripted", api="scripted", attempt=1)


def _used(turn: int) -> Usage:
    budget = BudgetState(turn, 150, 0, 1.0, BudgetLimits())
    return Usage(turn=turn, input_tokens=100, output_tokens=50, context=ContextState(1000, 100_000), budget=budget)


def lengthen(database: Path, session_id: str, events: int, past: Past) -> "AddedPast":
    """Append a past to a session that no process has open."""
    db = connect(database, apsw.SQLITE_OPEN_READWRITE)
    try:
        key, last_seq = db.execute("SELECT key, last_seq FROM sessions WHERE id = ?", (session_id,)).get
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT))",
            (
                (key, event.seq, event.ts, event.run_id, event.type, bytes(event.payload))
                for event in past(session_id, last_seq, events)
            ),
        )
        db.execute("UPDATE sessions SET last_seq = last_seq + ? WHERE key = ?", (events, key))
        db.execute("COMMIT")
    finally:
        db.close()
    return AddedPast(session_id, last_seq, events, digest_of(database, session_id, last_seq, events))


class AddedPast(Struct, frozen=True):
    """Where a past is in its session, and what it was."""

    session_id: str
    after: int
    count: int
    digest: tuple[int, int]

    def seq(self, seq: int) -> int:
        """The seq that an event would have without the past."""
        return seq if seq <= self.after else max(seq - self.count, self.after)

    def without(self, event: Event) -> Event:
        """An event of the session as it would be without the past."""
        payload = event.payload
        if event.type == "session_compacted":
            tree: dict[str, Any] = msgspec.json.decode(payload)
            payload = Raw(msgspec.json.encode({**tree, "throughSeq": self.seq(tree["throughSeq"])}))
        return replace(event, seq=self.seq(event.seq), payload=payload)

    async def read_rest(self, log: Log) -> list[Event]:
        """The session without the past."""
        events = [event async for event in _read(log, self.session_id, 0, self.after)]
        rest = [event async for event in _read(log, self.session_id, self.after + self.count, None)]
        return [*events, *map(self.without, rest)]


def digest_of(database: Path, session_id: str, after: int, count: int) -> tuple[int, int]:
    """How many events there are, and how long they are together."""
    db = connect(database, apsw.SQLITE_OPEN_READONLY)
    try:
        found: tuple[int, int] = db.execute(
            "SELECT count(*), total(length(payload) + seq) FROM events WHERE session = "
            "(SELECT key FROM sessions WHERE id = ?) AND seq > ? AND seq <= ?",
            (session_id, after, after + count),
        ).get
        return found
    finally:
        db.close()


async def _read(log: Log, session_id: str, after: int, through: int | None) -> AsyncIterator[Event]:
    while page := await log.read(session_id, after, through=through):
        for event in page:
            yield event
        after = page[-1].seq

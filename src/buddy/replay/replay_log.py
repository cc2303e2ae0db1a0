"""A log in memory that accepts only what was recorded, event by event.

Invariants: type, run, order, seq and payload of each event are compared. What is measured is not: times, and the
estimated size of a prompt, which depends on notes and tools that are not part of a log.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy.errors import LogError
from buddy.log.contract import Batch, InboxItem, Lease, SessionRecord
from buddy.log.memory import MemoryLog
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody, RunCancelling, UserMessage
from buddy.protocol.shapes import Repo
from buddy.replay.recording import ProcessSpan, ReplayCursor
from buddy.sessions.fork import Entry
from buddy.sessions.inbox import steering_item, waiting_item

OWNER = "replay"
EXCERPT = 600

_MEASURED = {
    "tool_result": ("durationMs",),
    "phase": ("durationMs",),
    "run_started": ("recording", "node"),
    "approval_required": ("expiresAt", "expiresAtBoot"),
    "approval_policy_changed": ("expiresAt",),
    "cancel_scheduled": ("at",),
    "model_request": ("reservedTokens", "reservedCostUsd"),
    "usage": ("context", "estimated"),
    "user_message": ("redacted",),  # counted when it was scrubbed, which it is in the recording
    "session_compacted": ("beforeTokens", "afterTokens"),
}


class Difference(Struct, frozen=True):
    """What was recorded, what came instead, and in words where they differ."""

    message: str
    recorded: str
    replayed: str


class ReplayLog(MemoryLog):
    """`difference` is the first that was found; `compared` counts the events that were the same; `is_over`: it refuses
    whatever else happens."""

    def __init__(self, cursor: ReplayCursor, span: ProcessSpan, session_id: str) -> None:
        super().__init__(cursor.clock)
        self.difference: Difference | None = None
        self.is_over = False
        self.compared = 0
        self._cursor = cursor
        self._span = span
        self._session_id = session_id

    async def fill(self, earlier: Sequence[Entry]) -> Lease:
        """Store what came before this span."""
        record = SessionRecord(self._session_id, Repo("."), "interactive", "idle", 0, 0, 1, 0)
        lease = await self.create(record, OWNER)
        events = [event for event, _ in earlier]
        await super().append(Batch(self._session_id, lease.epoch, 0, events))
        return lease

    async def append(self, batch: Batch) -> int:
        for event in batch.events:
            self._check(event)
        # What the rows prevent (a second claim, a second decision) would be one event too many here.
        last_seq = await super().append(replace(batch, approval=None, decision=None, claim=None, taken=()))
        await self._cursor.wait_before(0)
        return last_seq

    async def waiting(self, session_id: str) -> list[InboxItem]:
        """The messages that join the active run now, or are given back by the cancel that comes next."""
        following = list(self._cursor.after(self._cursor.reached))
        if following and isinstance(cancelling := following[0][1], RunCancelling):
            return [waiting_item(session_id, at, one) for at, one in enumerate(cancelling.returned)]
        bodies = [body for _, body in takewhile(_is_steering, following) if isinstance(body, UserMessage)]
        return [steering_item(session_id, at, body) for at, body in enumerate(bodies)]

    def _check(self, event: Event) -> None:
        recorded, problem = self._cursor.at(event.seq), None
        if event.seq > self._span.last and not self._span.is_complete:
            problem = "the recording ends here"
        elif (problem := _compare(recorded[0] if recorded else None, event)) is not None:
            self.difference = Difference(problem, excerpt(recorded[0]) if recorded else "nothing", excerpt(event))
        if problem is not None:
            self.is_over = True
            self._cursor.notify()
            raise LogError(problem)
        self.compared += 1


def _is_steering(entry: tuple[Event, EventBody]) -> bool:
    return isinstance(entry[1], UserMessage) and entry[1].steers


def _compare(recorded: Event | None, replayed: Event) -> str | None:
    """In words what differs; None where nothing does."""
    seq = replayed.seq
    if recorded is None:
        return f"seq {seq}: one more than was recorded"
    if recorded.type != replayed.type:
        return f"seq {seq}: {replayed.type} instead of {recorded.type}"
    if recorded.run_id != replayed.run_id:
        return f"seq {seq}: {recorded.type} belongs to another run"
    theirs, ours = _comparable(recorded), _comparable(replayed)
    keys = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
    return f"seq {seq}: {recorded.type} differs in {', '.join(keys)}" if keys else None


def _comparable(event: Event) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.json.decode(event.payload)
    for key in _MEASURED.get(event.type, ()):
        tree.pop(key, None)
    match event.type:
        case "usage":
            tree["budget"].pop("seconds", None)
        case "progress" if tree.pop("elapsedSeconds", None) is not None:
            tree.pop("message")
        case "run_complete" if tree.get("reason") in ("budget_exceeded", "acceptance_failed"):
            # The limit and the checks are compared. Their wording may be of another version, or say how large the next
            # prompt would have been.
            tree.pop("summary")
        case "approval_required":
            tree["details"].pop("uncovered", None)  # depends on the files
        case "error" if tree.get("code") == "INTERNAL_ERROR":
            tree.pop("detail", None)
        # Our own sentences may change from one version to the next: what they stand for has a code.
        case "session_compacted" if tree.get("summary"):
            tree["summary"] = tree["summary"].partition("\n\n")[2]
        case "tool_result" if _is_unknown_outcome(tree):
            tree.pop("text")
            tree["structuredError"].pop("message")
        case _:
            pass
    return tree


def _is_unknown_outcome(result: dict[str, Any]) -> bool:
    failure: dict[str, Any] | None = result.get("structuredError")
    return failure is not None and failure["type"] == "UNKNOWN_OUTCOME"


def excerpt(event: Event) -> str:
    text = f"{event.type} {bytes(event.payload).decode(errors='replace')}"
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"

"""What must have been true of the demo, judged offline: the log, what the clients saw, and the files that were written.

Invariants: every expectation can fail; one that could not be looked at counts as failed.
"""

from pathlib import Path

from msgspec import Struct, field

from buddy.approvals.digest import nonce_of
from buddy.protocol.envelopes import Event, parse_incoming
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalReceived,
    AssistantToken,
    EventBody,
    RunComplete,
    ToolClaimed,
    ToolResult,
)
from buddy.targets import orphans

Result = tuple[str, bool]

TOOLS = ["read_file", "write_file", "run_shell", "run_shell", "read_file"]


class Evidence(Struct):
    """What is left of the demo. `first` and `second` are what the two clients received, `log` the exported lines."""

    workspace: Path
    session_id: str = ""
    killed: bool = False
    ended: bool = False
    first: list[Event] = field(default_factory=list[Event])
    second: list[Event] = field(default_factory=list[Event])
    log: list[bytes] = field(default_factory=list[bytes])


def expectations(evidence: Evidence) -> list[Result]:
    """Each expectation in words, and whether it was met."""
    log = [event for event in map(parse_incoming, evidence.log) if isinstance(event, Event)]
    bodies = [body for body in (event.body() for event in log) if body is not None]
    return [
        ("a process was killed with SIGKILL, the next one ended by itself", evidence.killed and evidence.ended),
        (f"seq runs from 1 to {len(log)} without a gap", _is_gapless(log)),
        ("both clients together received exactly what the log holds", _is_all_received(evidence)),
        ("the model's text was streamed; five tool calls have one result each", _is_worked(bodies)),
        ("every claimed call was approved before, by its digest", _is_approved(bodies)),
        ("the interrupted command ran once, and nothing of it is left running", _is_once(evidence, bodies)),
        ("the acceptance check passed and the run ended once, as a success", _is_complete(bodies)),
    ]


def _is_gapless(log: list[Event]) -> bool:
    return bool(log) and [event.seq for event in log] == list(range(1, len(log) + 1))


def _is_all_received(evidence: Evidence) -> bool:
    received = [event.line().rstrip(b"\n") for event in (*evidence.first, *evidence.second)]
    return bool(evidence.log) and received == evidence.log


def _is_worked(bodies: list[EventBody]) -> bool:
    streamed = sum(isinstance(body, AssistantToken) for body in bodies)
    results = [body for body in bodies if isinstance(body, ToolResult)]
    unknown = [body.structured_error.type for body in results if body.structured_error]
    return streamed > len(results) and [body.tool_name for body in results] == TOOLS and unknown == ["UNKNOWN_OUTCOME"]


def _is_approved(bodies: list[EventBody]) -> bool:
    approved: set[str] = set()
    claims = 0
    for body in bodies:
        match body:
            case ApprovalReceived() if body.decision == "approve" and body.digest:
                approved.add(body.digest)
            case ToolClaimed():
                claims += 1
                if body.digest not in approved:
                    return False
            case _:
                pass
    return claims > 0


def _is_once(evidence: Evidence, bodies: list[EventBody]) -> bool:
    call = next((body.call_id for body in bodies if isinstance(body, ToolResult) and body.structured_error), None)
    outbox = evidence.workspace / "outbox"
    if call is None or not outbox.is_file():
        return False
    return outbox.read_text(encoding="utf-8") == "sent\n" and not orphans.find(nonce_of(evidence.session_id, call))


def _is_complete(bodies: list[EventBody]) -> bool:
    checks = [body.passed for body in bodies if isinstance(body, AcceptanceResult)]
    ends = [body.outcome for body in bodies if isinstance(body, RunComplete)]
    return checks == [True] and ends == ["success"] and isinstance(bodies[-1], RunComplete)

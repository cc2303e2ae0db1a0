"""Who decided what, when, from which client and by which rule, read from the logs themselves.

Invariants: nothing is stored for it besides the events, so it cannot differ from what was done; deleting a session
deletes its decisions.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from buddy.log.contract import Log
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    ToolCall,
)
from buddy.protocol.shapes import DecisionMade

# A call is recorded right before its decision and the question right after it; other events may come between.
LOOK_BACK = 100
MAX_SUMMARY = 300
_SUMMARY_ARGUMENTS = ("command", "path", "url", "query", "keys", "pattern")


async def decisions_made(
    log: Log, limit: int, session_id: str | None, since: int, user: str | None = None
) -> list[DecisionMade]:
    """The latest decisions, in the sessions of one user or in all, the latest last."""
    found = await log.decisions(limit, session_id, since, user)
    return [made for event in found if (made := await decision_of(log, event)) is not None]


async def decision_of(log: Log, event: Event) -> DecisionMade | None:
    """The line of the audit for an event; None if it decides nothing."""
    about = DecisionMade(event.session_id, event.seq, event.ts, "expired", "timeout", event.run_id)
    match event.body():
        case ApprovalReceived() as body:
            about = replace(
                about,
                decision=body.decision,
                by=body.by,
                approval_id=body.approval_id,
                digest=body.digest,
                scope=body.scope,
                expires_at=body.expires_at,
                comment=body.comment,
            )
            return await _with_call(log, about, body.call_id)
        case ApprovalExpired() as body:
            return await _with_call(log, replace(about, approval_id=body.approval_id), None)
        case ApprovalPolicyChanged() as body:
            modes = {None: "", True: ", plan mode on", False: ", plan mode off"}
            summary = f"{body.policy}{modes[body.plan]}"
            if body.revoked:
                summary = f"{summary}, revoked {body.revoked}"
                about = replace(about, approval_id=body.revoked)
            if body.granted:
                summary = f"{summary}, still granted: {body.granted.summary}"[:MAX_SUMMARY]
                about = replace(about, approval_id=body.granted.approval_id)
            return replace(about, decision="policy", by=body.by, summary=summary, expires_at=body.expires_at)
        case _:
            return None


async def _with_call(log: Log, about: DecisionMade, call_id: str | None) -> DecisionMade:
    """Add what the decision was about, as it was asked or called."""
    before = await log.read(about.session_id, max(0, about.seq - LOOK_BACK - 1), LOOK_BACK)
    asked, call = _find_question(before, about.approval_id), None
    call_id = call_id or (asked.call_id if asked else None)
    for event in reversed(before):
        if event.type == "tool_call" and isinstance(body := event.body(), ToolCall) and body.call_id == call_id:
            call = body
            break
    summary = asked.summary if asked else _summary(call) if call else None
    return replace(
        about,
        call_id=call_id,
        digest=about.digest or (asked.digest if asked else None),
        tool=call.tool_name if call else None,
        target=call.target if call else None,
        summary=summary[:MAX_SUMMARY] if summary else None,
    )


def _find_question(before: Sequence[Event], approval_id: str | None) -> ApprovalRequired | None:
    for event in reversed(before):
        body = event.body() if event.type == "approval_required" else None
        if isinstance(body, ApprovalRequired) and body.approval_id == approval_id:
            return body
    return None


def _summary(call: ToolCall) -> str:
    for name in _SUMMARY_ARGUMENTS:
        if isinstance(found := call.args.get(name), str):
            return found
    return msgspec.json.encode(call.args).decode()

"""A session as it was after one of its events.

Invariant: it is the same fold that makes the live state.
"""

from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.protocol.events import EVENTS, Usage
from buddy.protocol.requests import GetSnapshotReply
from buddy.protocol.shapes import BudgetState
from buddy.sessions.past import NOTES, read_pages
from buddy.sessions.snapshot import pending_of, snapshot_of
from buddy.sessions.state import SessionFold

# Pieces of what is recorded as a whole later; they are most of a log.
_PIECES = frozenset({"assistant_token", "thinking_token", "tool_output", "progress", "status", "phase"})
_TYPES = tuple(name for name in EVENTS if name not in _PIECES)
_FOLDED = frozenset(_TYPES) - NOTES


async def snapshot_at(log: Log, session_id: str, seq: int) -> GetSnapshotReply:
    fold, tokens, cost = SessionFold(), 0, None
    latest = await log.last(session_id, _TYPES, 0, seq)
    now = latest.ts if latest else 0
    async for page in read_pages(log, session_id, types=_FOLDED, through=seq):
        for event, body in page:
            if body is not None:
                fold.apply(event, body)
            if isinstance(body, Usage):
                tokens += body.input_tokens + body.output_tokens
                cost = cost if body.cost_usd is None else (cost or 0.0) + body.cost_usd
    if fold.started is None:
        raise ProtocolError("INVALID_REQUEST", await _unknown(log, session_id, seq))
    snapshot, run = snapshot_of(fold), fold.run
    budget = None
    if run is not None:
        seconds = max(0.0, (now - run.started_ts) / 1000)
        budget = BudgetState(run.turns, run.tokens, run.tool_calls, seconds, run.options.budget, run.cost_usd)
    return GetSnapshotReply(
        state=snapshot.state,
        pending_approval=snapshot.pending_approval,
        meta=snapshot.meta,
        active_run_id=snapshot.active_run_id,
        last_assistant_text=snapshot.last_assistant_text,
        budget=budget,
        context=fold.context,
        approvals=tuple(pending_of(fold, session_id)),
        approval_policy=fold.policy,
        tokens=tokens,
        cost_usd=cost,
        open_calls=tuple(call.item for call in run.open_calls.values()) if run else (),
    )


async def _unknown(log: Log, session_id: str, seq: int) -> str:
    """Why the state is not known; what was set before a prune is recorded again after the events that are left."""
    started = next(iter(await log.read(session_id, seq, 1, ("session_started",))), None)
    known = f"; the earliest known state is that after event {started.seq}" if started else ""
    return f"the state after event {seq} is not known, because the beginning of the session was pruned{known}"

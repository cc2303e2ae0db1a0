"""Compacting the history of a session at a client's request, and undoing that."""

from buddy.backends.contract import Compaction, RereadingBackend, compaction_event
from buddy.backends.hooks import explain, strictest
from buddy.capabilities import has
from buddy.errors import ProtocolError
from buddy.protocol.actors import ClientActor
from buddy.protocol.events import SessionCompacted
from buddy.protocol.requests import CompactSessionReply
from buddy.sessions.run_hooks import compact_call
from buddy.sessions.session import Session


async def compact(session: Session, by: str, *, undo: bool) -> CompactSessionReply:
    """Record a shorter history; messages that were queued meanwhile start afterwards."""
    session.runs.check_idle("compact")
    compaction = None if undo else await _compaction(session)
    before = compaction.before_tokens if compaction else session.fold.context.used
    if undo and session.fold.saved:
        await _reach_back(session)
        after = before + session.fold.saved[-1]
        body = SessionCompacted(before_tokens=before, after_tokens=after, through_seq=0, summary="", by=by, undo=True)
    elif compaction is None:
        await session.runs.start_queued()
        return CompactSessionReply(before, before)
    else:
        body = compaction_event(compaction, ClientActor(by))
    session.journal.record(body)
    await session.commit(durable=True)
    await session.runs.start_queued()
    return CompactSessionReply(body.before_tokens, body.after_tokens)


async def _reach_back(session: Session) -> None:
    if has(session.backend, RereadingBackend):
        session.runs.is_compacting = True
        try:
            await session.commit()  # it reads the log
            await session.backend.reach_back()
        finally:
            session.runs.is_compacting = False


async def _compaction(session: Session) -> Compaction | None:
    session.runs.is_compacting = True
    try:
        said = strictest(await session.hooks.run(compact_call("manual"), None))
        if said is not None and said.verdict == "deny":
            raise ProtocolError("INVALID_REQUEST", f"not compacted: {explain(said)}")
        return await session.backend.compact()
    finally:
        session.runs.is_compacting = False

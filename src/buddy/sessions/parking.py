"""Which sessions a clean stop parks, so that a later process continues them from the log."""

from collections.abc import Sequence

from buddy.sessions.session import Session


def parked_together(sessions: Sequence[Session]) -> set[str]:
    """The sessions that are parked by a clean stop: those that wait for a person, and their parents."""
    found = {session.session_id for session in sessions if session.is_parkable}
    while more := {session.session_id for session in sessions if _waits_for(session, found)} - found:
        found |= more
    return found


def _waits_for(session: Session, parked: set[str]) -> bool:
    """Whether a run only waits for sub-agents that are parked, so that it can be parked with them."""
    run = session.fold.run
    if run is None or not run.children or not session.services.parks or run.cancelling is not None or session.broken:
        return False
    waiting = [child.started.call_id for child in run.children.values() if child.started.session_id in parked]
    return all(call_id in waiting for call_id in run.open_calls)

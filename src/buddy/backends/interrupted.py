"""Calls that a process started and could not finish.

Invariants: such a call is not run again; what is left of it is ended; the model learns that its outcome is unknown.
"""

from buddy.approvals.digest import nonce_of
from buddy.backends.contract import Run
from buddy.backends.runstate import OpenCall
from buddy.errors import OutcomeUnknown
from buddy.protocol.events import Recovery


def unknown_outcome(run: Run, call: OpenCall) -> OutcomeUnknown:
    """Record that a call was interrupted; the error is its result."""
    run.emit(Recovery(action="unknown_outcome", call_id=call.item.call_id))
    return OutcomeUnknown("Buddy stopped while this call was running")


async def end_started_calls(run: Run) -> None:
    """End the processes of every call that was started and has no result."""
    for call in run.state.open_calls.values():
        if call.stage == "claimed":
            await run.place.target.kill_orphans(nonce_of(run.session_id, call.item.call_id))

"""The state of a session as clients see it, computed from its fold alone."""

from buddy.protocol.events import ApprovalRequired, SessionSnapshot, SnapshotMeta
from buddy.protocol.shapes import ApprovalRequest
from buddy.sessions.state import SessionFold


def snapshot_of(fold: SessionFold) -> SessionSnapshot:
    pending = next((call.approval for call in fold.pending.values() if call.approval), None)
    started = fold.started
    return SessionSnapshot(
        state=fold.state,
        pending_approval=_request_of(pending) if pending else None,
        meta=SnapshotMeta(started.provider if started else "", started.sandbox_provider if started else "local"),
        active_run_id=fold.run.run_id if fold.run else None,
        last_assistant_text=fold.last_text or None,
    )


def pending_of(fold: SessionFold, session_id: str) -> list[ApprovalRequest]:
    """The pending approvals, with the ids needed to decide them."""
    run_id = fold.run.run_id if fold.run else None
    found = [call.approval for call in fold.pending.values() if call.approval]
    return [_request_of(approval, session_id, run_id) for approval in found]


def _request_of(
    approval: ApprovalRequired, session_id: str | None = None, run_id: str | None = None
) -> ApprovalRequest:
    return ApprovalRequest(
        approval.approval_id,
        approval.kind,
        approval.title,
        approval.summary,
        approval.details,
        approval.options,
        approval.expires_at,
        approval.call_id,
        approval.digest,
        session_id,
        run_id,
        parent=approval.parent,
        agent=approval.agent,
    )

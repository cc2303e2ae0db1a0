"""The notices of the last while, found in the log: for what a process that ended has not delivered."""

from buddy.log.contract import Log, SessionQuery, SessionRecord
from buddy.notify.notices import TYPES, Notice, notice_of
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired, QuestionAsked

MAX_SESSIONS = 200
MAX_EVENTS = 5000
"""How far back the log of one session is read."""


async def find_notices(log: Log, since: int) -> list[Notice]:
    """Those of events since a time, in Unix milliseconds, whose questions are still open."""
    found: list[Notice] = []
    for record in await log.find(SessionQuery(MAX_SESSIONS)):
        if record.updated_at < since:
            continue
        events = await log.read(record.session_id, max(0, record.last_seq - MAX_EVENTS), types=TYPES)
        for event in events:
            notice = notice_of(event) if event.ts >= since and await _is_due(log, record, event) else None
            if notice is not None:
                found.append(notice)
    return found


async def _is_due(log: Log, record: SessionRecord, event: Event) -> bool:
    match event.body():
        case ApprovalRequired(approval_id=asked):
            approval = await log.approval(asked)
            return approval is not None and approval.state == "pending"
        case QuestionAsked():
            return record.state == "awaiting_approval"
        case _:
            return True

"""What happens to a session as a whole: it is resumed, copied, renamed, archived; and the end that a run is given."""

from typing import Literal

from buddy.protocol.facts import EventFacts, Informational, Payload
from buddy.protocol.ids import SessionId
from buddy.protocol.shapes import Count, WaitingMessage


class SessionResumed(Informational, frozen=True, kw_only=True):
    by: str
    last_seq: Count


class SessionForked(Payload, frozen=True, kw_only=True):
    facts = EventFacts(lasts_for_agents=True)
    from_session_id: SessionId
    from_seq: Count
    by: str


class SessionRenamed(Informational, frozen=True, kw_only=True):
    title: str
    by: str


class SessionArchived(Informational, frozen=True, kw_only=True):
    """`archived` is false when it was brought back."""

    archived: bool
    by: str


class RunCancelling(Payload, frozen=True, kw_only=True):
    """`returned`: messages that were waiting, and were given back."""

    facts = EventFacts(of_run=True, copied=True)
    reason: str
    by: str
    returned: tuple[WaitingMessage, ...] = ()


class CancelScheduled(Payload, frozen=True, kw_only=True):
    """The run will be cancelled at a time, in Unix milliseconds; the latest of several counts."""

    facts = EventFacts(of_run=True, copied=True)
    at: Count
    reason: str
    by: str


class Recovery(Informational, frozen=True, kw_only=True):
    facts = EventFacts(copied=True)
    action: Literal["continued", "restarted", "reattached", "unknown_outcome", "taken_over"]
    call_id: str | None = None
    message: str | None = None
    from_node: str | None = None
    """The node that had the run before, if it was taken over."""

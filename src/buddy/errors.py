"""Errors, named for who can fix them.

    BuddyError
    ├── UserError       the person can fix it: bad config, unknown session     one line + hint, exit 64
    │   └── RunLeft       the run waits for a person, and is left to others      exit 75
    ├── ProtocolError   the peer can fix it: carries the wire code             error response
    ├── ProviderError   time may fix it: retryable or not                      retry, then the run fails
    ├── ToolError       the model can fix it                                   tool result, the run continues
    ├── RunEnded        nothing to fix: the run ends before its answer         `reason` of run_complete
    └── LogError        the store rejected an append
        ├── Fenced        another process owns the session now
        ├── HandedOver    this process has let go of the session, so that another can take it
        ├── SeqConflict   the log grew since the writer read it
        ├── NotClaimed    the call was already claimed, so it may have run
        ├── Undecidable   the approval was already decided or has expired
        └── StorageFull   disk full; retryable once there is space

Anything else is a bug: it ends the run as failed and is logged once, in the session.
"""


class BuddyError(Exception):
    """The root of all errors that Buddy raises on purpose."""


class UserError(BuddyError):
    """Shown as one line and a hint, without a traceback."""

    def __init__(self, message: str, hint: str = "", exit_code: int = 64) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code


class RunLeft(UserError):
    """A command ends before the run that it follows, which waits for a person; others continue it."""


class ProtocolError(BuddyError):
    """Becomes the error response; `code` is one of the protocol's error codes."""

    def __init__(self, code: str, message: str, *, retryable: bool = False, detail: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.detail = detail


class SessionElsewhere(ProtocolError):
    """Another process has the session, or may take it; nothing was done here."""


class ProviderError(BuddyError):
    """A model call failed. `retry_after` is the server's request, in seconds."""

    def __init__(self, message: str, *, retryable: bool, retry_after: float | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.hint = hint


class ToolError(BuddyError):
    """A tool call failed in a way the model can react to; `code` is one of the protocol's tool error types."""

    def __init__(
        self, message: str, *, code: str = "UNKNOWN", retryable: bool = False, detail: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.detail = detail


class OutcomeUnknown(ToolError):
    """A call was started and nobody knows how far it came. `cause` is what went wrong, as a clause."""

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"{cause}, so its outcome is unknown: it may have happened, completely or in part. "
            "Find out before you repeat it.",
            code="UNKNOWN_OUTCOME",
        )


class RunEnded(BuddyError):
    """Ends a run before its answer; `reason` goes into run_complete."""

    outcome = "failed"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RunDenied(RunEnded):
    outcome = "denied"

    def __init__(self, message: str) -> None:
        super().__init__("denied", message)


class LogError(BuddyError):
    """The store rejected an append; none of it was written."""


class Fenced(LogError):
    """Another process took over the session; this one must stop writing."""


class HandedOver(LogError):
    """This process has let go of the session; the next to take it continues from the log."""


class SeqConflict(LogError):
    """`expected_seq` is not the last seq of the log."""


class NotClaimed(LogError):
    """This call and attempt were already claimed."""


class Undecidable(LogError):
    """The approval is no longer pending; `state` is its current state."""

    def __init__(self, approval_id: str, state: str) -> None:
        super().__init__(f"{approval_id} is {state}")
        self.state = state


class StorageFull(LogError):
    """The disk has no space for the next record."""


REPLACED = "Buddy was upgraded or removed while this process was running"
REPLACED_HINT = "buddy daemon restart; its runs continue"


def is_replaced(error: Exception) -> bool:
    """Whether a part of Buddy could not be loaded, because its files are not those it was started from."""
    return isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "buddy"

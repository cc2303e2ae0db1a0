"""The closed sets of values on the wire."""

from typing import Literal

from buddy.protocol import basics

VERSION = basics.VERSION

ErrorCode = Literal[
    "UNSUPPORTED_PROTOCOL_VERSION",
    "UNSUPPORTED_REQUEST_TYPE",
    "INVALID_REQUEST",
    "SESSION_NOT_FOUND",
    "ATTACH_FORBIDDEN",
    "RUN_IN_PROGRESS",
    "NO_ACTIVE_RUN",
    "APPROVAL_NOT_FOUND",
    "APPROVAL_EXPIRED",
    "PROVIDER_NOT_CONFIGURED",
    "SANDBOX_UNAVAILABLE",
    "INTERNAL_ERROR",
    # Buddy's own
    "OVERLOADED",
    "FRAME_TOO_LARGE",
    "STORAGE_FULL",
]

SessionState = Literal["idle", "running", "awaiting_approval", "completed", "failed", "cancelled"]
Outcome = Literal["success", "failed", "cancelled", "denied"]
Verdict = Literal["approve", "deny"]
ToolOutcome = Literal["returned", "failed", "rejected", "denied", "unknown", "closed"]
"""How a call came to its result: its tool returned or failed; it could not start; it was denied; the process died while
it ran; the run ended before it did."""
BudgetLimit = Literal["turns", "tokens", "cost", "seconds", "tool_calls"]
Mode = Literal["interactive", "headless"]
Policy = Literal["ask", "auto", "all", "none", "until"]
Scope = Literal["once", "session", "until", "always"]
Role = Literal["observer", "approver", "driver"]
Tier = Literal["read-only", "side-effecting", "privileged"]
ApprovalKind = Literal["exec", "write", "fetch", "keys", "tool"]
Source = Literal["github", "sandbox", "delegate", "scratchpad", "web-search", "unknown"]
ToolErrorType = Literal[
    "FILE_NOT_FOUND",
    "EXEC_TIMEOUT",
    "EXEC_NON_ZERO_EXIT",
    "SANDBOX_UNREACHABLE",
    "EDIT_HASH_MISMATCH",
    "EDIT_CONTENT_NOT_FOUND",
    "AUTH_FAILURE",
    "RATE_LIMITED",
    "STALE_FILE",
    "EDIT_GUARD_BLOCKED",
    "WRITE_FAILED",
    "UNKNOWN",
    # Buddy's own
    "UNKNOWN_OUTCOME",
]

EXIT_CODES: dict[str, int] = {"success": 0, "failed": 1, "cancelled": 2, "denied": 3}
EXIT_ACCEPTANCE = 4
EXIT_BUDGET = 5

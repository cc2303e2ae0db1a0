"""A model that says again what it said.

What always holds: each piece waits for its place in the cursor, so that what happens again happens in recorded order.
"""

from collections.abc import AsyncIterator

from buddy.backends.native.pinned import SEPARATOR
from buddy.errors import ProviderError
from buddy.models.contract import (
    Notice,
    Piece,
    Prompt,
    Reply,
    Restart,
    Retrying,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
)
from buddy.protocol.events import (
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    Error,
    EventBody,
    ModelRequest,
    ModelSwitched,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionCompacted,
    ThinkingToken,
    Usage,
    WarningRaised,
)
from buddy.replay.replay_cursor import ReplayCursor, wait_for_ever

NO_SUMMARY = "the model wrote no summary: "
UNAFFORDABLE = 1e12


class RecordedProvider:
    """Says again what was said. `switched`: it is chosen in the middle of a session."""

    def __init__(self, cursor: ReplayCursor, *, switched: bool) -> None:
        self._cursor = cursor
        self.profile, self.model, self.api = names(cursor, switched=switched)
        usage = cursor.next(Usage)
        self.context_limit = usage.context.limit if usage else 8192

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        del prompt
        compaction = self._cursor.at(self._cursor.reached + 1)
        if compaction is not None and isinstance(compaction[1], SessionCompacted):
            yield _told_summary(compaction[1])
            return
        is_summary = self._purpose() == "summary"
        for event, body in self._cursor.after(self._cursor.reached):
            piece = self._summary_piece(event.seq, body) if is_summary else self._piece(event.seq, body)
            if isinstance(piece, Exception):
                for kind in trailing(self._cursor, event.seq):
                    yield TextDelta("") if kind == "assistant_token" else ThinkingDelta("")
                await self._cursor.wait_before(event.seq)
                raise piece
            if piece is not None:
                await self._cursor.wait_before(event.seq)
                yield piece
                if isinstance(piece, Reply):
                    return
            if isinstance(body, RunCancelling | RunComplete):
                break
        await wait_for_ever()

    async def cost_of(self, usage: TokenUsage) -> float | None:
        """What was reserved for the next call then; beyond all limits where the run ended for want of it."""
        del usage
        for _, body in self._cursor.after(self._cursor.reached):
            if isinstance(body, ModelRequest):
                return body.reserved_cost_usd or 0.0
            if isinstance(body, RunComplete):
                return UNAFFORDABLE if body.reason == "budget_exceeded" else 0.0
        return 0.0

    async def close(self) -> None:
        """Nothing to close."""

    def _purpose(self) -> str:
        """What the call that was just recorded is for."""
        entry = self._cursor.at(self._cursor.reached)
        body = entry[1] if entry else None
        return body.purpose if isinstance(body, ModelRequest) else "reply"

    def _piece(self, seq: int, body: EventBody) -> Piece | Exception | None:
        match body:
            case AssistantToken():
                return TextDelta(body.text)
            case ThinkingToken():
                return ThinkingDelta(body.text)
            case AssistantRestart():
                return Restart(body.reason)
            case ModelRequest() if body.attempt > 1:
                return Retrying(body.attempt, body.reason or "", body.wait_ms or 0)
            case WarningRaised() if body.code != "EVENT_GAP":
                return Notice(body.code, body.message, body.detail or "")
            case AssistantMessage():
                usage = _usage(self._cursor.next(Usage, seq))
                return Reply(body.text, body.tool_calls, body.finish, body.truncated, usage, body.opaque)
            case Error():
                return failure(body)
            case _:
                return None

    def _summary_piece(self, seq: int, body: EventBody) -> Piece | Exception | None:
        match body:
            case ModelRequest() if body.attempt > 1:
                return Retrying(body.attempt, body.reason or "", body.wait_ms or 0)
            case WarningRaised() if body.code == "SUMMARY_FAILED":
                return ProviderError(body.message.removeprefix(NO_SUMMARY), retryable=False)
            case Usage():
                return Reply(self._notes(seq), usage=_usage(body))
            case Error():
                return failure(body)
            case _:
                return None

    def _notes(self, seq: int) -> str:
        """What the model wrote: it is known of the last part; of a part before it only that there was something."""
        for _, body in self._cursor.after(seq):
            if isinstance(body, ModelRequest):
                return "…" if body.purpose == "summary" else ""
            if isinstance(body, SessionCompacted):
                return _told_summary(body).text
        return ""


def trailing(cursor: ReplayCursor, seq: int) -> list[str]:
    """Kinds of texts that only came out when the run ended: that there is such a text must be known before."""
    kinds: dict[str, None] = {}
    for event, body in cursor.after(seq):
        if isinstance(body, RunComplete | RunStarted):
            break
        if isinstance(body, AssistantToken | ThinkingToken):
            kinds[event.type] = None
    return list(kinds)


def names(cursor: ReplayCursor, *, switched: bool) -> tuple[str, str, str]:
    for _, body in cursor.after(cursor.reached):
        if isinstance(body, ModelSwitched):
            named = body.after if switched else body.before
            return named.get("profile", ""), named.get("model", ""), named.get("api", "")
        if isinstance(body, ModelRequest):
            return body.profile, body.model, body.api
        if isinstance(body, RunStarted) and body.options.profile and not _is_asked(cursor):
            return body.options.profile, body.options.model or "", ""
    return "", "", ""


def _is_asked(cursor: ReplayCursor) -> bool:
    return cursor.next(ModelRequest) is not None


def _usage(usage: Usage | None) -> TokenUsage | None:
    if usage is None:
        return None
    return TokenUsage(usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cost_usd)


def _told_summary(compaction: SessionCompacted) -> Reply:
    text = compaction.summary.rpartition(SEPARATOR)[2] if compaction.strategy == "model" else ""
    usage = TokenUsage(compaction.input_tokens or 0, compaction.output_tokens or 0, cost_usd=compaction.cost_usd)
    return Reply(text, usage=usage)


def failure(error: Error) -> Exception:
    if error.code == "PROVIDER_ERROR":
        return ProviderError(error.message, retryable=error.retryable, hint=error.detail or "")
    return RuntimeError(error.message)

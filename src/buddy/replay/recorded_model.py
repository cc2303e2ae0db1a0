"""A model that replies as it replied.

Invariant: each piece waits for its place in the recording.
"""

from collections.abc import AsyncIterator

from msgspec import Struct

from buddy.backends.native.pinned import SEPARATOR
from buddy.errors import ProviderError, RunEnded
from buddy.models.contract import (
    Notice,
    Piece,
    Prompt,
    Reply,
    Restart,
    Retrying,
    TokenUsage,
)
from buddy.protocol.events import (
    INTERRUPTED,
    AssistantMessage,
    AssistantRestart,
    Error,
    EventBody,
    ModelRequest,
    ModelSwitched,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionCompacted,
    Usage,
    WarningRaised,
)
from buddy.replay.recording import MODEL, ReplayCursor, wait_for_ever
from buddy.scrub import Scrubber, Stream
from buddy.scrub.values import Values

UNAFFORDABLE = 1e12


class RecordedProvider:
    """Satisfies `Provider` and `Windowed`. `switched`: it is chosen in the middle of a session."""

    def __init__(self, cursor: ReplayCursor, *, switched: bool) -> None:
        self._cursor = cursor
        self.profile, self.model, self.api = model_names(cursor, switched=switched)
        usage = cursor.next(Usage)
        self.context_limit = usage.context.limit if usage else 8192
        self.is_window_assumed = usage is not None and usage.context.assumed

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        del prompt
        upcoming = self._cursor.upcoming
        if upcoming is not None and isinstance(upcoming[1], SessionCompacted):  # on request, outside a run
            yield _summary_of(upcoming[1])
            return
        self._cursor.begin_stream(MODEL)
        for event, body in self._cursor.rest_of_run():
            if isinstance(body, AssistantMessage) and body.finish == INTERRUPTED:
                break
            piece = self._piece(event.seq, body)
            if piece is not None:
                await self._cursor.wait_before(event.seq)
                if isinstance(piece, Exception):
                    raise piece
                yield piece
                if isinstance(piece, Reply):
                    return
            if isinstance(body, RunCancelling):
                break
        await wait_for_ever()

    async def learn(self) -> None:
        """The recording has everything that was learned."""

    def keep_window(self, limit: int) -> None:
        """The recording has the window."""

    async def cost_of(self, usage: TokenUsage) -> float | None:
        """What was reserved for the next call; more than any limit where the run ended because of its cost."""
        del usage
        for _, body in self._cursor.rest_of_run():
            if isinstance(body, ModelRequest):
                return body.reserved_cost_usd
            if isinstance(body, RunComplete) and body.limit == "cost":
                return UNAFFORDABLE
        return 0.0

    async def close(self) -> None:
        """Nothing to close."""

    def _piece(self, seq: int, body: EventBody) -> Piece | Exception | None:
        match body:
            case AssistantRestart():
                return Restart(body.reason)
            case ModelRequest() if body.attempt > 1:
                return Retrying(body.attempt, body.reason or "", body.wait_ms or 0)
            case WarningRaised():
                return _notice(body)
            case AssistantMessage():
                usage = _usage(self._cursor.next(Usage, seq))
                return Reply(body.text, body.tool_calls, body.finish, body.truncated, usage, body.opaque)
            case Usage():  # without a message before it: the call was for a summary
                return Reply(self._summary_after(seq), usage=_usage(body))
            case Error():
                return failure_of(body)
            case _:
                return None

    def _summary_after(self, seq: int) -> str:
        """What the model wrote: recorded for the last part of the history; of an earlier part only that it did."""
        for _, body in self._cursor.after(seq):
            if isinstance(body, ModelRequest):
                return "…" if body.purpose == "summary" else ""
            if isinstance(body, SessionCompacted):
                return _summary_of(body).text
        return ""


def model_names(cursor: ReplayCursor, *, switched: bool) -> tuple[str, str, str]:
    """Profile, model and API of the model in use at this position."""
    for _, body in cursor.after(cursor.reached):
        if isinstance(body, ModelSwitched):
            named = body.after if switched else body.before
            return named.get("profile", ""), named.get("model", ""), named.get("api", "")
        if isinstance(body, ModelRequest):
            return body.profile, body.model, body.api
        if isinstance(body, RunStarted) and body.options.profile and cursor.next(ModelRequest) is None:
            return body.options.profile, body.options.model or "", ""
    return "", "", ""


def failure_of(error: Error) -> Exception:
    """What made the session record this error."""
    match error.code:
        case "PROVIDER_ERROR":
            return ProviderError(error.message, retryable=error.retryable, hint=error.detail or "")
        case "STORAGE_FULL":
            return RunEnded("storage_full", error.message)
        case _:
            return RuntimeError(error.message)


def _notice(warning: WarningRaised) -> Piece | Exception | None:
    match warning.code:
        case "EVENT_GAP":
            return None  # of a client that came back
        case "SUMMARY_FAILED":
            return ProviderError(warning.detail or warning.message, retryable=False)
        case _:
            return Notice(warning.code, warning.message, warning.detail or "")


def _usage(usage: Usage | None) -> TokenUsage | None:
    if usage is None:
        return None
    return TokenUsage(
        usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cost_usd, usage.cache_write_tokens
    )


def _summary_of(compaction: SessionCompacted) -> Reply:
    text = compaction.summary.rpartition(SEPARATOR)[2] if compaction.strategy == "model" else ""
    usage = TokenUsage(compaction.input_tokens or 0, compaction.output_tokens or 0, cost_usd=compaction.cost_usd)
    return Reply(text, usage=usage)


class _RecordedStream(Stream):
    def feed(self, text: str) -> str:
        return text

    def finish(self) -> str:
        return ""


class RecordedScrubber(Scrubber):
    """Changes nothing: whatever was recorded is scrubbed."""

    def text(self, text: str, *, random: bool = True) -> str:
        del random
        return text

    def registered(self, text: str) -> str:
        return text

    def stream(self) -> Stream:
        return _RecordedStream(Values())

    def is_clean(self, shape: Struct) -> bool:
        del shape
        return True

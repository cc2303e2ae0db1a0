"""A backend, which turns a user message into events, and the run it works on.

Invariants: a backend does not write to the log, and reads it only by what `use_log` gave it. It emits, asks and claims
through its `Run`; whatever was unfinished when the process died is in `Run.state`, so starting and resuming are the
same code.
"""

from collections.abc import AsyncIterator, Callable
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from buddy.approvals.questions import Question, Ruling
from buddy.backends.runstate import OpenCall, RunState
from buddy.models.contract import TokenUsage
from buddy.protocol.actors import Actor, RuntimeActor
from buddy.protocol.codes import Tier
from buddy.protocol.events import EventBody, SessionCompacted, ToolResult
from buddy.protocol.question_events import PersonAnswer, PersonQuestion
from buddy.protocol.shapes import ContextState
from buddy.tools.contract import Place


class HooksOfRun(Protocol):
    """The set points of a run at which its backend or its driver has hooks run."""

    async def after_call(self, call: OpenCall, result: ToolResult) -> None:
        """A call has its result; `RunDenied` if a hook ends the run."""
        ...

    async def screen_messages(self) -> None:
        """Messages of the user that the model has not seen; `RunDenied` if one is refused."""
        ...

    async def is_kept_going(self) -> bool:
        """Whether a hook wants more of an answered run; then its reason is the next message."""
        ...

    async def may_compact(self) -> bool:
        """Whether the hooks let the history be compacted."""
        ...


class RunFiles(Protocol):
    """The record of what a run changes in its workspace."""

    async def watch(self, run_id: str, name: str) -> None:
        """From now on, whatever changes in the workspace is attributed to the run."""
        ...

    async def finish(self) -> None:
        """Wait until everything that the run changed is recorded."""
        ...


class Run(Protocol):
    """One run as its backend sees it."""

    session_id: str
    run_id: str
    place: Place
    check_day: Callable[[], None] | None
    """Before each turn: `BudgetExceeded` if the day may cost no more; None if that is not limited."""

    @property
    def hooks(self) -> HooksOfRun: ...

    @property
    def state(self) -> RunState: ...

    @property
    def files(self) -> RunFiles: ...

    def emit(self, body: EventBody) -> None:
        """Record an event; clients see it once it is committed."""
        ...

    async def stream(self, kind: str, text: str) -> None:
        """Record a piece of text (`assistant_token`, `thinking_token`); pieces close in time become one event."""
        ...

    async def stream_output(self, call_id: str, stream: str, text: str) -> None:
        """Record a piece of a running tool's output."""
        ...

    async def commit(self) -> None:
        """Wait until everything emitted so far is in the log."""
        ...

    async def finish(self) -> None:
        """Wait until everything emitted so far is durable, even after a power loss."""
        ...

    async def claim(self, call_id: str, tier: Tier, digest: str) -> None:
        """Record, durably, that this call is about to start; raises if it ever was claimed before."""
        ...

    async def consult_hooks(self, question: Question) -> bool:
        """Have the hooks answer about a call, once; return whether they changed its input."""
        ...

    async def ask(self, question: Question) -> Ruling:
        """Get a decision by policy, rule or person; a denial that ends the run raises `RunDenied`."""
        ...

    async def ask_person(self, call_id: str, question: PersonQuestion) -> PersonAnswer:
        """Ask the session's user for data, in the middle of a call."""
        ...

    async def record_steering(self) -> bool:
        """Record what the user said meanwhile as messages of this run; False if there was nothing."""
        ...

    def seconds(self) -> float:
        """How long the run has been active, restarts included."""
        ...

    def arguments_of(self, call: OpenCall) -> str:
        """The arguments as the model wrote them; ToolError if only their scrubbed form remains."""
        ...

    async def scrub_ahead(self, body: EventBody) -> None:
        """Scrub and encode a long event that is emitted next, bit by bit, so that emitting it takes no time."""
        ...

    async def scrub_long(self, text: str) -> str:
        """The same as `scrub`, bit by bit."""
        ...

    def scrub(self, text: str) -> str:
        """The text as it may be stored. Scrub before cutting: half a secret would not be recognised."""
        ...

    async def stop_children(self) -> None:
        """End the sub-agents that still work, and wait for them."""
        ...

    async def store(self, content: str | bytes) -> str:
        """Store a long text as a blob, scrubbed, or an image as it is; return its id."""
        ...


class ModelName(Struct, frozen=True):
    profile: str
    model: str
    api: str
    context_limit: int


class Compaction(Struct, frozen=True):
    """History up to `through_seq` can be represented by `summary`."""

    summary: str
    through_seq: int
    before_tokens: int
    after_tokens: int
    strategy: Literal["model", "lines", "dropped"] = "lines"
    usage: TokenUsage | None = None


def compaction_event(found: Compaction, by: Actor, *, besides_history: int = 0) -> SessionCompacted:
    """The event of a compaction; `besides_history` is the rest of the prompt."""
    # What a run spends on its own summary is in that run's `usage`; for a client's request, this event records it.
    usage = None if by is RuntimeActor.AUTO_COMPACTION else found.usage
    return SessionCompacted(
        before_tokens=found.before_tokens + besides_history,
        after_tokens=found.after_tokens + besides_history,
        through_seq=found.through_seq,
        summary=found.summary,
        by=str(by),
        strategy=found.strategy,
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        cost_usd=usage.cost_usd if usage else None,
    )


class Backend(Protocol):
    """What a session drives. It sees every event of the session through `observe`; of runs that were over when the
    session was opened, only the types in `lasting`."""

    name: str
    lasting: frozenset[str]

    def observe(self, seq: int, body: EventBody) -> None: ...

    def model(self) -> ModelName: ...

    async def switch(self, profile: str | None, model: str | None) -> ModelName:
        """Use another model from the next run on; UserError if it is not configured."""
        ...

    async def compact(self) -> Compaction | None:
        """How the history could be shortened; None if that would not make it smaller."""
        ...

    async def is_priced(self, place: Place) -> bool:
        """Whether the cost of a run is known, so that a limit on it can be enforced."""
        ...

    async def execute(self, run: Run) -> None:
        """Work until the model has answered (`run.state.answered`)."""
        ...

    async def close(self) -> None: ...


UNDOABLE = 8
"""The number of compactions that can be undone without reading the log again."""

ReadPast = Callable[[int | None], AsyncIterator[tuple[int, EventBody]]]
"""The events of a session's `lasting` types, each with its seq, up to a seq or all."""


@runtime_checkable
class RereadingBackend(Protocol):
    """A backend that holds the conversation since its last few compactions, and reads the rest when it needs it."""

    def begin_late(self, first: int, base: int) -> None:
        """Of the events before `first`, only settings will be observed; the compaction with the seq `base` is the
        oldest whose history is complete then."""
        ...

    def use_log(self, read: ReadPast) -> None:
        """From now on, what only the log has can be read; nothing else must be held."""
        ...

    async def reach_back(self) -> None:
        """Hold what undoing the latest compaction restores; only while no run is active."""
        ...

    async def reread(self) -> None:
        """Forget what is no longer in the log; only while no run is active."""
        ...


@runtime_checkable
class MeasuringBackend(Protocol):
    """A backend that measures its prompt before the model reports what it has read."""

    def measured_context(self) -> ContextState | None:
        """How full the window is with the last prompt; None before the first."""
        ...


@runtime_checkable
class VerifiableBackend(Protocol):
    """A backend that may be unable to do what a session asks for."""

    async def verify(self, place: Place) -> None:
        """UserError if the session should not be created."""
        ...

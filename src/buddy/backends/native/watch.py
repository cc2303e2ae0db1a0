"""Reports on a run while it works: how long its states took, that a long tool still runs, that a call repeats.

Invariant: nothing here changes what a run does.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Self

from msgspec.structs import replace

from buddy.backends.contract import Run
from buddy.backends.runstate import TurnState
from buddy.protocol.events import Phase, Progress, Status, WarningRaised
from buddy.tools.registry import Registry

HEARTBEAT_SECONDS = 5.0
REPEATS = 3


class PhaseTimes:
    """How long a run was in each state of its turns, reported once it leaves the loop, however it does."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._spent: dict[TurnState, float] = {}
        self._state: TurnState | None = None
        self._since = 0.0

    def __enter__(self) -> Self:
        return self

    def begin(self, state: TurnState | None) -> None:
        now = self._run.seconds()
        if self._state is not None:
            self._spent[self._state] = self._spent.get(self._state, 0.0) + max(0.0, now - self._since)
        self._state, self._since = state, now

    def __exit__(self, *_: object) -> None:
        self.begin(None)
        for state, seconds in self._spent.items():
            self._run.emit(Phase(name=state, duration_ms=round(seconds * 1000, 3)))


def report_model_call(run: Run, model: str) -> None:
    turn, most = run.state.turns + 1, _max_turns(run)
    run.emit(Progress(kind="provider_call", message=f"[{turn}/{most}] Calling provider", turn=turn, max_turns=most))
    run.emit(Status(source="orchestrator", phase="Calling model", detail=model))


@contextmanager
def watching_tools(run: Run, registry: Registry) -> Generator[None]:
    """Report which tools run, every few seconds that they still do, and at the end if a call was repeated in vain."""
    turn, most = max(run.state.turns, 1), _max_turns(run)
    names = tuple(call.item.name for call in run.state.open_calls.values())
    begun = Progress(
        kind="tool_execution",
        message=f"[{turn}/{most}] Executing tools: {', '.join(names)}",
        turn=turn,
        max_turns=most,
        tool_names=names,
        tiers={name: registry.tier_of(name) for name in names if name in registry.names},
    )
    run.emit(begun)
    heartbeat = _Heartbeat(run, begun)
    try:
        yield
    finally:
        heartbeat.stop()
    state = run.state
    if is_reported(state.repeated):
        name = state.last_done[0]
        message = f"{name} was called {state.repeated} times in a row with the same arguments and the same result"
        run.emit(WarningRaised(code="REPEATED_CALL", message=message))


def is_reported(repeated: int) -> bool:
    """The third time, the sixth, the twelfth: whoever ignores it once need not hear it at every turn."""
    times, rest = divmod(repeated, REPEATS)
    return times > 0 and rest == 0 and times.bit_count() == 1


def _max_turns(run: Run) -> int:
    return run.state.options.budget.max_turns or 50


class _Heartbeat:
    """Uses a timer and not a task: most tools finish long before the first beat."""

    def __init__(self, run: Run, begun: Progress) -> None:
        self._run = run
        self._begun = begun
        self._began = run.seconds()
        self._next = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat)

    def stop(self) -> None:
        self._next.cancel()

    def _beat(self) -> None:
        self._next = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat)
        if self._run.state.pending:
            return  # nothing runs while a person is being asked
        elapsed = self._run.seconds() - self._began
        message = f"{self._begun.message} ({elapsed:.0f} s)"
        self._run.emit(replace(self._begun, message=message, elapsed_seconds=max(0.0, elapsed)))

"""Reports on a turn while it runs: how long its states took, that a long tool still runs, that a call repeats.

Invariant: nothing here changes what a run does.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from msgspec.structs import replace

from buddy.backends.contract import Run
from buddy.backends.runstate import TurnState
from buddy.protocol.events import Phase, Progress, Status, WarningRaised
from buddy.tools.registry import Registry

HEARTBEAT_SECONDS = 5.0
REPEATS = 3


class TimedPhase:
    """Reports how long a state of the turn took, unless it was cut short: then the end of the run says so."""

    def __init__(self, run: Run, state: TurnState) -> None:
        self._run = run
        self._state = state
        self._began = run.seconds()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            took = max(0.0, self._run.seconds() - self._began)
            self._run.emit(Phase(name=self._state, duration_ms=round(took * 1000, 3)))


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
    if state.repeated >= REPEATS:
        name = state.last_done[0]
        message = f"{name} was called {state.repeated} times in a row with the same arguments and the same result"
        run.emit(WarningRaised(code="REPEATED_CALL", message=message))


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

"""Reports on a run while it works: how long its states took, that a long tool still runs, that a call repeats.

Invariant: nothing here changes what a run does.
"""

import asyncio
from typing import Self

from msgspec.structs import replace

from buddy.backends.contract import Run
from buddy.backends.runstate import TurnState
from buddy.protocol.events import Phase, Progress, Status, WarningRaised
from buddy.tools.registry import Registry

SUMMED_SINCE = 5
"""The recording version since which phases are summed over a run, and a repeated call is not reported every time."""
HEARTBEAT_SECONDS = 5.0
TOO_EARLY = 0.001  # a timer may fire a moment before its time
REPEATS = 3


class RunWatch:
    """What a run reports of itself: its tools as they start, every few seconds that they still run, and if a call was
    repeated in vain; and when it leaves the loop, unless it was cut short, how long it was in each state."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._spent: dict[TurnState, float] = {}
        self._is_summed = run.state.recording >= SUMMED_SINCE
        self._state = TurnState.STREAMING
        self._since = 0.0
        self._tools: Progress | None = None
        self._tools_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    def begin(self, state: TurnState) -> None:
        self._state, self._since = state, self._run.seconds()

    def end(self) -> None:
        """The state of the turn is over."""
        took = max(0.0, self._run.seconds() - self._since)
        self._tools = None
        if self._is_summed:
            self._spent[self._state] = self._spent.get(self._state, 0.0) + took
        else:
            self._report(self._state, took)

    def begin_tools(self, registry: Registry) -> None:
        self.begin(TurnState.TOOL_EXECUTION)
        run = self._run
        turn, most = max(run.state.turns, 1), _max_turns(run)
        names = tuple(call.item.name for call in run.state.open_calls.values())
        self._tools = Progress(
            kind="tool_execution",
            message=f"[{turn}/{most}] Executing tools: {', '.join(names)}",
            turn=turn,
            max_turns=most,
            tool_names=names,
            tiers={name: registry.tier_of(name) for name in names if name in registry.names},
        )
        run.emit(self._tools)
        self._tools_since = asyncio.get_running_loop().time()
        if self._timer is None:
            self._beat_at(self._tools_since + HEARTBEAT_SECONDS)

    def end_tools(self) -> None:
        state = self._run.state
        if state.repeated >= REPEATS and (not self._is_summed or is_reported(state.repeated)):
            name = state.last_done[0]
            message = f"{name} was called {state.repeated} times in a row with the same arguments and the same result"
            self._run.emit(WarningRaised(code="REPEATED_CALL", message=message))
        self.end()

    def __exit__(self, kind: object, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if kind is None:
            for state, seconds in self._spent.items():
                self._report(state, seconds)

    def _report(self, state: TurnState, seconds: float) -> None:
        self._run.emit(Phase(name=state, duration_ms=round(seconds * 1000, 3)))

    def _beat_at(self, when: float) -> None:
        # A timer and not a task, and one for many turns: most tools finish long before the first beat.
        self._timer = asyncio.get_running_loop().call_at(when, self._beat)

    def _beat(self) -> None:
        self._timer = None
        if self._tools is None:
            return
        now, due = asyncio.get_running_loop().time(), self._tools_since + HEARTBEAT_SECONDS
        if now < due - TOO_EARLY:
            self._beat_at(due)  # it was set for earlier tools
            return
        self._beat_at(now + HEARTBEAT_SECONDS)
        if not self._run.state.pending:  # nothing runs while a person is being asked
            elapsed = self._run.seconds() - self._since
            message = f"{self._tools.message} ({elapsed:.0f} s)"
            self._run.emit(replace(self._tools, message=message, elapsed_seconds=max(0.0, elapsed)))


def report_model_call(run: Run, model: str) -> None:
    turn, most = run.state.turns + 1, _max_turns(run)
    run.emit(Progress(kind="provider_call", message=f"[{turn}/{most}] Calling provider", turn=turn, max_turns=most))
    run.emit(Status(source="orchestrator", phase="Calling model", detail=model))


def is_reported(repeated: int) -> bool:
    """The third time, the sixth, the twelfth and so on, because a model that ignores it repeats the call every turn."""
    times, rest = divmod(repeated, REPEATS)
    return rest == 0 and times.bit_count() == 1


def _max_turns(run: Run) -> int:
    return run.state.options.budget.max_turns or 50

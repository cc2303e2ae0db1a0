"""What is told about a turn while it runs: how long its states took, that a long tool still runs, that a call repeats.

What always holds: nothing here changes what a run does.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from buddy.backends.contract import Run
from buddy.backends.runstate import TurnState
from buddy.protocol.events import Phase, Progress, Warning  # noqa: A004 - the seed's word

HEARTBEAT_SECONDS = 5.0
REPEATS = 3


@contextmanager
def timed(run: Run, state: TurnState) -> Generator[None]:
    """Tell how long a state of the turn took; one that was cut short is told by how the run ends."""
    began = run.seconds()
    yield
    run.emit(Phase(name=state, duration_ms=round(max(0.0, run.seconds() - began) * 1000, 3)))


@asynccontextmanager
async def watching(run: Run, begun: Progress) -> AsyncGenerator[None]:
    """Tell every few seconds that the tools still run, and at the end where the same was done for nothing."""
    run.emit(begun)
    beating = asyncio.get_running_loop().create_task(_beat(run, begun))
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.wait([beating])
    state = run.state
    if state.repeated >= REPEATS:
        name = state.last_done[0]
        message = f"{name} was called {state.repeated} times in a row with the same arguments and the same result"
        run.emit(Warning(code="REPEATED_CALL", message=message))


async def _beat(run: Run, begun: Progress) -> None:
    began = run.seconds()
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        if run.state.pending:
            continue  # nothing runs: a person is being asked
        elapsed = run.seconds() - began
        message = f"{begun.message} ({elapsed:.0f} s)"
        run.emit(
            Progress(
                kind=begun.kind,
                message=message,
                turn=begun.turn,
                max_turns=begun.max_turns,
                tool_names=begun.tool_names,
            )
        )

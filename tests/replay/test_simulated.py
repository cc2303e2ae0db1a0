"""Whatever the simulation does to a session (crashes, a full disk, three people), its log replays the same."""

import asyncio

import pytest

from buddy.replay.verify import Recording, Verdict, verify
from buddy.replay.virtual_loop import VirtualLoop
from tests.faults.simulation import Simulation


# In 1113 a run is cancelled, in the replay, before its task has made a step.
@pytest.mark.parametrize("seed", [*range(12), 1113])
def test_a_simulated_session_is_replayed(seed: int) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        recorded, _ = runner.run(Simulation(seed).run())
    [events] = recorded.log.values()
    assert verify(Recording(tuple(events), {})) == Verdict(len(events))

"""Whatever the simulation does to a session (crashes, a full disk, three people), its log replays the same."""

import asyncio

import pytest
from msgspec.structs import replace

from buddy.replay.verify import Recording, Verdict, verify
from buddy.replay.virtual_loop import VirtualLoop
from tests.faults.simulation import Simulation


# In 28 a process ends right after a restart; in 1113 the replay cancels a run before its first step.
@pytest.mark.parametrize("seed", [*range(12), 28, 1113])
def test_a_simulated_session_is_replayed(seed: int) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        recorded, _ = runner.run(Simulation(seed).run())
    [events] = recorded.log.values()
    assert verify(Recording(tuple(events), {})) == Verdict(len(events))


@pytest.mark.parametrize("seed", range(4))
def test_a_missing_claim_is_found_whatever_else_happens(seed: int) -> None:
    """Also while clients are still to come and a tool reports that it runs."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        recorded, _ = runner.run(Simulation(seed).run())
    [events] = recorded.log.values()
    for claim in [event for event in events if event.type == "tool_claimed"]:
        later = [replace(event, seq=event.seq - 1) for event in events[claim.seq :]]
        verdict = verify(Recording((*events[: claim.seq - 1], *later), {}))
        assert verdict.compared == claim.seq - 1
        assert verdict.difference is not None

"""Sessions in a simulation, each chosen by a random seed: whatever happens, the log is sound.

A failure names its seed; `FAULT_SEEDS=FIRST:COUNT` runs others, and the same seed always does the same.
"""

import asyncio
import os

import pytest

from buddy.protocol.envelopes import Event
from tests.faults.simulated import VirtualLoop
from tests.faults.simulation import Simulation
from tests.harness.checker import check

CHUNKS = 8
FIRST, COUNT = map(int, os.environ.get("FAULT_SEEDS", "1:40").split(":"))
MANY = 400


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_happens_the_log_is_sound(chunk: int) -> None:
    for seed in range(FIRST + chunk, FIRST + COUNT, CHUNKS):
        assert simulate(seed) == [], f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_else_happens_the_log_is_sound(chunk: int) -> None:
    for seed in range(FIRST + COUNT + chunk, FIRST + MANY, CHUNKS):
        assert simulate(seed) == [], f"seed {seed}"


def test_the_same_random_seed_always_does_the_same() -> None:
    assert [event.line() for event in events_of(77)] == [event.line() for event in events_of(77)]


def simulate(seed: int) -> list[str]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        recorded, problems = runner.run(Simulation(seed).run())
    return [*problems, *check(recorded)]


def events_of(seed: int) -> list[Event]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        recorded, _ = runner.run(Simulation(seed).run())
    return [event for events in recorded.log.values() for event in events]

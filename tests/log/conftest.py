"""The log under test: the same cases run over every implementation."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.log.sqlite import SqliteLog
from tests.harness.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, clock: ManualClock, state_dir: Path) -> AsyncIterator[Log]:
    made: Log = MemoryLog(clock) if request.param == "memory" else SqliteLog.open(state_dir, clock)
    yield made
    await made.close()


@pytest.fixture
async def sqlite(clock: ManualClock, state_dir: Path) -> AsyncIterator[SqliteLog]:
    made = SqliteLog.open(state_dir, clock)
    yield made
    await made.close()

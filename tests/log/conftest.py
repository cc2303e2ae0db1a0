"""The log under test: the same cases run over every implementation."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.log.postgres.postgres import PostgresLog
from buddy.log.sqlite import SqliteLog
from tests.harness.clock import ManualClock
from tests.harness.postgres import Postgres


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def log(request: pytest.FixtureRequest, clock: ManualClock, state_dir: Path) -> AsyncIterator[Log]:
    made: Log
    match request.param:
        case "memory":
            made = MemoryLog(clock)
        case "sqlite":
            made = SqliteLog.open(state_dir, clock)
        case _:
            server: Postgres = request.getfixturevalue("postgres")
            made = await PostgresLog.open(server.database(), clock, lease_clock=clock)
    yield made
    await made.close()


@pytest.fixture
async def shared(postgres: Postgres, clock: ManualClock) -> AsyncIterator[PostgresLog]:
    made = await PostgresLog.open(postgres.database(), clock, lease_clock=clock)
    yield made
    await made.close()


@pytest.fixture
async def sqlite(clock: ManualClock, state_dir: Path) -> AsyncIterator[SqliteLog]:
    made = SqliteLog.open(state_dir, clock)
    yield made
    await made.close()

"""The logs of a test: each opens the same store again, as another process would."""

from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.daemon.runtime import unix_ms
from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.log.sqlite import SqliteLog
from tests.harness.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Log]:
    memory = MemoryLog(unix_ms)
    return lambda: memory if request.param == "memory" else SqliteLog.open(tmp_path / "store", unix_ms)

"""Daemons for the tests: one that a module shares, and fresh ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon on both transports with limits that no friendly test meets."""
    generous = {"requests_per_second": 100_000, "burst": 100_000}
    with Daemon(tmp_path_factory.mktemp("d"), limits=generous, web=True) as daemon:
        yield daemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon of a test's own, on the Unix socket."""
    with Daemon(tmp_path) as found:
        yield found

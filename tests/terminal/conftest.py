"""A home per test, whose daemon is gone after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.driving import Home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path / "home")
    yield found
    found.run("daemon", "stop")

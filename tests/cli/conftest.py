"""A home per test."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.driving import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture(autouse=True)
def heeded_interrupts() -> Iterator[None]:
    """Children start with signals as on a terminal, also where these tests run in the background of a shell."""
    before = {number: signal.signal(number, _heed) for number in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _heed(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)

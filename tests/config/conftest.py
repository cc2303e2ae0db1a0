"""A home per test."""

from pathlib import Path

import pytest

from tests.harness.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")

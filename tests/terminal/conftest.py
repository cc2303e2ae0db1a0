"""A home per test, whose daemon and shared pane are gone after it."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from cli.driving import Home


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """In a short place: sockets lie in it."""
    found = Home(tmp_path_factory.mktemp("t") / "home")
    yield found
    found.run("daemon", "stop")
    subprocess.run([str(shutil.which("tmux")), "kill-server"], env=found.env, capture_output=True, check=False)

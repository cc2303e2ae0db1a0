"""A home per test; its daemon and shared pane end with it."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.harness.home import Home


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """With a short path: it contains sockets."""
    found = Home(tmp_path_factory.mktemp("t") / "home")
    yield found
    found.run("daemon", "stop")
    subprocess.run([str(shutil.which("tmux")), "kill-server"], env=found.env, capture_output=True, check=False)

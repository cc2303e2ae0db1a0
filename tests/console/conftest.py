import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harness.installed import need
from tests.harness.processes import ROOT

Pure = Callable[[str, Any], Any]


@pytest.fixture(scope="session")
def pure() -> Iterator[Pure]:
    """Call a pure function of the console, in one node process for all tests."""
    need("node")
    command = ["node", str(ROOT / "tests" / "console" / "pure.mjs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8") as node:
        stdin, stdout = node.stdin, node.stdout
        assert stdin and stdout

        def call(name: str, given: object) -> Any:
            stdin.write(json.dumps({"call": name, "with": given}) + "\n")
            stdin.flush()
            return json.loads(stdout.readline())

        yield call

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.console.browser import ARGUMENTS, CHROMIUM, SCRIPT, Console, OtherClient, console
from tests.harness.daemon import Daemon
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For a module of its own: while it is open, an event loop runs, and no asynchronous test can."""
    need("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, script=SCRIPT, web=True) as daemon:
        yield daemon


@pytest.fixture
def other(daemon: Daemon) -> Iterator[OtherClient]:
    """Another client of the same daemon."""
    other = OtherClient(daemon)
    yield other
    other.close()


@pytest.fixture
def window(browser: Browser, daemon: Daemon) -> Iterator[Console]:
    """The owner's window on the console."""
    with console(browser, daemon) as window:
        yield window.log_in()

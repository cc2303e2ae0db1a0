"""Settings for all tests, and the seconds that each suite took."""

import asyncio
import functools
import inspect
import os
import shutil
import signal
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.harness.installed import need
from tests.harness.postgres import Postgres
from tests.harness.temporal import Temporal

# Nothing of the user's own home has an effect: a slow ~/.bashrc would hold up every pane that a test opens.
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if not IS_WORKER:
    os.environ.setdefault("BUDDY_AGENTS_DIR", str(Path.home() / ".cache" / "buddy-agents"))
    os.environ["HOME"] = tempfile.mkdtemp(prefix="buddy-home-")

# Properties try different values each time on a developer's machine, and the same ones in CI.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
PROFILE = "ci" if os.environ.get("CI") else "dev"
settings.load_profile(PROFILE)
settings.register_profile("quick", settings.get_profile(PROFILE), max_examples=25)


@pytest.fixture(autouse=True, scope="session")
def handle_interrupts() -> Iterator[None]:
    """Children start with signals as on a terminal, even where the tests run in the background of a shell."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests of a worker, started with its first use; each test takes a database of its own."""
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def temporal() -> Iterator[Temporal]:
    """One Temporal server for all tests of a worker; each test takes a task queue of its own."""
    with Temporal() as server:
        yield server


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def pytest_configure(config: pytest.Config) -> None:
    """A run without the slow tests tries fewer values."""
    if "not slow" in config.option.markexpr:
        settings.load_profile("quick")


def pytest_unconfigure() -> None:
    if not IS_WORKER:
        shutil.rmtree(os.environ["HOME"], ignore_errors=True)


# A coroutine that waits for what never comes fails with its own traceback; whatever else hangs is ended by the
# `faulthandler_timeout` of pyproject.toml.
DEADLINE_SECONDS = 240


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _with_deadline(item.obj)


def _with_deadline(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def bounded(*arguments: object, **fixtures: object) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await test(*arguments, **fixtures)

    return bounded


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        need(*marker.args)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Adds up the seconds per folder of `tests/`; with `-n 2` two of them pass per second of the clock."""
    seconds: defaultdict[str, float] = defaultdict(float)
    tests: defaultdict[str, set[str]] = defaultdict(set)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                suite = "/".join(report.nodeid.split("::")[0].split("/")[:2])
                seconds[suite] += report.duration
                tests[suite].add(report.nodeid)
    if len(seconds) > 1:
        terminalreporter.section("seconds per suite")
        for suite, spent in sorted(seconds.items(), key=lambda row: -row[1]):
            terminalreporter.line(f"{spent:8.1f}  {len(tests[suite]):5d} tests  {suite}")
        terminalreporter.line(f"{sum(seconds.values()):8.1f}  {sum(map(len, tests.values())):5d} tests  in all")

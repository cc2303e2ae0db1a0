"""The nodes of a fleet in the console: shown where there are several, and drained from there."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browser import SCRIPT, console
from tests.harness.daemon import Daemon
from tests.harness.postgres import Postgres


@pytest.mark.slow
def test_nodes_are_shown_and_drained(browser: Browser, tmp_path: Path, postgres: Postgres) -> None:
    url = postgres.database()
    first, second = Daemon(tmp_path / "a", script=SCRIPT, web=True), Daemon(tmp_path / "b", script=SCRIPT)
    for daemon in (first, second):
        daemon.config.write_text(f'{daemon.config.read_text()}[node]\nname = "{daemon.folder.name}"\n')
    try:
        for daemon in (first, second):
            daemon.start(BUDDY_LOG=url)
        with console(browser, first) as window:
            page = window.log_in().page
            nodes = page.get_by_role("region", name="Nodes")
            expect(nodes.get_by_role("row")).to_have_count(3)
            nodes.get_by_role("row", name="b ready").get_by_role("button", name="Drain").click()
            expect(nodes.get_by_role("row", name="b drained")).to_be_visible()
    finally:
        for daemon in (first, second):
            daemon.stop()

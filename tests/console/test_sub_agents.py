"""Sub-agents in the console: they are followed, ask on their parent's page, and are answered there."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browser import OtherClient, console
from tests.harness.daemon import Daemon
from tests.harness.scripts import section, shell

pytestmark = pytest.mark.slow

TASKS = ("part one", "part two")
SCRIPT = [
    section(
        "^hand over", {"calls": [{"name": "delegate", "args": {"task": task}} for task in TASKS]}, {"text": "back"}
    ),
    section("part one", shell("touch one"), {"text": "one is done"}),
    section("part two", shell("touch two"), {"text": "two is done"}),
]


def test_a_sub_agent_asks_on_its_parents_page(browser: Browser, tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT, web=True) as daemon, console(browser, daemon) as window:
        other, page = OtherClient(daemon), window.log_in().page
        parent = other.start("hand over")
        window.open(parent)
        for task in TASKS:
            offer = page.locator(".approval", has_text="start the sub-agent").filter(has_text=task)
            offer.get_by_role("button", name="Approve").first.click()
        asked = page.locator(".approval", has_text="sub-agent general").filter(has_text="touch")
        expect(asked).to_have_count(2)
        expect(page.locator(".timeline")).to_contain_text("Sub-agent general is working")
        expect(page.locator(".row .chip.agent")).to_have_count(2)
        asked.filter(has_text="touch one").get_by_role("button", name="Approve", exact=True).click()
        expect(asked).to_have_count(1)
        page.reload()
        expect(asked).to_have_count(1)
        asked.get_by_role("button", name="Deny", exact=True).click()
        expect(page.locator(".timeline")).to_contain_text("back")
        expect(page.locator(".timeline")).to_contain_text("Sub-agent general finished")
        assert [(daemon.workspace / name).exists() for name in ("one", "two")] == [True, False]
        page.locator(".timeline a", has_text="general").first.click()
        expect(page.locator(".session-head")).to_contain_text("sub-agent general of its parent")
        other.close()

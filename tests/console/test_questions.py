"""MCP in the console: a server's question is a form, and the names of prompts are completed."""

import json
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browser import OtherClient, console
from tests.harness.daemon import Daemon
from tests.harness.processes import PATIENCE
from tests.harness.scripts import section
from tests.tools.mcp.servers import MODULES

pytestmark = pytest.mark.slow

SCRIPT = [section("^order", {"calls": [{"name": "mcp__one__order", "args": {}}]}, {"text": "that was it"})]


def with_server(daemon: Daemon) -> Daemon:
    values = {"command": sys.executable, "args": ["-m", "tests.harness.mcp_server"]}
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in MODULES.items())
    text = "\n".join(["", "[mcp.servers.one]", *lines, f"env = {{ {env} }}", ""])
    daemon.config.write_text(daemon.config.read_text() + text)
    return daemon


def test_a_question_is_answered_in_a_form(browser: Browser, tmp_path: Path) -> None:
    daemon = with_server(Daemon(tmp_path, script=SCRIPT, web=True))
    with daemon, console(browser, daemon) as window:
        other, page = OtherClient(daemon), window.log_in().page
        session_id = other.start("order", approvalPolicy="all")
        window.open(session_id)
        form = page.get_by_role("region", name="Question")
        expect(form).to_contain_text("mcp:one asks")
        expect(form).to_contain_text("What would you like?")
        expect(form.get_by_label("Size")).to_have_value("2")
        form.get_by_role("button", name="Answer").click()
        expect(page.get_by_text("colour is missing")).to_be_visible()
        form.get_by_label("Size").fill("3")
        form.get_by_label("Colour").fill("red")
        form.get_by_role("button", name="Answer").click()
        expect(form).to_contain_text("Answered by console")
        expect(page.locator(".timeline")).to_contain_text("that was it")
        results = [event["payload"]["text"] for event in other.log(session_id) if event["type"] == "tool_result"]
        assert len(results) == 1 and "'size': 3, 'colour': 'red'" in results[0]
        other.close()


def test_names_of_prompts_are_completed(browser: Browser, tmp_path: Path) -> None:
    daemon = with_server(Daemon(tmp_path, script=SCRIPT, web=True))
    with daemon, console(browser, daemon) as window:
        other, page = OtherClient(daemon), window.log_in().page
        session_id = other.start("hello", approvalPolicy="all")
        window.open(session_id)
        expect(page.locator(".timeline")).to_contain_text("hello")
        composer = page.get_by_role("textbox", name="Message")
        names = page.get_by_role("list", name="Commands")

        def is_offered() -> bool:
            """The server may still be starting: the list is asked for again after a while."""
            composer.fill("")
            composer.press_sequentially("/mcp__one__r")
            return names.count() == 1

        deadline = time.monotonic() + PATIENCE
        while not is_offered():
            assert time.monotonic() < deadline, "the server's command is not offered"
            page.wait_for_timeout(500)
        expect(names).to_contain_text("/mcp__one__review")
        expect(names).to_contain_text("Asks for a review.")
        composer.press("Tab")
        expect(composer).to_have_value("/mcp__one__review ")
        expect(names).to_have_count(0)
        composer.press_sequentially("main.py")
        composer.press("Enter")
        expect(page.locator(".timeline")).to_contain_text("Review main.py")
        other.close()

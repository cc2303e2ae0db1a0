"""A real browser on a real daemon's console.

Invariant: a page on which the browser reported an error, or that tried what the content policy forbids, fails its test.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect

from buddy.client.blocking import BlockingClient, connect_unix
from tests.harness.daemon import Daemon
from tests.harness.scripts import Reply, section, shell

CHROMIUM = "/usr/bin/chromium"
PACKAGES = Path(os.environ.get("BUDDY_AGENTS_DIR") or Path.home() / ".cache" / "buddy-agents") / "node_modules"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE_MS = 120_000
expect.set_options(timeout=PATIENCE_MS)

WRITE = {"name": "write_file", "args": {"path": "b.txt", "content": "one\ntwo\n"}}
SCRIPT: list[Reply] = [
    section("^say", {"text": "**Bold** and `code`", "thinking": "let me think"}),
    section("^make", shell("echo made >> made.txt", "I make it."), {"text": "made"}),
    section("^write", {"calls": [WRITE]}, {"text": "written"}),
    section("^load", shell(r"for i in $(seq 20); do printf '%s%%\r' $i; done"), {"text": "loaded"}),
    section("^touch", shell("for i in $(seq 32); do echo > file$i; done"), {"text": "touched"}),
    section("^wait", shell("echo started; exec sleep 600"), {"text": "never"}),
    section("^drip", {"text": "drop " * 300, "delay": 0.01}),
]


class OtherClient:
    """A client in the test, beside the browser: it starts sessions and sees the log."""

    def __init__(self, daemon: Daemon, name: str = "cli") -> None:
        connection = connect_unix(str(daemon.socket))
        assert connection is not None
        self.client = BlockingClient(connection, name, "1")
        self.workspace = daemon.workspace
        self.number = 0

    def ask(self, kind: str, payload: dict[str, Any], session_id: str | None = None) -> dict[str, Any]:
        return self.client.ask(kind, payload, session_id)

    def start(self, text: str = "", **options: Any) -> str:
        """A session in the workspace; with a text, its first run has begun."""
        repo = {"rootPath": str(self.workspace)}
        wanted: dict[str, Any] = {
            "mode": "interactive",
            "provider": "default",
            "sandboxProvider": "local",
            "repo": repo,
            "options": {"approvalPolicy": "ask", **options},
        }
        session_id: str = self.ask("start_session", wanted)["sessionId"]
        if text:
            self.send(session_id, text)
        return session_id

    def send(self, session_id: str, text: str) -> None:
        self.number += 1
        message = {"sessionId": session_id, "clientMessageId": f"msg_test{id(self)}.{self.number}", "text": text}
        self.ask("send_user_message", message, session_id)

    def log(self, session_id: str) -> list[dict[str, Any]]:
        """All events of a session so far."""
        events: list[dict[str, Any]] = []
        while True:
            after = events[-1]["seq"] if events else 0
            page = self.ask("read_events", {"after": after, "limit": 1000}, session_id)
            events += page["events"]
            if not page["events"]:
                return events

    def close(self) -> None:
        self.client.close()


class Console:
    """One browser window on the console."""

    def __init__(self, context: BrowserContext, daemon: Daemon) -> None:
        self.context = context
        self.daemon = daemon
        self.page: Page = context.new_page()
        self.problems: list[str] = []
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))

    def _note(self, message: ConsoleMessage) -> None:
        # The browser itself reports a lost connection and a refused login as errors; the page shows both.
        is_network = "WebSocket" in message.text or "Failed to load resource" in message.text
        if message.type in ("error", "warning") and not is_network:
            self.problems.append(message.text)

    def log_in(self, to: str = "/") -> "Console":
        self.page.goto(self.link())
        expect(self.page.locator(".brand, .signed-out")).to_be_visible()
        if to != "/":
            self.page.goto(self.address + to)
        return self

    def link(self) -> str:
        other = OtherClient(self.daemon)
        url: str = other.ask("mint_web_link", {})["url"]
        other.close()
        return url

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.daemon.port()}"

    def open(self, session_id: str) -> None:
        # Not a real press: a row that moves to another group at that moment would not get it.
        self.page.locator(f'.row-link[href="/session/{session_id}"]').dispatch_event("click")
        expect(self.page.locator(".session-head h1")).to_be_visible()

    def say(self, text: str) -> None:
        self.page.fill("#composer", text)
        self.page.press("#composer", "Enter")

    @property
    def timeline(self) -> Locator:
        return self.page.locator(".timeline")

    def entries(self) -> list[str]:
        """The rows that are shown, as their kinds."""
        return self.page.locator(".timeline .entry").evaluate_all(
            "rows => rows.map(row => row.className.split(' ')[1])"
        )


@contextmanager
def console(browser: Browser, daemon: Daemon, **options: Any) -> Generator[Console]:
    """A window of its own: another browser, as far as the daemon can tell."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, **options)
    window = Console(context, daemon)
    try:
        yield window
        assert window.problems == [], window.problems
    finally:
        context.close()


def axe_source() -> str:
    """axe-core, which looks for what people with a screen reader or a keyboard cannot use."""
    return (package("axe-core") / "axe.min.js").read_text(encoding="utf-8")


def package(name: str) -> Path:
    """An npm package that `.ci/run` installs; in CI, it is an error if it is missing."""
    if not (PACKAGES / name).is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed, but .ci/run installs it")
        pytest.skip(f"{name} is not installed")
    return PACKAGES / name

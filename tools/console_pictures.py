"""Take the pictures of the console for the docs: `python tools/console_pictures.py`, with Chromium installed.

A daemon with a scripted model does some work in a few folders; the browser looks at it.
"""

import json
import os
import socket
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent.parent / "docs" / "images"
BUDDY = Path(sysconfig.get_path("scripts")) / "buddy"
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]

ANSWER = """Fixed: `total` now rounds to cents, and a test covers it.

| file | change |
|---|---|
| `cart.py` | rounds with `Decimal` instead of `float` |
| `test_cart.py` | three cases, one of them negative |

- [x] the failing test passes
- [ ] the tax table still uses floats; shall I change it, too?
"""
BEFORE = "def total(items):\n    return round(sum(item.price for item in items), 2)\n"
AFTER = (
    "from decimal import Decimal\n\n\n"
    'def total(items):\n    return sum(item.price for item in items).quantize(Decimal("0.01"))\n'
)
TEST = "from cart import total\n\n\ndef test_total_rounds_to_cents():\n    assert total([]) == 0\n"
FAILED = (
    'printf \'test_total_rounds_to_cents FAILED\\n  assert 10.0 == Decimal("10.01")\\n'
    "1 failed, 41 passed in 0.38s\\n'; exit 1"
)


def shell(command: str, text: str = "", thinking: str = "") -> dict[str, Any]:
    return {"text": text, "thinking": thinking, "calls": [{"name": "run_shell", "args": {"command": command}}]}


def call(name: str, text: str = "", **args: str) -> dict[str, Any]:
    return {"text": text, "calls": [{"name": name, "args": args}]}


SCRIPT = [
    {
        "match": "^Fix",
        "replies": [
            shell(FAILED, "I run the tests first.", "The report names the cart's total: floats, most likely."),
            call("read_file", path="cart.py"),
            call("edit_file", path="cart.py", old=BEFORE, new=AFTER),
            call("write_file", path="test_cart.py", content=TEST),
            shell("echo 42 passed in 0.36s"),
            {"text": ANSWER},
        ],
    },
    {
        "match": "^Release",
        "replies": [
            shell(
                "git tag v1.4.0 && git push origin main --tags", "Everything is green. I tag the release and push it."
            ),
            {"text": "Released."},
        ],
    },
    {
        "match": "^Build",
        "replies": [shell("for n in $(seq 1 900); do echo compiling module $n; sleep 1; done"), {"text": "Built."}],
    },
    {"match": ".", "replies": [{"text": "Done."}]},
]
WORK = [
    ("docs", "Write an introduction for newcomers", "all"),
    ("parser", "Why is the grammar ambiguous?", "all"),
    ("shop", "Fix the rounding error in the cart's total", "all"),
    ("parser", "Build everything and report warnings", "all"),
    ("shop", "Release version 1.4", "ask"),
]


class Demo:
    """A daemon with some sessions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "script.json").write_text(json.dumps({"on": SCRIPT}), encoding="utf-8")
        config = f'[agent]\nmodel = "demo"\n[models.demo]\napi = "scripted"\nscript = "{folder}/script.json"\n'
        (folder / "buddy.toml").write_text(config, encoding="utf-8")
        places = ["--state-dir", folder / "state", "--config", folder / "buddy.toml"]
        env = {**os.environ, "HOME": str(folder)}
        self.daemon = subprocess.Popen([BUDDY, "daemon", "run", "--listen", "127.0.0.1:0", *places], env=env)
        self.lines = self._connect().makefile("rw", encoding="utf-8")
        self.number = 0
        self.ask("hello", {"clientName": "cli", "clientVersion": "1", "capabilities": []})
        self.sessions = {text: self._start(name, text, policy) for name, text, policy in WORK}

    def _connect(self) -> socket.socket:
        for _ in range(200):
            connection = socket.socket(socket.AF_UNIX)
            if connection.connect_ex(str(self.folder / "state" / "run" / "buddyd.sock")) == 0:
                return connection
            time.sleep(0.1)
        raise SystemExit("error: the daemon did not start")

    def ask(self, kind: str, payload: dict[str, Any], session_id: str = "") -> dict[str, Any]:
        self.number += 1
        request: dict[str, Any] = {
            "v": "push.runtime.v1",
            "kind": "request",
            "requestId": f"req_{self.number}",
            "type": kind,
        }
        place = {"sessionId": session_id} if session_id else {}
        self.lines.write(json.dumps({**request, **place, "payload": payload}) + "\n")
        self.lines.flush()
        for line in self.lines:
            message = json.loads(line)
            if message.get("requestId") == f"req_{self.number}":
                if not message["ok"]:
                    raise SystemExit(f"error: {kind}: {message['error']['message']}")
                return message["payload"]
        raise SystemExit("error: the daemon is gone")

    def _start(self, name: str, text: str, policy: str) -> str:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "cart.py").write_text(BEFORE, encoding="utf-8")
        wanted = {
            "mode": "interactive",
            "provider": "default",
            "sandboxProvider": "local",
            "repo": {"rootPath": str(folder)},
            "options": {"approvalPolicy": policy},
        }
        session_id: str = self.ask("start_session", wanted)["sessionId"]
        message = {"sessionId": session_id, "clientMessageId": f"msg_{self.number}", "text": text}
        self.ask("send_user_message", message, session_id)
        time.sleep(2)
        self.ask("set_approval_policy", {"policy": "ask"}, session_id)
        return session_id


def open_session(page: Page, demo: Demo, text: str) -> None:
    page.locator(f'.row-link[href="/session/{demo.sessions[text]}"]').dispatch_event("click")
    page.wait_for_selector(".timeline .entry")
    page.wait_for_timeout(500)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        demo = Demo(Path(name))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 760}, color_scheme="light")
            page.goto(demo.ask("mint_web_link", {})["url"])
            page.wait_for_selector(".row")
            open_session(page, demo, "Fix the rounding error in the cart's total")
            page.screenshot(path=IMAGES / "console.png")
            open_session(page, demo, "Release version 1.4")
            page.screenshot(path=IMAGES / "console-approval.png")
            page.emulate_media(color_scheme="dark")
            open_session(page, demo, "Fix the rounding error in the cart's total")
            page.get_by_role("button", name="Time travel").click()
            slider = page.get_by_label("Point in the session")
            slider.fill(str(int(int(slider.get_attribute("max") or 0) * 0.7)))
            page.wait_for_timeout(700)
            page.screenshot(path=IMAGES / "console-time-travel.png")
            page.set_viewport_size({"width": 390, "height": 760})
            open_session(page, demo, "Release version 1.4")
            page.screenshot(path=IMAGES / "console-phone.png")
        finally:
            browser.close()
            demo.daemon.terminate()
            demo.daemon.wait(30)


if __name__ == "__main__":
    main()

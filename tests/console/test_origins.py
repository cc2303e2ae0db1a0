"""Another page in the same browser, which sends the console's cookie along: it can neither connect nor post."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page

from tests.console.browser import Console, console
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.slow

CONNECT = """address => new Promise(resolve => {
  const socket = new WebSocket(address.replace("http", "ws") + "/ws", "push.runtime.v1");
  socket.onopen = () => resolve("open");
  socket.onerror = () => resolve("refused");
})"""
POST = """address => fetch(address + "/logout", {method: "POST", mode: "no-cors", credentials: "include"})
  .then(() => "sent", () => "failed")"""
READ = """address => fetch(address + "/login", {credentials: "include"}).then(() => "read", () => "refused")"""
LOAD = """address => new Promise(resolve => {
  const script = document.createElement("script");
  script.src = address + "/main.js";
  script.type = "module";
  script.onload = () => resolve("loaded");
  script.onerror = () => resolve("refused");
  document.body.append(script);
})"""
FRAME = """address => new Promise(resolve => {
  const frame = document.createElement("iframe");
  frame.src = address + "/";
  frame.onload = () => { try { resolve(frame.contentDocument ? "shown" : "refused"); } catch { resolve("refused"); } };
  document.body.append(frame);
})"""


class _EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>another page</title><body></body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """Another server on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _EmptyPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_on_another_port_gets_nothing(browser: Browser, daemon: Daemon, port: int, host: str) -> None:
    with console(browser, daemon) as window:
        window.log_in()
        foreign = window.context.new_page()
        foreign.goto(f"http://{host}:{port}/")
        assert cookies_for(window, window.address) == 1
        assert tried(foreign, window, CONNECT) == "refused"
        assert tried(foreign, window, READ) == "refused"
        assert tried(foreign, window, LOAD) == "refused"
        assert tried(foreign, window, FRAME) == "refused"
        tried(foreign, window, POST)
        assert window.page.evaluate("fetch('/login').then(answer => answer.status)") == 200
        assert window.page.evaluate("document.cookie") == ""
        assert window.page.evaluate(CONNECT, window.address) == "open"


def cookies_for(window: Console, address: str) -> int:
    return len(window.context.cookies(address))


def tried(page: Page, window: Console, script: str) -> str:
    return page.evaluate(script, window.address)

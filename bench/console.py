"""The console in a browser: opening a long session, keeping up with a stream, and what the first load costs.

The floor is the same browser on a page of one line from the same kind of server: what nobody can be faster than.
"""

import contextlib
import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.benchmarks import Benchmark, Contender
from bench.figures import Metric, Sample
from bench.setup import BUDDY, BenchmarkError, Setup

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
EVENTS = 100_000
FRAMES = """async () => {
  const gaps = [];
  let last = performance.now();
  const end = last + %d;
  while (last < end) {
    await new Promise(requestAnimationFrame);
    gaps.push(performance.now() - last);
    last = performance.now();
  }
  return gaps;
}"""
PAINTED = "async () => { for (let at = 0; at < 2; at++) await new Promise(requestAnimationFrame); }"
SCRIPT = {
    "on": [
        {
            "match": "^grow",
            "replies": [{"calls": [{"name": "read_file", "args": {"path": "a.txt"}}]}, {"text": "Read."}],
        },
        {"match": "^drip", "replies": [{"text": "word " * 20_000, "delay": 0.001}]},
    ]
}


def console(setup: Setup) -> Iterator[Contender]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise BenchmarkError("playwright is not installed: make install") from error
    playwright = setup.cleanup.enter_context(sync_playwright())
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    setup.cleanup.callback(browser.close)
    events = 10_000 if setup.quick else EVENTS
    daemon = ConsoleDaemon(setup, events)

    yield Contender("a page of one line", "floor", partial(_floor, browser, plain_server(setup)))
    yield Contender("console", "buddy", partial(_console, browser, daemon))


def _console(browser: Any, daemon: "ConsoleDaemon") -> Sample:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        loaded = _count_bytes(context, page)
        page.goto(daemon.link())
        page.wait_for_selector(".row")
        first_load = loaded[0]
        began = time.perf_counter()
        page.locator(f'.row-link[href="/session/{daemon.long}"]').dispatch_event("click")
        page.wait_for_selector(".timeline .entry")
        page.evaluate(PAINTED)
        opened = (time.perf_counter() - began) * 1000
        streaming = daemon.start("drip")
        page.locator(f'.row-link[href="/session/{streaming}"]').dispatch_event("click")
        page.wait_for_selector(".timeline .reply")
        gaps = page.evaluate(FRAMES % 3000)
        daemon.cancel(streaming)
        return {"console-open": [opened], "console-bytes": [first_load / 1024], "console-frames": gaps}
    finally:
        context.close()


def _floor(browser: Any, address: str) -> Sample:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        loaded = _count_bytes(context, page)
        began = time.perf_counter()
        page.goto(address)
        page.wait_for_selector("p")
        page.evaluate(PAINTED)
        opened = (time.perf_counter() - began) * 1000
        return {
            "console-open": [opened],
            "console-bytes": [loaded[0] / 1024],
            "console-frames": page.evaluate(FRAMES % 1000),
        }
    finally:
        context.close()


def _count_bytes(context: Any, page: Any) -> list[float]:
    """Bytes on the wire so far, headers included."""
    total = [0.0]
    session = context.new_cdp_session(page)
    session.send("Network.enable")

    def add(event: dict[str, float]) -> None:
        total[0] += event["encodedDataLength"]

    session.on("Network.loadingFinished", add)
    return total


class ConsoleDaemon:
    """A daemon with the console, and a session of many events."""

    def __init__(self, setup: Setup, events: int) -> None:
        self._setup = setup
        self._folder = setup.new_folder("console")
        self._state = self._folder / "state"
        self._number = 0
        (self._folder / "script.json").write_text(json.dumps(SCRIPT), encoding="utf-8")
        table = f'[agent]\nmodel = "script"\n[models.script]\napi = "scripted"\nscript = "{self._folder}/script.json"\n'
        (self._folder / "buddy.toml").write_text(table, encoding="utf-8")
        daemon = self._start()
        self.long = self.start("grow")
        self._wait_idle(self.long)
        daemon.terminate()
        daemon.wait(30)
        grow(self._state / "buddy.db", self.long, events)
        self._start()

    def start(self, text: str) -> str:
        repo = {"rootPath": str(self._folder)}
        wanted = {"mode": "interactive", "provider": "default", "sandboxProvider": "local", "repo": repo}
        session_id: str = self.ask("start_session", wanted)["sessionId"]
        self._number += 1
        message = {"sessionId": session_id, "clientMessageId": f"msg_{self._number}", "text": text}
        self.ask("send_user_message", message, session_id)
        return session_id

    def link(self) -> str:
        """A link to the console, which opens a moment after the socket."""
        for _ in range(200):
            try:
                return self.ask("mint_web_link", {})["url"]
            except BenchmarkError:
                time.sleep(0.05)
        return self.ask("mint_web_link", {})["url"]

    def cancel(self, session_id: str) -> None:
        run_id = self.ask("get_snapshot", {}, session_id).get("activeRunId")
        if run_id:
            self.ask("cancel_run", {"sessionId": session_id, "runId": run_id}, session_id)
        self._wait_idle(session_id)

    def ask(self, kind: str, payload: dict[str, Any], session_id: str | None = None) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._state / "run" / "buddyd.sock"))
            lines = connection.makefile("rw", encoding="utf-8")
            hello: dict[str, Any] = {"clientName": "bench", "clientVersion": "1", "capabilities": []}
            for number, (name, body) in enumerate((("hello", hello), (kind, payload))):
                envelope = {"v": "push.runtime.v1", "kind": "request", "requestId": f"req_{number}", "type": name}
                place = {"sessionId": session_id} if session_id and number else {}
                lines.write(json.dumps({**envelope, **place, "payload": body}) + "\n")
            lines.flush()
            for line in lines:
                message = json.loads(line)
                if message.get("requestId") == "req_1":
                    if not message["ok"]:
                        raise BenchmarkError(f"{kind}: {message['error']['message']}")
                    return message["payload"]
        raise BenchmarkError(f"no answer to {kind}")

    def _start(self) -> Any:
        places = ["--state-dir", str(self._state), "--config", str(self._folder / "buddy.toml")]
        daemon = self._setup.start([BUDDY, "daemon", "run", "--listen", "127.0.0.1:0", *places])
        self._setup.wait_for_socket(self._state / "run" / "buddyd.sock", daemon)
        self.pid = daemon.pid
        return daemon

    def _wait_idle(self, session_id: str) -> None:
        for _ in range(1000):
            if self.ask("get_snapshot", {}, session_id)["state"] == "idle":
                return
            time.sleep(0.05)
        raise BenchmarkError("the run did not end")


def grow(database: Path, session_id: str, events: int) -> None:
    """Repeat a session's run under new ids until its log is that long; the daemon must not be running."""
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        key, last = connection.execute("SELECT key, last_seq FROM sessions WHERE id = ?", (session_id,)).fetchone()
        query = "SELECT ts, run_id, type, payload FROM events WHERE session = ? ORDER BY seq"
        recorded = connection.execute(query, (key,)).fetchall()
        first = next(at for at, event in enumerate(recorded) if event[2] == "user_message")
        run, run_id = recorded[first:], next(event[1] for event in recorded if event[1])
        added: list[tuple[object, ...]] = []
        copy = 0
        while last + len(added) < events:
            copy += 1
            name = f"{run_id[:-5]}{copy:05d}"
            for ts, of_run, kind, payload in run:
                text = payload.replace(run_id, name).replace('"callId":"', f'"callId":"{copy}-')
                text = text.replace('"messageId":"msg_', f'"messageId":"msg_{copy}_')
                added.append((key, last + len(added) + 1, ts, name if of_run else None, kind, text))
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", added)
        connection.execute("UPDATE sessions SET last_seq = ? WHERE key = ?", (last + len(added), key))
    connection.close()


@cache
def plain_server(setup: Setup) -> str:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>x</title><link rel=icon href=data:,><p>one line")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    setup.cleanup.callback(server.shutdown)
    return f"http://127.0.0.1:{server.server_address[1]}/"


BENCHMARKS = (
    Benchmark(
        "console",
        (
            Metric("console-open", "open a session of 100,000 events in the browser", "ms", "≤ 1,000"),
            Metric("console-frames", "time between frames while text streams in", "ms", "≤ floor + 4", tail=True),
            Metric("console-bytes", "first load of the console, compressed", "KiB", "≤ 60"),
        ),
        console,
        rounds=3,
    ),
)

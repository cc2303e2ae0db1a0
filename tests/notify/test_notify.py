"""Notifications as their receivers meet them: a webhook that is signed, a topic, a desktop; and none for who looks."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import queue
import signal
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from msgspec import Struct

from buddy.config.load import parse_config
from buddy.errors import UserError
from buddy.notify.notices import Notice, SessionPlace
from buddy.notify.notifier import Notifier
from buddy.notify.senders import Ntfy, SendFailed, Webhook, sign
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import RunComplete
from tests.harness.acp_client import AcpClient
from tests.harness.home import Home
from tests.harness.processes import CANARY, PATIENCE, wait_until
from tests.harness.scripts import section, shell, write_config, write_script

KEY = b"0123456789abcdef01234567"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
SESSION, RUN = "sess_01M7N7T5JTPG1G1SDRN1Q1ZZW6", "run_01M7N7T5JTPG1G1SDRN1Q1ZZW7"
PLACE = SessionPlace("fix the tests", "/srv/app", f"buddy resume {SESSION}")
FINISHED = Notice("n1", "finished", SESSION, RUN, 1_700_000_000_000, "all green", "success")


class Received(Struct, frozen=True):
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """An HTTP server that keeps what it gets, and answers with these status codes, then with 200."""

    def __init__(self, *statuses: int) -> None:
        self.received: queue.SimpleQueue[Received] = queue.SimpleQueue()
        self.statuses = list(statuses)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.put(Received(self.path, headers, body))
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"

    def next(self) -> Received:
        return self.received.get(timeout=PATIENCE)

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def receiver() -> Generator[Receiver, None, None]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def verify(received: Received) -> dict[str, object]:
    """The body of a webhook, if its signature is right."""
    signed = f"{received.headers['webhook-id']}.{received.headers['webhook-timestamp']}.".encode() + received.body
    expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert received.headers["webhook-signature"] == f"v1,{expected}"
    return json.loads(received.body)


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example that the libraries of the standard are tested with."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_webhook_says_which_session_and_how_it_ended(receiver: Receiver) -> None:
    await Webhook(f"{receiver.url}/hook?team=a", KEY).send(FINISHED, PLACE)
    received = receiver.next()
    assert received.path == "/hook?team=a" and received.headers["webhook-id"] == "msg_n1"
    body = verify(received)
    assert body["type"] == "session.finished" and body["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert body["data"] == {
        "sessionId": SESSION,
        "runId": RUN,
        "title": "fix the tests",
        "cwd": "/srv/app",
        "text": "all green",
        "link": f"buddy resume {SESSION}",
        "outcome": "success",
    }


async def test_ntfy_gets_a_title_a_priority_and_a_link(receiver: Receiver) -> None:
    place = SessionPlace("größer", "/srv/app", "http://127.0.0.1:7878/session/x")
    await Ntfy(f"{receiver.url}/topic").send(Notice("n", "needs_you", SESSION, RUN, 0, "run a command: ls"), place)
    received = receiver.next()
    assert received.path == "/topic" and received.body.decode().startswith("run a command: ls")
    title = received.headers["title"].removeprefix("=?UTF-8?B?").removesuffix("?=")
    assert base64.b64decode(title).decode() == "Needs you: größer"
    assert received.headers["priority"] == "4" and received.headers["click"] == place.link


@pytest.mark.parametrize(("statuses", "tries"), [((503, 429), 3), ((410,), 1), ((400,), 1)])
async def test_what_may_work_later_is_tried_again_under_the_same_id(statuses: tuple[int, ...], tries: int) -> None:
    receiver = Receiver(*statuses)
    try:
        notifier = Notifier([Webhook(receiver.url, KEY)], find, lambda _: False, pauses=(0.01, 0.01))
        notifier.observe([complete()])
        await notifier.close()
        got = [await asyncio.to_thread(receiver.next) for _ in range(tries)]
        assert receiver.received.empty() and len({one.headers["webhook-id"] for one in got}) == 1
    finally:
        receiver.close()


async def test_while_somebody_looks_nothing_is_sent(receiver: Receiver) -> None:
    notifier = Notifier([Webhook(receiver.url, KEY)], find, lambda session: session == SESSION)
    notifier.observe([complete()])
    await notifier.close()
    assert receiver.received.empty()


def complete() -> Event:
    body = RunComplete(run_id=RUN, outcome="success", summary="all\x1b[31m green")
    return event_of(body, session_id=SESSION, seq=7, ts=1_700_000_000_000, run_id=RUN)


async def find(session_id: str) -> SessionPlace:
    assert session_id == SESSION
    return PLACE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('webhook_url = "ftp://x"', "webhook_url must start with https"),
        ('webhook_url = "https://x"', "webhook_url requires webhook_secret"),
        ('webhook_url = "https://x"\nwebhook_secret = "short"', "webhook_secret must be whsec_"),
        ('terminal = "loud"', "terminal"),
    ],
)
def test_a_mistake_in_the_file_is_explained(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse_config(f"[notify]\n{text}\n", "buddy.toml")


# --- with the real daemon ---------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, receiver: Receiver) -> Generator[Home, None, None]:
    home = Home(tmp_path / "home")
    fake = home.directory / "bin" / "notify-send"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >> "$HOME/desktop"\n')
    fake.chmod(0o755)
    home.env["PATH"] = f"{fake.parent}:{home.env['PATH']}"
    script = {"on": [section("^make", shell("touch made"), {"text": "made it"}), section("^hello", {"text": "hi"})]}
    notify = {"webhook_url": receiver.url + "/hook", "webhook_secret": SECRET, "ntfy_url": receiver.url + "/topic"}
    path = home.directory / ".config" / "buddy" / "buddy.toml"
    write_config(path, write_script(home.directory, script), notify={**notify, "desktop": True})
    yield home
    home.run("daemon", "stop")


def test_a_session_calls_when_it_needs_somebody_and_when_it_has_finished(home: Home, receiver: Receiver) -> None:
    with AcpClient(home.work, home.env, "--sandbox", "host") as editor:
        session = editor.open()
        editor.prompt(session, "make it")
    got = [receiver.next() for _ in range(4)]
    hooks = [verify(one) for one in got if one.path == "/hook"]
    assert [one["type"] for one in hooks] == ["session.needs_you", "session.finished"]
    assert "touch made" in str(hooks[0]) and session in str(hooks[0]) and "made it" in str(hooks[1])
    assert sum(one.path == "/topic" for one in got) == 2
    desktop = home.directory / "desktop"
    wait_until(lambda: desktop.exists() and "Finished: make it" in desktop.read_text(), "the desktop")
    assert "Needs you: make it" in desktop.read_text()
    assert SECRET.encode() not in home.everything()


def test_a_registered_secret_is_in_no_notification(home: Home, receiver: Receiver) -> None:
    """Not in a title, in a question or in an answer."""
    home.env["CANARY_API_KEY"] = CANARY
    leaky = section("^use", shell(f"touch {CANARY}; touch made"), {"text": f"the key is {CANARY}"})
    write_script(home.directory, {"on": [leaky]})
    with AcpClient(home.work, home.env, "--sandbox", "host") as editor:
        editor.prompt(editor.open(), f"use {CANARY} to make it")
    got = [receiver.next() for _ in range(4)]
    hooks = [verify(one) for one in got if one.path == "/hook"]
    assert [one["type"] for one in hooks] == ["session.needs_you", "session.finished"]
    assert "touch made" in str(hooks[0]) and "the key is" in str(hooks[1]) and "to make it" in str(hooks[1])
    desktop = home.directory / "desktop"
    wait_until(lambda: desktop.exists() and "the key is" in desktop.read_text(), "the desktop")
    assert CANARY not in desktop.read_text()
    for one in got:
        assert CANARY.encode() not in one.body
        assert CANARY not in str(one.headers)


@pytest.mark.slow
def test_what_a_killed_daemon_did_not_deliver_arrives_under_the_same_id(home: Home, receiver: Receiver) -> None:
    receiver.statuses[:] = [503, 503]
    home.run("daemon", "start")
    assert home.run("exec", "hello").code == 0
    first = [receiver.next() for _ in range(2)]
    desktop = home.directory / "desktop"
    wait_until(desktop.exists, "the desktop")
    os.kill(int((home.state / "daemon.lock").read_text()), signal.SIGKILL)
    shown = desktop.read_text()
    for _ in range(2):  # the second time, there is nothing left to send
        home.run("daemon", "start")
        if not (home.state / "notified").read_text().count("webhook"):
            again = [receiver.next() for _ in range(2)]
            wait_until(lambda: len((home.state / "notified").read_text().splitlines()) == 3, "the ledger")
            assert sorted(one.path for one in again) == sorted(one.path for one in first) == ["/hook", "/topic"]
            assert len({one.headers["webhook-id"] for one in (*first, *again) if one.path == "/hook"}) == 1
        home.run("daemon", "stop")
    assert desktop.read_text() == shown
    assert receiver.received.empty()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\n\r\n", b"\0" * 100_000, b""])
async def test_a_hostile_answer_is_a_failure_and_is_not_followed(answer: bytes) -> None:
    asked: list[bytes] = []

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    async with server:
        with pytest.raises(SendFailed):
            await Webhook(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook", KEY).send(FINISHED, PLACE)
    assert asked == [b"POST /hook HTTP/1.1\r\n"]


@pytest.mark.slow
def test_a_terminal_that_is_looked_at_keeps_everybody_quiet(home: Home, receiver: Receiver) -> None:
    with home.terminal() as terminal:
        terminal.wait_for("\x1b[?1004h")
        terminal.type("\x1b[I")
        terminal.type("hello\r")
        terminal.wait_for("done")
        assert b"\a" not in terminal.shown
        terminal.type("\x1b[O")
        assert home.run("exec", "hello from a script").code == 0
    got = [verify(one) for one in (receiver.next(), receiver.next()) if one.path == "/hook"]
    assert [one["data"]["title"] for one in got] == ["hello from a script"]  # pyright: ignore[reportIndexIssue] - JSON


@pytest.mark.slow
@pytest.mark.parametrize(
    ("style", "sequence"),
    [
        ("osc9", "\a\x1b]9;Buddy has finished: hi\x1b\\"),
        ("osc777", "\a\x1b]777;notify;Buddy has finished;hi\x1b\\"),
        ("osc99", "\a\x1b]99;i=buddy:d=0:e=1;"),
        ("bell", "\a"),
    ],
)
def test_a_terminal_without_the_focus_calls_its_person(home: Home, style: str, sequence: str) -> None:
    path = home.directory / ".config" / "buddy" / "buddy.toml"
    text = path.read_text().replace("[notify]", f'[notify]\nterminal = "{style}"')
    path.write_text(text)
    with home.terminal() as terminal:
        terminal.wait_for("\x1b[?1004h")
        terminal.type("\x1b[O")
        terminal.type("hello\r")
        terminal.wait_for(sequence)

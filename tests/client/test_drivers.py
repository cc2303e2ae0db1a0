"""Both drivers against the same fake runtime: what holds for one holds for the other."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from buddy.client import blocking, core
from buddy.client.blocking import BlockingClient, connect_unix
from buddy.client.client import Client
from buddy.client.socket import connect_unix as connect_asyncio
from buddy.errors import ProtocolError, UserError
from buddy.protocol.basics import VERSION
from buddy.protocol.requests import SendUserMessage, StartSession
from buddy.protocol.shapes import Repo

Fields = dict[str, Any]
Talk = Callable[["Line"], None]
WAIT = 20.0
REPLAY = {"fromSeq": 1, "toSeq": 1, "completed": False, "gap": False}
REATTACHED = {"sessionId": "sess_1", "state": "idle", "replay": REPLAY}


class Line:
    """The runtime's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rb")
        self._connection = connection

    def expect(self, kind: str) -> Fields:
        request: Fields = json.loads(self._file.readline())
        assert request["type"] == kind
        return request

    def reply(self, request: Fields, payload: Fields | None = None, refusal: str = "", version: str = VERSION) -> None:
        error = {"code": refusal, "message": f"no: {refusal}", "retryable": False} if refusal else None
        head = {"v": version, "kind": "response", "requestId": request["requestId"], "type": request["type"]}
        self._write({**head, "ok": not refusal, "payload": payload or {}, "error": error})

    def welcome(self, version: str = VERSION) -> None:
        reply: Fields = {"runtimeName": "fake", "runtimeVersion": "1", "protocolVersion": version, "capabilities": []}
        self.reply(self.expect("hello"), reply)

    def begin(self) -> None:
        """A session is started, and a message asked for."""
        self.welcome()
        self.reply(
            self.expect("start_session"),
            {"sessionId": "sess_1", "state": "idle", "attachToken": "att_1", "resumed": False, "capabilities": []},
        )

    def say(self, *seqs: int) -> None:
        for seq in seqs:
            head = {"v": VERSION, "kind": "event", "sessionId": "sess_1", "seq": seq, "ts": 1}
            self._write({**head, "type": "assistant_token", "payload": {"text": str(seq)}})

    def attached(self, cursor: int) -> Fields:
        request = self.expect("attach_session")
        assert request["payload"] == {"sessionId": "sess_1", "lastSeenSeq": cursor, "attachToken": "att_1"}
        return request

    def _write(self, fields: Fields) -> None:
        self._connection.sendall(json.dumps(fields).encode() + b"\n")


class FakeRuntime:
    """A fake runtime that follows one script per connection and then disappears."""

    def __init__(self, path: Path, *parts: Talk) -> None:
        self.path = str(path)
        self._parts = parts
        self._failure: BaseException | None = None
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self.path)
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            for part in self._parts:
                connection, _ = self._listening.accept()
                with connection:
                    part(Line(connection))
        except BaseException as error:  # noqa: BLE001 - raised in the test
            self._failure = error
        finally:
            self._listening.close()
            Path(self.path).unlink()

    def finish(self) -> None:
        self._thread.join(WAIT)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure


class Driver:
    """A client that starts a session, sends a message, and takes events until the runtime is gone."""

    name: str

    def run(self, path: str) -> tuple[str, list[int]]:
        raise NotImplementedError


class Blocking(Driver):
    def __init__(self, name: str, gather: float) -> None:
        self.name = name
        self._gather = gather

    def run(self, path: str) -> tuple[str, list[int]]:
        connection = connect_unix(path)
        assert connection is not None
        client = BlockingClient(connection, "test", "1", lambda: connect_unix(path), self._gather)
        try:
            session_id = client.start_session({"mode": "headless", "provider": "p", "repo": {"rootPath": "/"}})
            message = {"sessionId": session_id, "clientMessageId": "msg_1", "text": "go"}
            run_id: str = client.ask("send_user_message", message, session_id)["runId"]
            return run_id, [event["seq"] for event, _ in client.events()]
        finally:
            client.close()


class Asynchronous(Driver):
    name = "asyncio"

    def run(self, path: str) -> tuple[str, list[int]]:
        return asyncio.run(self._run(Path(path)))

    async def _run(self, path: Path) -> tuple[str, list[int]]:
        link = await connect_asyncio(path)
        async with Client(
            link, "test", "1", reconnect=lambda: connect_asyncio(path), patience=blocking.PATIENCE
        ) as client:
            started = await client.start_session(StartSession("headless", "p", "local", Repo("/")))
            run_id = await client.send(SendUserMessage(started.session_id, "msg_1", "go"))
            return run_id, [event.seq async for event in client.events()]


DRIVERS = [Blocking("blocking", 0.0), Blocking("gathering", 0.001), Asynchronous()]


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setattr(blocking, "PATIENCE", 0.5)
    monkeypatch.setattr(core, "FIRST_WAIT", 0.001)
    yield request.param


def send(line: Line) -> None:
    line.begin()
    line.reply(line.expect("send_user_message"), {"runId": "run_1", "accepted": True})


def test_what_is_delivered_twice_comes_once(driver: Driver, tmp_path: Path) -> None:
    def part(line: Line) -> None:
        send(line)
        line.say(1, 2, 2, 1, 3)

    runtime = FakeRuntime(tmp_path / "s", part)
    assert driver.run(runtime.path) == ("run_1", [1, 2, 3])
    runtime.finish()


def test_events_that_come_before_the_answer_are_kept(driver: Driver, tmp_path: Path) -> None:
    def part(line: Line) -> None:
        line.begin()
        request = line.expect("send_user_message")
        line.say(1, 2)
        line.reply(request, {"runId": "run_1", "accepted": True})
        line.say(3)

    runtime = FakeRuntime(tmp_path / "s", part)
    assert driver.run(runtime.path) == ("run_1", [1, 2, 3])
    runtime.finish()


def test_after_a_lost_connection_it_continues_from_the_last_event(driver: Driver, tmp_path: Path) -> None:
    def first(line: Line) -> None:
        send(line)
        line.say(1, 2)

    def second(line: Line) -> None:
        line.welcome()
        line.reply(line.attached(2), REATTACHED)
        line.say(2, 3)

    runtime = FakeRuntime(tmp_path / "s", first, second)
    assert driver.run(runtime.path) == ("run_1", [1, 2, 3])
    runtime.finish()


def test_a_message_without_an_answer_is_sent_again_as_it_was(driver: Driver, tmp_path: Path) -> None:
    lost: list[Fields] = []

    def first(line: Line) -> None:
        line.begin()
        lost.append(line.expect("send_user_message"))

    def second(line: Line) -> None:
        line.welcome()
        line.reply(line.attached(0), REATTACHED)
        request = line.expect("send_user_message")
        assert request == lost[0]
        line.reply(request, {"runId": "run_1", "accepted": True})

    runtime = FakeRuntime(tmp_path / "s", first, second)
    assert driver.run(runtime.path)[0] == "run_1"
    runtime.finish()


def test_a_session_is_never_started_twice(driver: Driver, tmp_path: Path) -> None:
    def first(line: Line) -> None:
        line.welcome()
        line.expect("start_session")

    runtime = FakeRuntime(tmp_path / "s", first)
    with pytest.raises((UserError, ConnectionError)):
        driver.run(runtime.path)
    runtime.finish()


def test_a_refused_attach_ends_the_events(driver: Driver, tmp_path: Path) -> None:
    def first(line: Line) -> None:
        send(line)
        line.say(1)

    def second(line: Line) -> None:
        line.welcome()
        line.reply(line.attached(1), refusal="SESSION_NOT_FOUND")

    runtime = FakeRuntime(tmp_path / "s", first, second)
    assert driver.run(runtime.path) == ("run_1", [1])
    runtime.finish()


def test_a_refused_request_is_an_error_with_its_code(driver: Driver, tmp_path: Path) -> None:
    def part(line: Line) -> None:
        line.begin()
        line.reply(line.expect("send_user_message"), refusal="RUN_IN_PROGRESS")

    runtime = FakeRuntime(tmp_path / "s", part)
    with pytest.raises(ProtocolError) as refused:
        driver.run(runtime.path)
    assert refused.value.code == "RUN_IN_PROGRESS"
    runtime.finish()


def test_a_runtime_of_another_version_is_not_used(driver: Driver, tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path / "s", lambda line: line.welcome("push.v9"))
    with pytest.raises(ProtocolError, match=r"speaks push\.v9"):
        driver.run(runtime.path)
    runtime.finish()


def test_frames_of_another_version_are_named_as_such(driver: Driver, tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path / "s", lambda line: line.reply(line.expect("hello"), version="push.v9"))
    with pytest.raises(ProtocolError, match=r"not 'push\.v9'") as refused:
        driver.run(runtime.path)
    assert refused.value.code == "UNSUPPORTED_PROTOCOL_VERSION"
    runtime.finish()

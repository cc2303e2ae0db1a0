"""`exec` without its runtime: what it asks for, and what it says when the daemon is silent or gone."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from buddy.cli.commands import parse
from buddy.cli.exec import execute, on_cancel_refused
from buddy.cli.report import Report
from buddy.cli.run_follower import RunFollower
from buddy.client import blocking, client
from buddy.client.blocking import BlockingClient
from buddy.client.core import Fields
from buddy.errors import ProtocolError, UserError
from buddy.protocol.basics import VERSION
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import AssistantToken
from buddy.protocol.json_events import JsonEvent
from buddy.protocol.requests import SendUserMessage, StartSession

ALL = (
    "exec hi --approve 10m --max-turns 3 --max-tokens 9 --max-time 90s --profile p -m m --agent-runtime native "
    "--tmux here --sandbox host --plan --accept true --max-rounds 2"
)


class Overheard(BlockingClient):
    """A client whose requests are kept, and answered at once."""

    asked: dict[str, Fields]

    def hello(self) -> Fields:
        return {}

    def ask(self, kind: str, payload: Fields, session_id: str | None = None) -> Fields:
        self.asked[kind] = {**payload, "sessionId": session_id} if session_id else payload
        return {"sessionId": "sess_1", "attachToken": "att_1", "runId": "run_1"}

    def events(self) -> Iterator[tuple[JsonEvent, bytes]]:
        event = event_of(AssistantToken(text="hi"), session_id="sess_1", seq=1, ts=1, run_id="run_1")
        yield event.to_json(), event.line()


@pytest.fixture
def overheard(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Fields]]:
    asked: dict[str, Fields] = {}
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(Overheard, "asked", asked, raising=False)
    monkeypatch.setattr("buddy.cli.connect.BlockingClient", Overheard)

    def connect(_: str) -> socket.socket:
        return ours

    monkeypatch.setattr("buddy.cli.connect.connect_blocking", connect)
    yield asked
    theirs.close()


@pytest.mark.parametrize("arguments", ["exec hi", ALL, "run --headless hi"])
def test_what_exec_asks_for_is_what_the_protocol_takes(
    arguments: str, tmp_path: Path, overheard: dict[str, Fields]
) -> None:
    with pytest.raises(UserError, match="before the run ended") as error:
        execute(parse([*arguments.split(), "--state-dir", str(tmp_path), "-C", str(tmp_path)]))
    assert (error.value.exit_code, error.value.hint) == (75, "resume it with: buddy resume sess_1")
    message = msgspec.convert(overheard["send_user_message"], SendUserMessage)
    session = msgspec.convert(overheard["start_session"], StartSession)
    assert (message.text, session.mode) == ("hi", "headless")
    assert bool(message.acceptance_criteria) == ("--accept" in arguments)


def test_a_daemon_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "PATIENCE", 0.1)
    monkeypatch.setattr(client, "PATIENCE", 0.1)
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        for words in (["exec", "go"], ["ps"]):
            options = parse([*words, "--socket", path, "--state-dir", str(tmp_path)])
            with pytest.raises((UserError, TimeoutError), match=r"no answer|does not answer"):
                options.command(options)


@pytest.mark.parametrize(("code", "error"), [("NO_ACTIVE_RUN", UserError), ("STORAGE_FULL", ProtocolError)])
def test_a_run_that_cannot_be_cancelled_now_is_not_waited_for(code: str, error: type[Exception]) -> None:
    """Without an active run it is over, and says so itself; a full disk is an error at once."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        asking = BlockingClient(ours, "test", "1")
        asking.tell("cancel_run", {"sessionId": "sess_1"}, "sess_1", on_cancel_refused)
        asking._send()  # pyright: ignore[reportPrivateUsage] - the peer is in this thread
        _hello, cancel = (json.loads(line) for line in theirs.recv(65536).splitlines())
        refusal = {"code": code, "message": "no", "retryable": code == "STORAGE_FULL"}
        head = {"v": VERSION, "kind": "response", "requestId": cancel["requestId"], "type": "cancel_run"}
        theirs.sendall(json.dumps({**head, "ok": False, "payload": {}, "error": refusal}).encode() + b"\n")
        theirs.close()
        report = Report(json=True, stream_json=False)
        with pytest.raises(error):
            RunFollower(asking, report, "sess_1", "run_1", has_person=False).follow()

"""The protocol without I/O, as commands speak it: what is sent is what the runtime takes, and nothing is seen twice."""

from __future__ import annotations

import argparse
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from buddy.cli import driving
from buddy.cli.commands import build_parser, parse
from buddy.cli.driving import Errand
from buddy.cli.exec import execute, resume
from buddy.cli.following import Following
from buddy.cli.report import Report
from buddy.cli.talk import Talk
from buddy.client import client
from buddy.errors import ProtocolError, UserError
from buddy.protocol.codes import VERSION
from buddy.protocol.envelopes import parse_request, payload_of
from buddy.protocol.requests import Hello, SendUserMessage, StartSession

if TYPE_CHECKING:
    from buddy.cli.talk import Fields, Steps

ALL = (
    "exec hi --approve 10m --max-turns 3 --max-tokens 9 --max-time 90s --profile p -m m --agent-runtime native "
    "--tmux here --sandbox host --plan --accept true --max-rounds 2"
)


def sent(talk: Talk) -> list[Fields]:
    lines = bytes(talk.outgoing).splitlines()
    talk.outgoing.clear()
    return [json.loads(line) for line in lines]


def answer(request: Fields, payload: Fields | None = None, error: str = "") -> bytes:
    retryable = error in ("OVERLOADED", "STORAGE_FULL")
    wrong = {"code": error, "message": f"no {error}", "retryable": retryable} if error else None
    body = {"v": VERSION, "kind": "response", "requestId": request["requestId"], "type": request["type"]}
    return json.dumps({**body, "ok": not error, "payload": payload or {}, "error": wrong}).encode()


def event(seq: int) -> bytes:
    body: Fields = {
        "v": VERSION,
        "kind": "event",
        "sessionId": "sess_1",
        "seq": seq,
        "ts": 0,
        "type": "status",
        "payload": {},
    }
    return json.dumps(body).encode()


def begun(steps: Steps[Any]) -> Steps[Any]:
    next(steps)
    return steps


def ended(steps: Steps[Any], line: bytes | None) -> Any:
    with pytest.raises(StopIteration) as end:
        steps.send(line)
    return end.value.value


@pytest.mark.parametrize("arguments", ["exec hi", ALL, "run --headless hi"])
def test_what_exec_asks_for_is_what_the_protocol_takes(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overhear(_: argparse.Namespace, begin: Any) -> int:
        errand: Errand = begin()
        greeting, wish = sent(errand.talk)
        errand.feed(answer(greeting, {"protocolVersion": VERSION}))
        errand.feed(answer(wish, {"sessionId": "sess_1", "attachToken": "att_1"}))
        (message,) = sent(errand.talk)
        typed = [payload_of(parse_request(json.dumps(line).encode())) for line in (greeting, wish, message)]
        assert list(map(type, typed)) == [Hello, StartSession, SendUserMessage]
        return 7

    monkeypatch.setattr("buddy.cli.inprocess.run_here", overhear)
    words = [*arguments.split(), "--state-dir", str(tmp_path), "-C", str(tmp_path)]
    assert execute(build_parser(words[0]).parse_args(words)) == 7


def test_the_beginning_of_an_id_is_enough_to_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def overhear(_options: argparse.Namespace, begin: Any) -> int:
        errand: Errand = begin()
        _, listing = sent(errand.talk)
        errand.feed(answer(listing, {"sessions": [{"sessionId": "sess_AB"}, {"sessionId": "sess_CD"}]}))
        (attaching,) = sent(errand.talk)
        assert (attaching["type"], attaching["payload"]["sessionId"]) == ("attach_session", "sess_AB")
        with pytest.raises(UserError, match="no session sess_AB"):
            errand.feed(answer(attaching, error="SESSION_NOT_FOUND"))
        return 0

    monkeypatch.setattr("buddy.cli.inprocess.run_here", overhear)
    assert resume(build_parser("resume").parse_args(["resume", "a", "--state-dir", str(tmp_path)])) == 0


def test_a_refusal_is_an_error_with_its_code() -> None:
    talk = Talk("test")
    asking = begun(talk.ask("ping", {}))
    with pytest.raises(ProtocolError) as refusal:
        asking.send(answer(sent(talk)[0], error="OVERLOADED"))
    assert refusal.value.code == "OVERLOADED"


def test_a_run_that_cannot_be_cancelled_now_is_not_waited_for() -> None:
    talk = Talk("test")
    following = begun(talk.next_event())
    talk.tell("cancel_run", {"sessionId": "sess_1"}, is_owed=False)
    following.send(answer(sent(talk)[0], error="NO_ACTIVE_RUN"))  # it is over, and says so itself
    talk.tell("cancel_run", {"sessionId": "sess_1"}, is_owed=False)
    with pytest.raises(ProtocolError) as refusal:
        following.send(answer(sent(talk)[0], error="STORAGE_FULL"))
    assert refusal.value.code == "STORAGE_FULL"


def test_a_runtime_of_another_version_is_not_spoken_to() -> None:
    talk = Talk("test")
    talk.greet()
    asking = begun(talk.ask("ping", {}))
    with pytest.raises(ProtocolError, match=r"speaks push\.v9"):
        asking.send(answer(sent(talk)[0], {"protocolVersion": "push.v9"}))


def test_after_a_lost_connection_nothing_comes_twice_and_what_was_asked_is_asked_again() -> None:
    talk = Talk("test")
    starting = begun(talk.start_session({}))
    assert ended(starting, answer(sent(talk)[0], {"sessionId": "sess_1", "attachToken": "att_1"})) == "sess_1"
    asking = begun(talk.ask("send_user_message", {}, "sess_1"))
    asking.send(event(1))
    (message,) = sent(talk)

    talk.rejoin()
    greeting, attaching, again = sent(talk)
    assert (greeting["type"], again) == ("hello", message)
    assert attaching["payload"] == {"sessionId": "sess_1", "attachToken": "att_1", "lastSeenSeq": 1}
    asking.send(event(1))
    asking.send(event(2))
    ended(asking, answer(again, {"runId": "run_1"}))
    assert [found["seq"] for found, _ in talk.events] == [1, 2]


def test_a_session_is_never_started_twice() -> None:
    talk = Talk("test")
    begun(talk.start_session({}))
    with pytest.raises(UserError, match="while it started the session") as lost:
        talk.rejoin()
    assert lost.value.exit_code == 75


def test_a_session_that_is_no_more_ends_the_following() -> None:
    talk = Talk("test")
    attaching = begun(talk.attach("sess_1"))
    ended(attaching, answer(sent(talk)[0], {"replay": {}}))
    waiting = begun(talk.next_event())
    talk.rejoin()
    assert ended(waiting, answer(sent(talk)[1], error="SESSION_NOT_FOUND")) is None


def test_a_daemon_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "PATIENCE", 0.1)
    monkeypatch.setattr(client, "PATIENCE", 0.1)
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        for words in (["exec", "go"], ["ps"]):
            options = parse([*words, "--socket", path, "--state-dir", str(tmp_path)])
            with pytest.raises((UserError, TimeoutError), match="does not answer"):
                options.command(options)


def test_a_daemon_that_is_gone_for_good_is_no_outcome() -> None:
    talk = Talk("headless")
    following = Following(talk, Report(json=True, stream_json=False), has_person=False)
    following.session_id, following.run_id = "sess_1", "run_1"
    steps = begun(following.until_complete())
    steps.send(event(1))
    with pytest.raises(UserError, match="the run is not over") as told:
        steps.send(None)
    assert (told.value.exit_code, told.value.hint) == (75, "buddy resume sess_1 goes on with it")

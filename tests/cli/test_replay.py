"""`buddy replay`: a session as it went, and the proof that it goes so again."""

import json

import pytest

from buddy.log.database import connect
from tests.harness.home import Home
from tests.harness.scripts import shell


def record(home: Home) -> str:
    home.script(shell("echo made >> made"), {"text": "it is done"})
    done = home.run("exec", "make it", "--approve", "all", "--json")
    assert done.code == 0
    [line] = [line for line in done.err.splitlines() if line.startswith("session ")]
    return line.removeprefix("session ")


def test_a_session_is_played_back_as_attach_shows_it(home: Home) -> None:
    session_id = record(home)
    replayed = home.run("replay", session_id, "--fast")
    assert replayed.code == 0
    assert replayed.out == "you: make it\nbuddy: it is done\n"
    assert "▶ run_shell" in replayed.err
    assert home.run("replay", "last", "--speed", "1000").out == replayed.out


def test_a_session_is_played_back_for_programs(home: Home) -> None:
    session_id = record(home)
    exported = home.run("session", "export", session_id)
    assert home.run("replay", session_id, "--fast", "--stream-json").out == exported.out


@pytest.mark.slow
def test_a_faithful_replay_is_confirmed(home: Home) -> None:
    session_id = record(home)
    verified = home.run("replay", session_id, "--verify")
    assert (verified.code, verified.out) == (0, "")
    assert "all identical" in verified.err
    assert (home.work / "made").read_text() == "made\n"


@pytest.mark.slow
def test_a_changed_log_is_detected(home: Home) -> None:
    session_id = record(home)
    db = connect(home.state / "buddy.db", 2)
    db.execute("UPDATE events SET payload = replace(payload, 'success', 'denied') WHERE type = 'run_complete'")
    db.close()
    verified = home.run("replay", session_id, "--verify")
    assert verified.code == 1
    assert "run_complete differs in outcome" in verified.out
    assert "recorded: run_complete" in verified.out


def test_a_session_that_is_not_there_is_a_usage_error(home: Home) -> None:
    home.script({"text": "hi"})
    assert home.run("replay", "sess_00000000000000000000000000", "--fast").code == 64
    assert home.run("replay", "x", "--speed", "0").code == 64


def test_a_fresh_fork_has_nothing_of_its_own_to_verify(home: Home) -> None:
    home.script({"text": "hi"}).run("exec", "go")
    fork = home.run("session", "fork", "last").out.strip()
    verified = home.run("replay", fork, "--verify")
    assert (verified.code, "nothing to verify" in verified.err) == (0, True)
    again = home.run("session", "fork", fork).out.strip()
    listed = json.loads(home.run("session", "list", "--json").out)["sessions"]
    assert {row["sessionId"]: row["title"] for row in listed}[again] == "go (fork)"

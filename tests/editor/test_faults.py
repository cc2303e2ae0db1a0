"""What an editor meets when something dies, or when it is itself out of order."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.acp_client import COMPLETE, AcpClient, choose, later
from tests.harness.home import Home
from tests.harness.processes import wait_until

HOST = ("--sandbox", "host")


def kill_daemon(home: Home) -> None:
    """Kill the daemon as the system would, without a word; an agent that needs one may start the next at once."""
    process = int((home.state / "daemon.lock").read_text().split()[0])
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{process}").exists(), "the daemon to be gone")


def test_a_prompt_survives_the_death_of_the_daemon(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = later
        session = editor.open()
        prompt = editor.begin_prompt(session, "make it")
        editor.wait_until(lambda: editor.asked, "the question")
        kill_daemon(home)
        # The agent starts it again, the run is recovered, and the question is still the same one.
        editor.answers["session/request_permission"] = choose("once")
        editor.write(id=editor.asked[0]["id"], result={"outcome": {"outcome": "selected", "optionId": "once"}})
        assert editor.wait(prompt) == {"stopReason": "end_turn"}
        assert editor.text() == "made it"
    assert (home.work / "made").exists()


@pytest.mark.slow
def test_the_next_prompt_starts_a_daemon_that_was_stopped(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        session = editor.open()
        assert editor.prompt(session, "hello") == "end_turn"
        assert home.run("daemon", "stop").code == 0
        assert editor.prompt(session, "hello again") == "end_turn"


def test_hostile_lines_end_nothing(home: Home) -> None:
    lines = [
        b"\xff\xfe\x00garbage",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":{"a":1},"method":"initialize"}',
        b'{"jsonrpc":"2.0","id":700,"method":5}',
        b'{"jsonrpc":"2.0","id":800,"method":"session/new","params":[1]}',
        b'{"jsonrpc":"2.0","id":900,"method":"session/new","params":{"cwd":7}}',
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":["x"]}}',
        b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":{}}}',
        b'{"jsonrpc":"2.0","id":99999,"result":{"outcome":"what"}}',
        b'{"jsonrpc":"2.0","id":1000,"method":"session/new","params":{"cwd":"/","mcpServers":[{"name":5}]}}',
        json.dumps({"jsonrpc": "2.0", "id": 1100, "method": "x" * 10_000}).encode(),
    ]
    with AcpClient(home.work, home.env) as editor:
        for line in lines:
            editor.write(line + b"\n")
        assert editor.prompt(editor.open(), "hello") == "end_turn"


@pytest.mark.slow
def test_a_permission_answer_that_is_no_choice_denies(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = choose("everything, for ever")
        assert editor.prompt(editor.open(), "make it") == "end_turn"
    assert not (home.work / "made").exists()


@pytest.mark.slow
def test_a_permission_that_is_answered_twice_or_late_counts_once(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = later
        session = editor.open()
        prompt = editor.begin_prompt(session, "make it")
        editor.wait_until(lambda: editor.asked, "the question")
        for option in ("reject", "once", "always"):
            editor.write(id=editor.asked[0]["id"], result={"outcome": {"outcome": "selected", "optionId": option}})
        assert editor.wait(prompt) == {"stopReason": "end_turn"}
        editor.write(id=editor.asked[0]["id"], result={"outcome": {"outcome": "selected", "optionId": "once"}})
        editor.write(id=9999, result={"outcome": {"outcome": "selected", "optionId": "once"}})
        assert editor.prompt(session, "hello") == "end_turn"
    assert not (home.work / "made").exists() and "make it" in home.run("session", "show", session).out


@pytest.mark.slow
def test_an_editor_that_ends_in_the_middle_of_a_line_ends_nothing_else(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        session = editor.open()
        assert editor.prompt(session, "hello") == "end_turn"
        editor.write(b"x" * 2_000_000 + b"\n")
        editor.write(b'{"jsonrpc":"2.0","id":77,"method":"session/prompt","params":{"sess')
        assert editor.process.stdin is not None
        editor.process.stdin.close()
        assert editor.process.wait(60) == 0
    assert home.run("session", "show", session).out.count("hello yourself") == 1


@pytest.mark.slow
def test_a_streaming_prompt_goes_on_after_the_death_of_the_daemon(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        session = editor.open()
        prompt = editor.begin_prompt(session, "slow please")
        editor.wait_until(lambda: "one two" in editor.text(), "the first words")
        kill_daemon(home)
        seen = len(editor.updates)
        editor.wait_until(
            lambda: any(one["sessionUpdate"] == "agent_message_chunk" for one in editor.updates[seen:]), "more words"
        )
        editor.cancel(session)
        assert editor.wait(prompt) == {"stopReason": "cancelled"}
        assert editor.prompt(session, "hello") == "end_turn"


def _streaming(editor: AcpClient, session: str) -> None:
    editor.begin_prompt(session, "slow please")
    editor.wait_until(editor.text, "the first words")


def _asked(editor: AcpClient, session: str) -> None:
    editor.answers["session/request_permission"] = later
    editor.begin_prompt(session, "make it")
    editor.wait_until(lambda: editor.asked, "the question")


def _asked_for_a_file(editor: AcpClient, session: str) -> None:
    editor.answers["fs/read_text_file"] = later
    editor.begin_prompt(session, "edit it")
    editor.wait_until(lambda: editor.asked, "the request for the file")


def _opened(_editor: AcpClient, _session: str) -> None:
    pass


def _answered(editor: AcpClient, session: str) -> None:
    assert editor.prompt(session, "hello") == "end_turn"


STEPS: list[Callable[[AcpClient, str], None]] = [_opened, _answered, _streaming, _asked, _asked_for_a_file]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=["opened", "answered", "streaming", "asked", "file"])
def test_another_editor_takes_over_from_one_that_was_killed(home: Home, step: Callable[[AcpClient, str], None]) -> None:
    (home.work / "a.txt").write_text("one\ntwo\n")
    with AcpClient(home.work, home.env, *HOST, capabilities=COMPLETE) as editor:
        session = editor.open()
        step(editor, session)
        editor.process.kill()
    with AcpClient(home.work, home.env) as editor:
        editor.initialize()
        assert session in {row["sessionId"] for row in editor.call("session/list")["sessions"]}
        editor.call("session/load", sessionId=session, cwd=str(home.work), mcpServers=[])
        if step is _streaming:
            editor.cancel(session)
        prompt = editor.begin_prompt(session, "hello again")  # it waits for what still runs
        assert editor.wait(prompt) == {"stopReason": "end_turn"}
        assert editor.text().endswith("hello yourself")

"""What an editor meets when something dies, or when it is itself out of order."""

import json
import os
import signal

from tests.harness.acp_client import AcpClient, choose, later
from tests.harness.home import Home
from tests.harness.processes import wait_until

HOST = ("--sandbox", "host")


def kill_daemon(home: Home) -> None:
    """Kill the daemon as the system would, without a word."""
    process = int((home.state / "daemon.lock").read_text().split()[0])
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: home.run("daemon", "status").code != 0, "the daemon to be gone")


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


def test_a_permission_answer_that_is_no_choice_denies(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = choose("everything, for ever")
        assert editor.prompt(editor.open(), "make it") == "end_turn"
    assert not (home.work / "made").exists()

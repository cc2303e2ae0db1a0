"""A daemon that is killed while a tool of an MCP server runs: the call is not repeated, and no server is left."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.harness.clients import attach, connected_client, decide, read_log, send, start
from tests.harness.daemon import Daemon
from tests.harness.processes import wait_until
from tests.harness.scripts import Reply, section
from tests.harness.wire_client import ErrorResponse
from tests.tools.mcp.servers import lines, plain_server


def add_server(daemon: Daemon, ledger: Path) -> None:
    server = plain_server(ledger)
    table = [f"{key} = {json.dumps(value)}" for key, value in (("command", server.command), ("args", server.args))]
    env = ", ".join(f"{key} = {json.dumps(value)}" for key, value in server.env.items())
    text = "\n".join(("[mcp.servers.one]", *table, f"env = {{ {env} }}\n"))
    daemon.config.write_text(daemon.config.read_text() + text)


def pids(ledger: Path) -> list[int]:
    return [int(line.split()[1]) for line in ledger.read_text().splitlines() if line.startswith("start ")]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
async def test_a_call_during_which_the_daemon_is_killed_has_an_unknown_outcome(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    slow = {"calls": [{"name": "mcp__one__slow", "args": {"seconds": 60}}]}
    daemon = Daemon(tmp_path, script=[section("^go", slow, {"text": "looked"})])
    add_server(daemon, ledger)
    with daemon:
        async with connected_client(daemon) as client:
            session_id = await start(client, daemon)
            await send(client, session_id, "go")
            await decide(client, await client.wait_for("approval_required"))
            await client.wait_for("tool_output")
        assert lines(ledger) == ["slow 60.0"]
        daemon.kill()
        daemon.start()
        async with connected_client(daemon) as client:
            await attach(client, session_id)
            await client.wait_for("run_complete")
            events = await read_log(client, session_id)
        (result,) = [event["payload"] for event in events if event["type"] == "tool_result"]
        assert result["structuredError"]["type"] == "UNKNOWN_OUTCOME"
        assert [event["payload"]["action"] for event in events if event["type"] == "recovery"] == ["unknown_outcome"]
        assert lines(ledger) == ["slow 60.0"]
        await asyncio.to_thread(wait_until, lambda: not is_running(pids(ledger)[0]), "the first server to end")
    assert not any(map(is_running, pids(ledger)))


@pytest.mark.slow
async def test_a_question_that_was_open_when_the_daemon_was_killed_is_closed(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    order: Reply = {"calls": [{"name": "mcp__one__order", "args": {}}]}
    daemon = Daemon(tmp_path, script=[section("^go", order, {"text": "nothing ordered"})])
    add_server(daemon, ledger)
    with daemon:
        async with connected_client(daemon) as client:
            session_id = await start(client, daemon, approvalPolicy="all")
            await send(client, session_id, "go")
            asked = await client.wait_for("question_asked")
        daemon.kill()
        daemon.start()
        async with connected_client(daemon) as client:
            await attach(client, session_id)
            await client.wait_for("run_complete")
            events = await read_log(client, session_id)
            late = {"questionId": asked["payload"]["questionId"], "action": "decline"}
            with pytest.raises(ErrorResponse, match="APPROVAL_NOT_FOUND"):
                await client.ask("answer_question", late, session_id)
        kinds = [event["type"] for event in events]
        assert kinds.index("question_answered") < kinds.index("tool_result")
        (answered,) = [event["payload"] for event in events if event["type"] == "question_answered"]
        assert (answered["by"], answered["action"]) == ("daemon", "cancel")
        (result,) = [event["payload"] for event in events if event["type"] == "tool_result"]
        assert result["structuredError"]["type"] == "UNKNOWN_OUTCOME" and lines(ledger) == []


@pytest.mark.slow
async def test_a_server_that_outlives_a_killed_daemon_is_ended_by_the_next_one(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    daemon = Daemon(tmp_path, script=[section("^go", {"text": "hello"})])
    stubborn = f"echo start $$ >> {ledger}; exec {sys.executable} -c 'import time; time.sleep(600)'"
    table = f'[mcp.servers.one]\ncommand = "sh"\nargs = {json.dumps(["-c", stubborn])}\n'
    daemon.config.write_text(daemon.config.read_text() + table)
    with daemon:
        async with connected_client(daemon) as client:
            await start(client, daemon)
            await asyncio.to_thread(wait_until, ledger.exists, "the server to start")
        (pid,) = pids(ledger)
        daemon.kill()
        assert is_running(pid)  # it does not notice that nobody reads it
        daemon.start()
        async with connected_client(daemon) as client:
            await start(client, daemon)
            await asyncio.to_thread(wait_until, lambda: not is_running(pid), "the first server to end")
    assert not any(map(is_running, pids(ledger)))

"""The daemon's life cycle with real commands and signals: start, use, lost clients, no descriptors left, stop."""

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.approvals.digest import nonce_of
from buddy.targets import orphans
from tests.harness.clients import attach, connect, decide, read_log, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.files import read_ledger
from tests.harness.logs import read_state_dir as read_state
from tests.harness.processes import CANARY, PATIENCE, is_answering, wait_until
from tests.harness.wire_client import ErrorResponse, Message, WireClient


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_everything_cleanly(tmp_path: Path, number: int) -> None:
    with Daemon(tmp_path, web=True) as daemon:
        async with wire_client(daemon) as client, wire_client(daemon, "websocket") as other:
            running = await start(client, daemon, approvalPolicy="all")
            await send(client, running, "wait")
            await client.wait_for("tool_output")
            call = next(event for event in client.events if event["type"] == "tool_call")
            asking = await start(other, daemon)
            await send(other, asking, "make")
            await other.wait_for("approval_required")
            daemon.signal(number)
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "cancelled"
            assert (await other.wait_for("run_complete"))["payload"]["outcome"] == "cancelled"
            await client.ended()
            await other.ended()
        assert daemon.wait() == 0
        assert not daemon.socket.exists()
        assert orphans.find(nonce_of(running, call["payload"]["callId"])) == []
        log = await read_state(daemon.state_dir)
        assert {events[-1].type for events in log.values()} == {"run_complete"}
        received = next(event for event in log[asking] if event.type == "approval_received")
        decided: Message = json.loads(bytes(received.payload))
        assert (decided["decision"], decided["by"]) == ("deny", "daemon")
        daemon.start()
        async with wire_client(daemon) as client:
            assert (await attach(client, asking))["state"] == "idle"


async def test_a_hangup_does_not_stop_it(daemon: Daemon) -> None:
    async with wire_client(daemon) as client:
        session_id = await start(client, daemon)
        await send(client, session_id, "make")
        asked = await client.wait_for("approval_required")
        log = daemon.state_dir / "logs" / "daemon.log"
        log.rename(log.with_suffix(".old"))
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "log reopened" in daemon.log(), "the log to be there again")
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        await decide(client, asked)
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"


async def test_a_shutdown_request_ends_it(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        async with wire_client(daemon) as client:
            assert await client.ask("shutdown") == {"accepted": True}
            await client.ended()
        assert daemon.wait() == 0


@pytest.mark.slow
async def test_without_descriptors_it_refuses_and_comes_back(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.before_exec = "ulimit -n 64"
    with daemon:
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon, approvalPolicy="all")
            crowd = [await connect(daemon) for _ in range(80)]
            await send(client, session_id, "make")
            done = await client.wait_for("run_complete")
            assert done["payload"]["outcome"] in ("success", "failed")
            with contextlib.suppress(ErrorResponse):
                await start(client, daemon)
            assert (await client.ask("ping"))["pong"]
            for other in crowd:
                await other.close()
            async with asyncio.timeout(PATIENCE):
                async with wire_client(daemon) as late:
                    assert (await late.ask("ping"))["pong"]
            await send(client, session_id, "make")
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
            log = await read_log(client, session_id)
            assert [event["seq"] for event in log] == list(range(1, len(log) + 1))


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Daemon]:
    """A place for a daemon that the test starts by a command; whatever runs there at the end is stopped."""
    daemon = Daemon(tmp_path)
    yield daemon
    stopped = daemon.run("daemon", "stop")
    assert stopped.code == 0, stopped.err


def test_start_status_logs_and_stop(idle: Daemon) -> None:
    status = idle.run("daemon", "status")
    assert (status.code, status.out.strip()) == (1, "not running")
    assert idle.run("daemon", "logs").code == 1
    for lines in ("-1", "9" * 20):
        refused = idle.run("daemon", "logs", "-n", lines)
        assert (refused.code, "--lines must be between 0 and" in refused.err) == (64, True)
    started = idle.run("daemon", "start")
    assert (started.code, started.out) == (0, "")
    assert "started" in started.err
    assert "is already running" in idle.run("daemon", "start").err
    shown = json.loads(idle.run("daemon", "status", "--json").out)
    assert (shown["running"], shown["sessions"], shown["socket"]) == (True, 0, str(idle.socket))
    assert f"pid {shown['pid']}" in idle.run("daemon", "status").out
    assert f"pid {shown['pid']}" in idle.run("daemon", "logs").out
    ps = idle.run("ps")
    assert (ps.code, ps.out, ps.err.strip()) == (0, "", "no active runs")
    stopped = idle.run("daemon", "stop")
    assert (stopped.code, stopped.err.strip()) == (0, "daemon stopped")
    wait_until(lambda: has_ended(shown["pid"]), "the process to end")
    assert idle.run("daemon", "stop").err.strip() == "no daemon is running"
    assert json.loads(idle.run("daemon", "status", "--json").out) == {"running": False}


def has_ended(pid: int) -> bool:
    """Gone, or dead and not yet reaped by its new parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_daemon_that_cannot_start_says_why(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.config.write_text("[limits]\nframe = 'large'\n")
    started = daemon.run("daemon", "start")
    assert started.code == 64
    assert "limits" in started.err
    assert "Traceback" not in started.err


@pytest.mark.slow
def test_two_starts_at_once_make_one_daemon(idle: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        starts = [stack.enter_context(idle.spawn("daemon", "start")) for _ in range(3)]
        finished = [command.finish() for command in starts]
        assert [done.code for done in finished] == [0, 0, 0], finished
    assert json.loads(idle.run("daemon", "status", "--json").out)["running"]


async def test_exec_uses_the_running_daemon(daemon: Daemon) -> None:
    async with wire_client(daemon) as client:
        with daemon.spawn("exec", "drip", "--json") as command:
            session_id = await active_session(client)
            listed = daemon.run("ps")
            assert session_id in listed.out
            assert "running" in listed.out
            assert [entry["sessionId"] for entry in json.loads(daemon.run("ps", "--json").out)] == [session_id]
            await attach(client, session_id)
            await client.wait_for("run_complete")
            done = command.finish()
            outcome = json.loads(done.out)
            assert (outcome["sessionId"], outcome["outcome"], done.code) == (session_id, "success", 0)


@pytest.mark.slow
async def test_a_run_continues_after_its_exec_was_killed(daemon: Daemon) -> None:
    async with wire_client(daemon) as client:
        with daemon.spawn("exec", "drip") as command:
            session_id = await active_session(client)
            command.signal(signal.SIGKILL)
        await attach(client, session_id)
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"


@pytest.mark.slow
async def test_an_exec_follows_its_run_through_a_restart_of_the_daemon(daemon: Daemon) -> None:
    with daemon.spawn("exec", "drip", "--stream-json") as command:
        async with wire_client(daemon) as client:
            await active_session(client)
        daemon.kill()
        daemon.start()
        done = command.finish()
        assert done.code == 0
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1]["type"] == "run_complete"
    assert any(line["type"] == "run_started" and line["payload"].get("recovered") for line in lines)


@pytest.mark.slow
async def test_an_interrupt_is_a_cancel_for_the_daemon_too(daemon: Daemon) -> None:
    async with wire_client(daemon) as client:
        with daemon.spawn("exec", "drip", "--json") as command:
            await active_session(client)
            # Python itself catches an interrupt from the start, the other one only we do.
            wait_until(lambda: _catches(command.process.pid, signal.SIGTERM), "the command to follow its run")
            command.signal(signal.SIGINT)
            done = command.finish()
    assert (json.loads(done.out)["outcome"], done.code) == ("cancelled", 2)


def _catches(pid: int, number: int) -> bool:
    caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> (number - 1) & 1)


async def active_session(client: WireClient) -> str:
    """The session whose run is active, once there is one."""
    async with asyncio.timeout(PATIENCE):
        while True:
            listed = (await client.ask("list_sessions", {"limit": 5}))["sessions"]
            active = [session["sessionId"] for session in listed if session["state"] == "running"]
            if active:
                return active[0]
            await asyncio.sleep(0.05)


@pytest.mark.slow
def test_run_headless_is_a_client_of_the_daemon(daemon: Daemon) -> None:
    for arguments, code, outcome in (
        (("count",), 0, "success"),
        (("--task", "count"), 0, "success"),
        (("make", "--sandbox", "host"), 3, "denied"),
        (("make", "--approve", "all"), 0, "success"),
        (("count", "--accept", "exit 1", "--max-rounds", "1"), 4, "failed"),
    ):
        done = daemon.run("run", "--headless", *arguments, "--json")
        assert done.code == code, done.err
        shown = json.loads(done.out)
        assert (shown["outcome"], shown["exitCode"]) == (outcome, code)
    assert len(read_ledger(daemon.workspace)) == 1
    assert json.loads(daemon.run("daemon", "status", "--json").out)["sessions"] >= 5


async def test_attach_shows_a_session_and_leaves_it_running(daemon: Daemon) -> None:
    async with wire_client(daemon) as client:
        session_id = await start(client, daemon)
        await send(client, session_id, "make")
        asked = await client.wait_for("approval_required")
        with daemon.spawn("attach", session_id[:-4], "--read-only", "--stream-json") as watching:
            events: list[Message] = []
            while not events or events[-1]["type"] != "approval_required":
                events.append(json.loads(await asyncio.to_thread(watching.read_line)))
            assert events == client.events
            watching.signal(signal.SIGINT)
            assert (await asyncio.to_thread(watching.finish)).code == 0
        roles = [token["role"] for token in (await client.ask("list_tokens", {}, session_id))["tokens"]]
        assert sorted(roles) == ["driver", "observer"]
        assert (await client.ask("list_approvals"))["approvals"] != []
        await decide(client, asked, "deny")


def test_attaching_to_an_unknown_session_says_so(daemon: Daemon) -> None:
    missing = daemon.run("attach", "sess_missing")
    assert missing.code == 64
    assert missing.err.startswith("error: no session sess_missing\nhint: ")


async def test_the_daemons_own_log_holds_no_secret(daemon: Daemon) -> None:
    async with wire_client(daemon) as client:
        session_id = await start(client, daemon, approvalPolicy="all")
        await send(client, session_id, "secret")
        await client.wait_for("run_complete")
        with contextlib.suppress(ErrorResponse):
            await client.ask(f"show {CANARY}")
    assert CANARY not in daemon.log()
    assert CANARY not in daemon.output()


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        assert is_answering(daemon.socket)
        os.kill(daemon.pid(), signal.SIGTERM)
        os.kill(daemon.pid(), signal.SIGTERM)
        assert daemon.wait() in (0, 1)
        sys.stdout.write(daemon.log())


def test_an_idle_daemon_does_not_load_what_only_sessions_need(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.start(PYTHONPROFILEIMPORTTIME="1")
    try:
        if sys.platform == "linux":
            wait_until((daemon.state_dir / "sandbox.json").exists, "the verdict about the sandbox")
        loaded = {line.rpartition("|")[2].strip() for line in daemon.output().splitlines() if "|" in line}
    finally:
        daemon.stop()
    assert "buddy.daemon.server" in loaded
    needless = {"sqlite3", "difflib", "html.entities", "httptools", "buddy.git"}
    assert loaded & {*needless, "buddy.backends.native.loop", "buddy.targets.confine.probe"} == set()

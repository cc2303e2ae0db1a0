"""The daemon's life by real commands and signals: started, joined, left by clients, short of descriptors, stopped."""

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
from daemon.plain import Message, Plain, Refused
from daemon.running import CANARY, Daemon, answers, wait_until
from daemon.talking import attach, connect, decide, plain, read_log, send, start
from faults.scenario import read_log as read_state


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_everything_cleanly(tmp_path: Path, number: int) -> None:
    with Daemon(tmp_path, web=True) as daemon:
        async with plain(daemon) as client, plain(daemon, "websocket") as other:
            running = await start(client, daemon, approvalPolicy="all")
            await send(client, running, "wait")
            await client.until("tool_output")
            call = next(event for event in client.events if event["type"] == "tool_call")
            asking = await start(other, daemon)
            await send(other, asking, "make")
            await other.until("approval_required")
            daemon.signal(number)
            assert (await client.until("run_complete"))["payload"]["outcome"] == "cancelled"
            assert (await other.until("run_complete"))["payload"]["outcome"] == "cancelled"
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
        async with plain(daemon) as client:
            assert (await attach(client, asking))["state"] == "idle"


async def test_a_hangup_is_no_reason_to_stop(daemon: Daemon) -> None:
    async with plain(daemon) as client:
        session_id = await start(client, daemon)
        await send(client, session_id, "make")
        asked = await client.until("approval_required")
        log = daemon.state_dir / "logs" / "daemon.log"
        log.rename(log.with_suffix(".old"))
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "log reopened" in daemon.log(), "the log to be there again")
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        await decide(client, asked)
        assert (await client.until("run_complete"))["payload"]["outcome"] == "success"


async def test_a_shutdown_request_ends_it(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        async with plain(daemon) as client:
            assert await client.ask("shutdown") == {"accepted": True}
            await client.ended()
        assert daemon.wait() == 0


async def test_without_descriptors_it_refuses_and_comes_back(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.before_exec = "ulimit -n 64"
    with daemon:
        async with plain(daemon) as client:
            session_id = await start(client, daemon, approvalPolicy="all")
            crowd = [await connect(daemon) for _ in range(80)]
            await send(client, session_id, "make")
            done = await client.until("run_complete")
            assert done["payload"]["outcome"] in ("success", "failed")
            with contextlib.suppress(Refused):
                await start(client, daemon)
            assert (await client.ask("ping"))["pong"]
            for other in crowd:
                await other.close()
            async with asyncio.timeout(30):
                async with plain(daemon) as late:
                    assert (await late.ask("ping"))["pong"]
            await send(client, session_id, "make")
            assert (await client.until("run_complete"))["payload"]["outcome"] == "success"
            log = await read_log(client, session_id)
            assert [event["seq"] for event in log] == list(range(1, len(log) + 1))


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Daemon]:
    """A place for a daemon that the test starts by a command; whatever runs there at the end is stopped."""
    daemon = Daemon(tmp_path)
    yield daemon
    stopped = daemon.run("daemon", "stop")
    assert stopped.returncode == 0, stopped.stderr


def test_start_status_logs_and_stop(idle: Daemon) -> None:
    status = idle.run("daemon", "status")
    assert (status.returncode, status.stdout.strip()) == (1, "not running")
    assert idle.run("daemon", "logs").returncode == 1
    started = idle.run("daemon", "start")
    assert (started.returncode, started.stdout) == (0, "")
    assert "started" in started.stderr
    assert "is already running" in idle.run("daemon", "start").stderr
    shown = json.loads(idle.run("daemon", "status", "--json").stdout)
    assert (shown["running"], shown["sessions"], shown["socket"]) == (True, 0, str(idle.socket))
    assert f"pid {shown['pid']}" in idle.run("daemon", "status").stdout
    assert f"pid {shown['pid']}" in idle.run("daemon", "logs").stdout
    ps = idle.run("ps")
    assert (ps.returncode, ps.stdout, ps.stderr.strip()) == (0, "", "no active runs")
    stopped = idle.run("daemon", "stop")
    assert (stopped.returncode, stopped.stderr.strip()) == (0, "daemon stopped")
    wait_until(lambda: has_ended(shown["pid"]), "the process to end")
    assert idle.run("daemon", "stop").stderr.strip() == "no daemon is running"
    assert json.loads(idle.run("daemon", "status", "--json").stdout) == {"running": False}


def has_ended(pid: int) -> bool:
    """Gone, or dead and only not yet reaped by whoever took it over."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_daemon_that_cannot_start_says_why(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.config.write_text("[limits]\nframe = 'large'\n")
    started = daemon.run("daemon", "start")
    assert started.returncode == 64
    assert "limits" in started.stderr
    assert "Traceback" not in started.stderr


def test_two_starts_at_once_make_one_daemon(idle: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        starts = [stack.enter_context(idle.spawn("daemon", "start")) for _ in range(3)]
        told = [process.communicate(timeout=60)[1] for process in starts]
        assert [process.returncode for process in starts] == [0, 0, 0], told
    assert json.loads(idle.run("daemon", "status", "--json").stdout)["running"]


async def test_exec_joins_the_daemon_that_runs(daemon: Daemon) -> None:
    async with plain(daemon) as client:
        with daemon.spawn("exec", "drip", "--json") as command:
            session_id = await active_session(client)
            listed = daemon.run("ps")
            assert session_id in listed.stdout
            assert "running" in listed.stdout
            assert [entry["sessionId"] for entry in json.loads(daemon.run("ps", "--json").stdout)] == [session_id]
            await attach(client, session_id)
            await client.until("run_complete")
            outcome = json.loads(command.communicate(timeout=30)[0])
            assert (outcome["sessionId"], outcome["outcome"], command.returncode) == (session_id, "success", 0)


async def test_a_run_goes_on_without_the_exec_that_asked_for_it(daemon: Daemon) -> None:
    async with plain(daemon) as client:
        with daemon.spawn("exec", "drip") as command:
            session_id = await active_session(client)
            command.kill()
        await attach(client, session_id)
        assert (await client.until("run_complete"))["payload"]["outcome"] == "success"


async def test_an_exec_follows_its_run_through_a_restart_of_the_daemon(daemon: Daemon) -> None:
    with daemon.spawn("exec", "drip", "--stream-json") as command:
        async with plain(daemon) as client:
            await active_session(client)
        daemon.kill()
        daemon.start()
        lines = [json.loads(line) for line in command.communicate(timeout=60)[0].splitlines()]
        assert command.returncode == 0
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1]["type"] == "run_complete"
    assert any(line["type"] == "run_started" and line["payload"].get("recovered") for line in lines)


async def test_an_interrupt_is_a_cancel_for_the_daemon_too(daemon: Daemon) -> None:
    async with plain(daemon) as client:
        with daemon.spawn("exec", "drip", "--json") as command:
            await active_session(client)
            # Python itself catches an interrupt from the start, the other one only we do.
            wait_until(lambda: _catches(command.pid, signal.SIGTERM), "the command to follow its run")
            command.send_signal(signal.SIGINT)
            outcome = json.loads(command.communicate(timeout=30)[0])
    assert (outcome["outcome"], command.returncode) == ("cancelled", 2)


def _catches(pid: int, number: int) -> bool:
    caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> (number - 1) & 1)


async def active_session(client: Plain) -> str:
    """The session whose run is active, once there is one."""
    async with asyncio.timeout(30):
        while True:
            listed = (await client.ask("list_sessions", {"limit": 5}))["sessions"]
            active = [session["sessionId"] for session in listed if session["state"] == "running"]
            if active:
                return active[0]
            await asyncio.sleep(0.05)


def test_run_headless_is_a_client_of_the_daemon(daemon: Daemon) -> None:
    for arguments, code, outcome in (
        (("count",), 0, "success"),
        (("--task", "count"), 0, "success"),
        (("make",), 3, "denied"),
        (("make", "--approve", "all"), 0, "success"),
        (("count", "--accept", "exit 1", "--max-rounds", "1"), 4, "failed"),
    ):
        done = daemon.run("run", "--headless", *arguments, "--json")
        assert done.returncode == code, done.stderr
        shown = json.loads(done.stdout)
        assert (shown["outcome"], shown["exitCode"]) == (outcome, code)
    assert len(daemon.ledger()) == 1
    assert json.loads(daemon.run("daemon", "status", "--json").stdout)["sessions"] >= 5


async def test_attach_shows_a_session_and_leaves_it_running(daemon: Daemon) -> None:
    async with plain(daemon) as client:
        session_id = await start(client, daemon)
        await send(client, session_id, "make")
        asked = await client.until("approval_required")
        with daemon.spawn("attach", session_id[:-4], "--read-only", "--stream-json") as watching:
            assert watching.stdout is not None
            events: list[Message] = []
            while not events or events[-1]["type"] != "approval_required":
                events.append(json.loads(await asyncio.to_thread(watching.stdout.readline)))
            assert events == client.events
            watching.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(watching.wait, 20) == 0
        roles = [token["role"] for token in (await client.ask("list_tokens", {}, session_id))["tokens"]]
        assert sorted(roles) == ["driver", "observer"]
        assert (await client.ask("list_approvals"))["approvals"] != []
        await decide(client, asked, "deny")


def test_attaching_to_nothing_says_so(daemon: Daemon) -> None:
    missing = daemon.run("attach", "sess_missing")
    assert missing.returncode == 64
    assert missing.stderr.startswith("error: no session sess_missing\nhint: ")


async def test_the_daemons_own_log_holds_no_secret(daemon: Daemon) -> None:
    async with plain(daemon) as client:
        session_id = await start(client, daemon, approvalPolicy="all")
        await send(client, session_id, "secret")
        await client.until("run_complete")
        with contextlib.suppress(Refused):
            await client.ask(f"show {CANARY}")
    assert CANARY not in daemon.log()
    assert CANARY not in daemon.output()


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        assert answers(daemon.socket)
        os.kill(daemon.pid(), signal.SIGTERM)
        os.kill(daemon.pid(), signal.SIGTERM)
        assert daemon.wait() in (0, 1)
        sys.stdout.write(daemon.log())

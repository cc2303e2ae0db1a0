"""`buddy daemon restart`: the daemon is replaced while it works, and no run is lost."""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.daemon.test_recovery import Following, as_events, violations
from tests.harness import daemon as harness
from tests.harness.checker import Received
from tests.harness.clients import attach, connect, send, start
from tests.harness.daemon import Daemon
from tests.harness.logs import read_state_dir
from tests.harness.processes import PATIENCE, SOURCES, wait_until
from tests.harness.scripts import MARK, section, shell

SCRIPT = [
    section(
        "^three",
        *(shell(f"{MARK}; echo {word} >> words; sleep 0.3") for word in ("one", "two", "three")),
        {"text": "all three"},
    ),
    section("^wait", shell(f"{MARK}; echo > started; while [ ! -e go ]; do sleep 0.05; done"), {"text": "waited"}),
    section("^hang", shell(f"{MARK}; echo > started; sleep 600"), {"text": "hung"}),
    section("^count", {"text": "one two three"}),
]


async def restart(daemon: Daemon, *flags: str) -> str:
    done = await asyncio.to_thread(daemon.run, "daemon", "restart", *flags)
    assert done.code == 0, done.err
    return done.err


def outcomes(events: list[dict[str, object]]) -> list[object]:
    found = [event["payload"] for event in events if event["type"] == "run_complete"]
    return [payload["outcome"] for payload in found if isinstance(payload, dict)]


def count(daemon: Daemon, word: bytes) -> int:
    return daemon.log().encode().count(word)


async def begin(daemon: Daemon, text: str, policy: str = "all", *, tmux: bool = False) -> str:
    client = await connect(daemon)
    await client.hello()
    session_id = await start(client, daemon, approvalPolicy=policy, tmux=tmux)
    await attach(client, session_id)
    await send(client, session_id, text)
    await client.close()
    return session_id


async def test_a_run_continues_in_the_daemon_that_replaces_the_one_it_began_in(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        pid = daemon.pid()
        session_id = await begin(daemon, "three")
        follower = Following(daemon, session_id)
        following = asyncio.create_task(follower.until_complete(1))
        for number in (1, 2):
            await asyncio.to_thread(wait_until, lambda: _words(daemon) >= number, "a command to run")  # noqa: B023 - at once
            assert "daemon restarted" in await restart(daemon)
        await following
        assert daemon.pid() == pid
        assert daemon.process is not None
        assert daemon.process.poll() is None, "the process stays, so whatever supervises it need not know"
    assert (daemon.workspace / "words").read_text().split() == ["one", "two", "three"]
    assert outcomes(follower.received) == ["success"]
    assert "UNKNOWN_OUTCOME" not in json.dumps(follower.received)
    received = Received(session_id, 0, as_events(follower.received), to_end=True)
    assert await violations(daemon, received) == []
    assert count(daemon, b"ready on") == 3


@pytest.mark.parametrize("by", ["request", "signal"])
async def test_a_stop_while_it_hands_over_is_a_stop(tmp_path: Path, by: str) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        session_id = await begin(daemon, "hang")
        await asyncio.to_thread(wait_until, (daemon.workspace / "started").exists, "the command to run")
        restarting = asyncio.create_task(asyncio.to_thread(daemon.run, "daemon", "restart", "--wait", "60s"))
        await asyncio.to_thread(wait_until, lambda: "handing over" in daemon.log(), "the hand-over to begin")
        if by == "request":
            assert daemon.run("daemon", "stop").code == 0
        else:
            os.kill(daemon.pid(), signal.SIGTERM)
        refused = await restarting
        assert (refused.code, "the daemon was stopped meanwhile" in refused.err) == (75, True)
        assert "no daemon is running" in daemon.run("daemon", "stop").err
        state = await read_state_dir(daemon.state_dir)
        ended = [event.payload for event in state[session_id] if event.type == "run_complete"]
        assert [b'"outcome":"cancelled"' in payload for payload in map(bytes, ended)] == [True]


def _words(daemon: Daemon) -> int:
    path = daemon.workspace / "words"
    return len(path.read_text().split()) if path.exists() else 0


@pytest.mark.slow
async def test_a_command_that_runs_may_end_first(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        session_id = await begin(daemon, "wait")
        await asyncio.to_thread(wait_until, (daemon.workspace / "started").exists, "the command to start")
        restarting = asyncio.create_task(restart(daemon))
        await asyncio.to_thread(wait_until, lambda: "handing over" in daemon.log(), "the daemon to hand over")
        (daemon.workspace / "go").touch()
        assert "handing over 1 active run" in await restarting
        follower = Following(daemon, session_id)
        await follower.until_complete(1)
    assert outcomes(follower.received) == ["success"]
    assert "UNKNOWN_OUTCOME" not in json.dumps(follower.received)
    assert await violations(daemon) == []


@pytest.mark.slow
async def test_a_command_that_does_not_end_is_stopped_and_its_outcome_is_unknown(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        session_id = await begin(daemon, "hang")
        await asyncio.to_thread(wait_until, (daemon.workspace / "started").exists, "the command to start")
        await restart(daemon, "--wait", "1s")
        follower = Following(daemon, session_id)
        await follower.until_complete(1)
    assert outcomes(follower.received) == ["success"]
    assert "UNKNOWN_OUTCOME" in json.dumps(follower.received)
    assert await violations(daemon) == []


async def test_clients_learn_of_a_long_wait_and_another_restart_shortens_it(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        session_id = await begin(daemon, "hang")
        await asyncio.to_thread(wait_until, (daemon.workspace / "started").exists, "the command to start")
        patient = asyncio.create_task(restart(daemon, "--wait", "1h"))
        watcher = await connect(daemon)
        await watcher.hello()
        await attach(watcher, session_id)
        warning = await watcher.wait_for("warning", lambda body: body["code"] == "RESTARTING")
        assert "up to 3600 s" in warning["payload"]["message"]
        await watcher.close()
        await restart(daemon, "--wait", "1s")
        await patient
        follower = Following(daemon, session_id)
        await follower.until_complete(1)
    assert outcomes(follower.received) == ["success"]
    assert await violations(daemon) == []


async def test_a_signal_ends_a_daemon_that_is_handing_over(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        await begin(daemon, "hang")
        await asyncio.to_thread(wait_until, (daemon.workspace / "started").exists, "the command to start")
        client = await connect(daemon)
        await client.hello()
        await client.ask("restart_daemon", {"waitSeconds": 600})
        await asyncio.to_thread(wait_until, lambda: "handing over" in daemon.log(), "the daemon to hand over")
        daemon.signal(signal.SIGTERM)
        assert daemon.process is not None
        assert await asyncio.to_thread(daemon.process.wait, PATIENCE) == 0
        await client.close()
    assert count(daemon, b"ready on") == 1


async def test_a_question_stays_open_over_a_restart(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        session_id = await begin(daemon, "three", policy="ask")
        await restart(daemon)
        follower = Following(daemon, session_id, approves=True)
        await follower.until_complete(1)
        assert outcomes(follower.received) == ["success"]
        assert len(set(follower.answered)) == 3
    assert await violations(daemon) == []


def make_installation(folder: Path) -> Path:
    """The Python of another environment that has the same packages."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    program = folder / "bin" / "python"
    program.symlink_to(Path(sys.executable).resolve())
    return program


@pytest.mark.slow
async def test_a_daemon_of_another_installation_ends_and_this_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "BUDDY", (str(make_installation(tmp_path / "other")), "-m", "buddy"))
    daemon = Daemon(tmp_path, script=SCRIPT)
    daemon.start()
    monkeypatch.undo()
    try:
        session_id = await begin(daemon, "three")
        assert "daemon restarted" in await restart(daemon)
        assert daemon.wait() == 0
        follower = Following(daemon, session_id)
        await follower.until_complete(1)
        assert outcomes(follower.received) == ["success"]
    finally:
        daemon.stop()
        assert daemon.run("daemon", "stop").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_other", [False, True], ids=["this installation", "another"])
async def test_a_command_in_a_pane_runs_on_and_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_other: bool
) -> None:
    if is_other:
        monkeypatch.setattr(harness, "BUDDY", (str(make_installation(tmp_path / "other")), "-m", "buddy"))
    daemon = Daemon(tmp_path, script=SCRIPT)
    daemon.start()
    monkeypatch.undo()
    try:
        session_id = await begin(daemon, "wait", tmux=True)
        await asyncio.to_thread(wait_until, (daemon.workspace / "started").exists, "the command to start")
        assert "daemon restarted" in await restart(daemon)
        (daemon.workspace / "go").touch()
        follower = Following(daemon, session_id)
        await follower.until_complete(1)
        assert "UNKNOWN_OUTCOME" not in json.dumps(follower.received)
        assert outcomes(follower.received) == ["success"]
    finally:
        daemon.stop()
        daemon.run("daemon", "stop")


@pytest.mark.slow
def test_without_a_daemon_one_is_started(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    done = daemon.run("daemon", "restart")
    assert (done.code, done.err.strip()) == (0, "no daemon was running; started one")
    assert daemon.run("daemon", "restart", "--wait", "soon").code == 64
    assert "at most 1h" in daemon.run("daemon", "restart", "--wait", "2h").err
    assert daemon.run("daemon", "stop").code == 0


def test_a_daemon_whose_files_were_replaced_says_so(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    shutil.copytree(SOURCES / "buddy", sources / "buddy", ignore=shutil.ignore_patterns("__pycache__"))
    daemon = Daemon(tmp_path / "daemon", script=SCRIPT)
    daemon.start(PYTHONPATH=str(sources))
    try:
        (sources / "buddy").rename(sources / "gone")
        failed = daemon.run("exec", "count")
        said = "error: Buddy was upgraded or removed while this process was running\nhint: buddy daemon restart"
        assert (failed.code, said in failed.err) == (1, True), failed.err
        (sources / "gone").rename(sources / "buddy")
        assert daemon.run("daemon", "restart").code == 0
        assert daemon.run("exec", "count").code == 0
    finally:
        daemon.stop()

"""Real daemons on one log in PostgreSQL: what one records, the others see; what one leaves, the next continues."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.faults.scenario import left_behind
from tests.harness.checker import Received, Recorded, check
from tests.harness.clients import attach, read_log, send, seqs, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.files import read_ledger
from tests.harness.logs import read_shared
from tests.harness.postgres import Postgres
from tests.harness.processes import CANARY, parse_event
from tests.harness.scripts import MARK, section, shell

SECRET = "pg-canary-7d21f0c4aa"
SCRIPT = [
    section("^make", shell(f"{MARK}; echo made >> made.txt"), {"text": "made"}),
    section("^drip", {"text": "drop " * 200, "delay": 0.01}),
    section("^env", shell("env | sort"), {"text": "that is it"}),
]


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.database()


@pytest.mark.slow
def test_a_command_without_a_daemon_uses_the_shared_log(tmp_path: Path, url: str) -> None:
    here, there = Daemon(tmp_path / "here"), Daemon(tmp_path / "there")
    said = here.run("exec", "count", "--log", url)
    assert (said.code, said.out) == (0, "one two three\n")
    assert "No such file" not in said.err, "the state directory is there for the rest"
    assert "count" in there.run("session", "list", "--all", BUDDY_LOG=url).out
    assert "count" not in here.run("session", "list", "--all").out
    assert "count" not in there.run("session", "list", "--all").out


@pytest.mark.slow
def test_the_file_names_the_log_and_the_command_line_wins(tmp_path: Path, url: str, postgres: Postgres) -> None:
    here = Daemon(tmp_path)
    here.config.write_text(here.config.read_text() + f'[log]\nurl = "{url}"\n')
    assert here.run("exec", "count").code == 0
    assert "count" in here.run("session", "list", "--all").out
    other = postgres.database()
    assert "count" not in here.run("session", "list", "--all", BUDDY_LOG=other).out
    assert "count" in here.run("session", "list", "--all", "--log", url, BUDDY_LOG=other).out


@pytest.mark.slow
def test_a_daemon_is_used_if_its_log_is_the_one_that_is_named(tmp_path: Path, url: str, postgres: Postgres) -> None:
    daemon = Daemon(tmp_path)
    daemon.start(BUDDY_LOG=url)
    try:
        same = daemon.run("exec", "count", "--log", url)
        assert (same.code, "without the daemon" in same.err) == (0, False)
        other = daemon.run("session", "list", "--all", BUDDY_LOG=postgres.database())
        assert "count" not in other.out
        assert f"the daemon's is {url}; running without the daemon" in other.err
        assert "count" in daemon.run("session", "list", "--all").out
    finally:
        daemon.stop()


async def test_a_session_of_one_daemon_is_followed_on_another(tmp_path: Path, url: str) -> None:
    first, second = Daemon(tmp_path / "first", script=SCRIPT), Daemon(tmp_path / "second", script=SCRIPT)
    first.start(BUDDY_LOG=url)
    second.start(BUDDY_LOG=url)
    try:
        async with wire_client(first) as driver, wire_client(second) as observer:
            session_id = await start(driver, first)
            await attach(observer, session_id)
            await send(driver, session_id, "drip")
            await observer.wait_for("run_complete")
            await driver.wait_for("run_complete")
            assert observer.events == driver.events
            assert seqs(await read_log(observer, session_id)) == seqs(observer.events)
            rows = (await observer.ask("list_sessions", {"limit": 5}))["sessions"]
            assert [row["sessionId"] for row in rows] == [session_id]
            created = await driver.ask("create_project", {"name": "shared", "rootPath": str(first.workspace)})
            projects = (await observer.ask("list_projects"))["projects"]
            assert [project["projectId"] for project in projects] == [created["projectId"]]
    finally:
        assert (first.stop(), second.stop()) == (0, 0)


async def test_a_run_of_a_killed_daemon_is_continued_by_its_next_start(tmp_path: Path, url: str) -> None:
    first = Daemon(tmp_path, script=SCRIPT)
    first.start(BUDDY_LOG=url, BUDDY_FAULT="tool.end:1:kill")
    async with wire_client(first) as driver:
        session_id = await start(driver, first, approvalPolicy="all")
        await send(driver, session_id, "make")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await driver.wait_for("run_complete")
    first.wait()
    first.start(BUDDY_LOG=url)
    try:
        async with wire_client(first) as client:
            await attach(client, session_id)
            done = await client.wait_for("run_complete")
            assert done["payload"]["outcome"] == "success"
            received = [parse_event(line) for line in map(to_line, client.events)]
    finally:
        first.stop()
    recorded = Recorded(
        await read_shared(url),
        [Received(session_id, 0, received, to_end=False)],
        read_ledger(first.workspace),
        secrets=(CANARY,),
    )
    assert [*check(recorded), *left_behind(recorded)] == []
    assert len(read_ledger(first.workspace)) == 1


def to_line(message: object) -> bytes:
    return msgspec.json.encode(message)


@pytest.mark.slow
async def test_a_run_waits_while_the_database_is_away(tmp_path: Path) -> None:
    with Postgres() as server:
        url = server.database()
        daemon = Daemon(tmp_path, script=SCRIPT)
        daemon.start(BUDDY_LOG=url)
        try:
            async with wire_client(daemon) as client:
                session_id = await start(client, daemon)
                await send(client, session_id, "drip")
                await client.wait_for("assistant_token")
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                done = await client.wait_for("run_complete")
                assert done["payload"]["outcome"] == "success"
                assert seqs(client.events) == list(range(1, len(client.events) + 1))
                assert seqs(await read_log(client, session_id)) == seqs(client.events)
        finally:
            assert daemon.stop() == 0
        assert "retrying" in daemon.log()
        assert "again" in daemon.log()


@pytest.mark.slow
def test_a_password_appears_nowhere(tmp_path: Path, url: str) -> None:
    """The server trusts everybody, so any password is right."""
    secret_url = url.replace("postgres@", f"postgres:{SECRET}@")
    daemon = Daemon(tmp_path, script=SCRIPT)
    daemon.start(BUDDY_LOG=secret_url)
    try:
        shown = daemon.run("exec", "env", "--approve", "all", "--sandbox", "host", BUDDY_LOG=secret_url)
        assert shown.code == 0
        status = daemon.run("daemon", "status", "--json")
    finally:
        daemon.stop()
    wrong = daemon.run("exec", "count", "--log", f"postgresql://u:{SECRET}@127.0.0.1:1/x")
    assert (wrong.code, "can't connect to postgresql://u:***@127.0.0.1:1/x" in wrong.err) == (75, True)
    logs = asyncio.run(read_shared(url))
    events = "".join(event.line().decode() for events in logs.values() for event in events)
    assert "BUDDY_LOG" not in events
    printed = [daemon.log(), daemon.output(), events]
    for finished in (shown, status, wrong):
        printed += [finished.out, finished.err]
    assert SECRET not in "".join(printed)


@pytest.mark.slow
def test_a_daemon_that_cannot_reach_its_log_says_so(tmp_path: Path, url: str) -> None:
    daemon = Daemon(tmp_path)
    failed = daemon.run("daemon", "run", *daemon.places(), "--log", url.replace("test_", "none_"))
    assert failed.code == 64
    assert "does not exist" in failed.err
    assert "hint: create the database with 'createdb' first" in failed.err
    background = daemon.run("daemon", "start", *daemon.places(), "--log", "postgresql://127.0.0.1:1/x")
    assert background.code == 75
    assert "can't connect to postgresql://127.0.0.1:1/x (connection refused)" in background.err


def test_without_the_driver_the_extra_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "asyncpg.py").write_text("raise ModuleNotFoundError('No module named asyncpg', name='asyncpg')\n")
    daemon = Daemon(tmp_path)
    env = daemon.command_environment()
    failed = daemon.run("exec", "x", "--log", "postgresql://h/d", PYTHONPATH=f"{blocked}:{env['PYTHONPATH']}")
    assert failed.code == 64
    assert "needs the extra 'postgres'" in failed.err
    assert "pip install '.[postgres]'" in failed.err

"""A session of thousands of events: it is copied and deleted in parts, and a kill in between leaves nothing to see."""

import asyncio
from pathlib import Path

import pytest

from buddy.log.sqlite import SqliteLog
from tests.harness.clients import connect
from tests.harness.daemon import Daemon
from tests.harness.logs import read_state_dir
from tests.harness.wire_client import WireClient
from tests.soak.past import lengthen, runs

MANY = 8000


async def long_session(daemon: Daemon) -> str:
    """A session with a long past, of a daemon that does not run."""
    daemon.start()
    client = await hello(daemon)
    request = {
        "mode": "interactive",
        "provider": "default",
        "sandboxProvider": "local",
        "repo": {"rootPath": str(daemon.workspace)},
    }
    session_id = (await client.ask("start_session", request))["sessionId"]
    await client.close()
    await asyncio.to_thread(daemon.stop)
    lengthen(daemon.state_dir / "buddy.db", session_id, MANY, runs)
    return session_id


async def hello(daemon: Daemon) -> WireClient:
    client = await connect(daemon)
    await client.hello("console")
    return client


async def incomplete(daemon: Daemon) -> list[str]:
    log = SqliteLog.open(daemon.state_dir, lambda: 0)
    try:
        return await log.incomplete()
    finally:
        await log.close()


async def test_a_kill_while_a_long_session_is_copied_leaves_no_copy(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    try:
        session_id = await long_session(daemon)
        await asyncio.to_thread(daemon.start, BUDDY_FAULT="fork.page:2:kill")
        client = await hello(daemon)
        with pytest.raises((OSError, EOFError)):
            await client.ask("fork_session", {"seq": MANY - 10}, session_id)
        await client.close()
        assert await asyncio.to_thread(daemon.wait) == -9
        assert list(await read_state_dir(daemon.state_dir)) == [session_id]
        assert len(await incomplete(daemon)) == 1
        await asyncio.to_thread(daemon.start)
        client = await hello(daemon)
        listed = (await client.ask("list_sessions", {}))["sessions"]
        assert [one["sessionId"] for one in listed] == [session_id]
        copy = (await client.ask("fork_session", {"seq": MANY - 10}, session_id))["sessionId"]
        async with asyncio.timeout(20):
            while await incomplete(daemon):  # noqa: ASYNC110 - another process deletes it
                await asyncio.sleep(0.05)
        log = await read_state_dir(daemon.state_dir)
        assert {event.type for event in log[copy]} == {event.type for event in log[session_id]} - {
            "assistant_token",
            "warning",
        } | {"session_forked"}
        assert [event.seq for event in log[copy]] == list(range(1, len(log[copy]) + 1))
        assert (await client.ask("delete_session", {}, copy))["deleted"]
        await client.close()
        assert list(await read_state_dir(daemon.state_dir)) == [session_id]
    finally:
        await asyncio.to_thread(daemon.stop)


async def test_a_long_session_is_exported_at_the_pace_that_the_daemon_allows(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, limits={"requests_per_second": 50, "burst": 10})
    try:
        session_id = await long_session(daemon)
        await asyncio.to_thread(daemon.start)
        done = await asyncio.to_thread(daemon.run, "session", "export", session_id)
        assert (done.code, done.out.count("\n")) == (0, MANY + 1), done.err
    finally:
        await asyncio.to_thread(daemon.stop)

"""The database of a fleet fails: a pause, after which nothing is lost and nothing was done twice."""

import asyncio
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf
from tests.harness.clients import decide, send
from tests.harness.postgres import Postgres
from tests.harness.processes import PATIENCE
from tests.harness.wire_client import ErrorResponse, WireClient

pytestmark = pytest.mark.usefixtures("placement")


@pytest.mark.slow
async def test_a_restarted_database_is_a_pause(tmp_path: Path) -> None:
    with Postgres() as server:
        async with FleetOf(tmp_path, server, "a", "b") as fleet:
            here, there, session_id = await fleet.stream()
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(4)  # longer than a lease
            await asyncio.to_thread(server.start)
            for client in (here, there):
                assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
            # Nobody was judged by a silence that was the database's own.
            assert fleet.owner(session_id) == "a"
            assert not [event for event in there.events if event["type"] == "recovery"]
            await send(there, session_id, "twice")
            await there.wait_for("run_complete")
            assert await fleet.violations(session_id) == []


@pytest.mark.slow
async def test_killed_connections_lose_nothing(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        _, there, session_id = await fleet.stream("b")
        for _ in range(3):
            postgres.end_connections(fleet.url)
            await asyncio.sleep(0.3)
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        await send(there, session_id, "twice")
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        assert fleet.owner(session_id) == "a"
        assert await fleet.violations(session_id) == []


@pytest.mark.slow
async def test_a_node_that_hears_nothing_still_delivers_and_serves(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        _, there, session_id = await fleet.stream()
        # What these connections do last is listening, or the poll that they do besides.
        listening = "query ILIKE 'listen%' OR query LIKE 'SELECT id, last_seq FROM sessions WHERE%'"
        of_fleet = f"datname = current_database() AND ({listening})"
        ended = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {of_fleet}"  # noqa: S608 - ours
        assert int(fleet.sql(ended)) >= 2
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        # A request for the other node and its answer are found by looking.
        await send(there, session_id, "twice")
        fleet.sql(ended)
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        assert await fleet.violations(session_id, to_end=[there]) == []


@pytest.mark.slow
async def test_a_promoted_standby_is_a_pause(tmp_path: Path) -> None:
    with Postgres() as primary:
        fleet = FleetOf(tmp_path, primary, "a", "b")
        standby = await asyncio.to_thread(primary.add_standby)
        fleet.use_standby(standby)
        try:
            async with fleet:
                here, there, session_id = await fleet.stream()
                asking = await fleet.start(there)
                await send(there, asking, "make it")
                asked = await there.wait_for("approval_required")
                await asyncio.to_thread(primary.kill)
                await asyncio.to_thread(standby.promote)
                fleet.server = standby
                for client in (here, there):
                    assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
                assert not [event for event in there.events if event["type"] == "recovery"]
                # What waited for a decision still does.
                await decide(there, asked)
                assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
                assert (fleet.owner(session_id), fleet.owner(asking)) == ("a", "b")
                assert len(fleet.ledger.read_text().split()) == 1
                assert await fleet.violations(session_id, asking, to_end=[there]) == []
        finally:
            standby.remove()


@contextmanager
def small_disk(folder: Path) -> Generator[Path]:
    """A file system with room for little more than an empty database; yields a file that may fill it."""
    if os.geteuid() != 0:
        pytest.skip("needs to mount a file system")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(folder)], check=False)
    if mounted.returncode != 0:
        pytest.skip("cannot mount a file system here")
    try:
        yield folder / "filler"
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    with path.open("wb") as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(1 << 16))
            file.flush()


@pytest.mark.slow
async def test_a_full_disk_refuses_work_until_there_is_room(tmp_path: Path) -> None:
    server = Postgres(max_wal_size="32MB", min_wal_size="32MB")
    with small_disk(server.folder) as filler, server:
        async with FleetOf(tmp_path, server, "a", "b") as fleet:
            here, there, session_id = await fleet.stream()
            fill(filler)
            refused = await until_refused(there, session_id)
            assert (refused.code, refused.retryable) == ("STORAGE_FULL", True)
            filler.unlink()
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        await send(there, session_id, "twice", "msg_after")
                        break
                    except ErrorResponse as error:
                        assert error.retryable, error
                        await asyncio.sleep(0.1)
            await there.wait_for("run_complete", lambda body: body["summary"] == "made two")
            await here.wait_for("run_complete", lambda body: body["summary"] == "made two")
            assert await fleet.violations(session_id, to_end=[there]) == []


async def until_refused(client: WireClient, session_id: str) -> ErrorResponse:
    for number in range(10_000):
        try:
            await send(client, session_id, "count", f"msg_{number}")
        except ErrorResponse as error:
            return error
    raise AssertionError("the disk was never full")

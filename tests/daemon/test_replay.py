"""Replay from any cursor, complete and in order, even while the session continues."""

import asyncio
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from buddy.daemon.link import memory_pair
from buddy.daemon.pump import LineCache, Pump
from buddy.protocol.events import RunComplete
from buddy.protocol.requests import PruneSession, PruneSessionReply
from tests.daemon.history import write_history
from tests.harness.clients import attach, connect, read_log, send, seqs, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.models import says
from tests.harness.runtime import scripted_host
from tests.harness.scripts import section
from tests.harness.wire_client import ErrorResponse, WireClient

LIVELY = [section("^drip", {"text": "drop " * 150, "delay": 0.006})]


async def replay_under_load(folder: Path, count: int) -> None:
    """Clients attach at many cursors during a run, and get each event after theirs once."""
    daemon = Daemon(folder, script=LIVELY)
    session_id = await write_history(daemon.state_dir, daemon.workspace, count)
    with daemon:
        async with wire_client(daemon) as driver:
            await attach(driver, session_id, count)

            async def follow(cursor: int) -> list[int]:
                client = await connect(daemon)
                await client.hello()
                reply = await attach(client, session_id, cursor)
                assert reply["replay"]["fromSeq"] == cursor + 1
                await client.wait_for("run_complete")
                await client.close()
                return seqs(client.events)

            await send(driver, session_id, "drip")
            await driver.wait_for("assistant_token")
            cursors = [0, 1, count // 2, count - 600, count - 1, count, count + 3]
            began = time.perf_counter()
            found = await asyncio.gather(*(follow(cursor) for cursor in cursors))
            sys.stdout.write(f"{len(cursors)} replays of up to {count} events in {time.perf_counter() - began:.2f} s\n")
            await driver.wait_for("run_complete")
            last = driver.events[-1]["seq"]
            assert last > count + 50
            for cursor, received in zip(cursors, found, strict=True):
                assert received == list(range(cursor + 1, last + 1))


@pytest.mark.slow
async def test_ten_thousand_events_are_replayed_under_load(tmp_path: Path) -> None:
    await replay_under_load(tmp_path, 10_000)


@pytest.mark.slow
async def test_a_hundred_thousand_events_are_replayed_under_load(tmp_path: Path) -> None:
    await replay_under_load(tmp_path, 100_000)


async def test_a_cursor_beyond_the_end_is_a_gap(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await begin(client, shared)
        last = (await read_log(client, session_id))[-1]["seq"]
        for ahead in (1, 1000, 2**53, 2**62):
            async with wire_client(shared) as late:
                reply = await attach(late, session_id, last + ahead)
                assert reply["replay"] == {"fromSeq": last + 1, "toSeq": last + 2, "completed": True, "gap": True}
                await send(late, session_id, "count")
                await late.wait_for("run_complete")
                warning, snapshot, message = late.events[:3]
                assert (warning["seq"], warning["payload"]["code"]) == (last + 1, "EVENT_GAP")
                assert warning["payload"]["detail"] == f"Requested lastSeenSeq={last + ahead} but last seq is {last}"
                assert (snapshot["seq"], snapshot["payload"]["state"]) == (last + 2, "idle")
                assert message["type"] == "user_message"
                last = late.events[-1]["seq"]


async def test_a_cursor_at_the_end_is_none(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await begin(client, shared)
        last = (await read_log(client, session_id))[-1]["seq"]
        async with wire_client(shared) as late:
            reply = await attach(late, session_id, last)
            assert reply["replay"] == {"fromSeq": last + 1, "toSeq": last, "completed": True, "gap": False}


@pytest.mark.parametrize("cursor", [-1, 2**63, 2**64, 1.5, "1", None, True])
async def test_an_invalid_cursor_is_refused(shared: Daemon, cursor: object) -> None:
    async with wire_client(shared) as client:
        session_id = await begin(client, shared)
        try:
            await client.ask("attach_session", {"sessionId": session_id, "lastSeenSeq": cursor}, session_id)
        except ErrorResponse as refused:
            assert refused.code == "INVALID_REQUEST"
        else:
            assert isinstance(cursor, int)
            assert cursor >= 2**63
        assert (await client.ask("ping"))["pong"]


async def test_attaching_again_starts_again_from_the_new_cursor(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await begin(client, shared)
        last = (await read_log(client, session_id))[-1]["seq"]
        client.forget()
        await attach(client, session_id, 2)
        await attach(client, session_id, last - 1)
        await client.wait_for("run_complete")
        assert client.events[-1]["seq"] == last


async def test_the_log_is_read_in_pages(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await begin(client, shared)
        whole = await read_log(client, session_id)
        found: list[dict[str, object]] = []
        while True:
            page = await client.ask("read_events", {"after": len(found), "limit": 3}, session_id)
            assert page["lastSeq"] == len(whole)
            if not page["events"]:
                break
            assert len(page["events"]) <= 3
            found += page["events"]
        assert found == whole == client.events


async def begin(client: WireClient, daemon: Daemon) -> str:
    """A session in which a run has been."""
    session_id = await start(client, daemon)
    await send(client, session_id, "count")
    await client.wait_for("run_complete")
    return session_id


async def test_a_gap_is_announced_even_if_the_sessions_folder_is_gone(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        async with wire_client(daemon) as client:
            session_id = await begin(client, daemon)
            await send(client, session_id, "count")
            done = await client.wait_for("run_complete")
            await client.ask("prune_session", {"beforeSeq": done["seq"]}, session_id)
        daemon.stop()
        shutil.rmtree(daemon.workspace)
        daemon.start()
        for _ in range(2):  # the session is left as it was, so the next client learns the same
            async with wire_client(daemon) as late:
                reply = await attach(late, session_id, 0)
                assert reply["replay"]["gap"] is True
                warning, snapshot = await late.wait_for("warning"), await late.wait_for("session_snapshot")
                assert warning["payload"]["code"] == "EVENT_GAP"
                assert reply["replay"]["fromSeq"] == warning["seq"] == snapshot["seq"] - 1
                assert snapshot["payload"]["state"] == "idle"


async def test_a_client_that_a_prune_overtook_gets_a_gap_and_a_snapshot(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, says("one"), says("two")) as host, host.client() as client:
        await client.start()
        for text in ("first", "second"):
            await client.send(text)
            last = (await client.wait_for(RunComplete), client.received[-1].seq)[1]
        await client.api.request(PruneSession(last), PruneSessionReply, client.session_id)
        slow, link = memory_pair()
        runtime = host.runtime
        pump = asyncio.create_task(Pump(link, runtime.sessions, runtime.log, LineCache(), client.session_id, 3).run())
        found: list[Any] = []
        while not found or found[-1]["type"] != "session_snapshot":
            line = await slow.read_line()
            assert line is not None
            found.append(json.loads(line))
        pump.cancel()
        warning, snapshot = found
        assert warning["payload"]["code"] == "EVENT_GAP"
        assert "lastSeenSeq=3" in warning["payload"]["detail"]
        assert last < warning["seq"] == snapshot["seq"] - 1

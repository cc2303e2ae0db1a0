"""Measurements of a shared log: appends in groups, and how soon another node sees them."""

import asyncio
import statistics
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from time import perf_counter
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none

from bench.benchmarks import Benchmark, Contender
from bench.figures import Metric, Sample
from bench.setup import BenchmarkError, Setup
from bench.storage import SESSIONS, TEXT
from buddy.log.contract import Batch, SessionRecord
from buddy.log.owners import this_owner
from buddy.log.postgres.postgres import PostgresLog
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import AssistantToken
from buddy.protocol.shapes import Repo
from tests.harness.postgres import Postgres, is_installed

_asyncpg: Any = asyncpg
INSERT = """
INSERT INTO events SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[])
"""


def appends(setup: Setup) -> Iterator[Contender]:
    seconds = 0.5 if setup.quick else 2.0
    server = start_server(setup)
    yield Contender("grouped INSERT", "floor", lambda: {"shared_appends": [asyncio.run(_bare(server, seconds))]})
    yield Contender("log", "buddy", lambda: {"shared_appends": [_appends(server, seconds)]})
    for nodes in (2, 4):
        yield Contender(f"{nodes} nodes", "buddy", partial(_appends_of, server, seconds, nodes))
    replicated = start_server(setup)
    setup.cleanup.callback(replicated.add_standby().remove)
    yield Contender("with a standby", "buddy", lambda: {"shared_appends": [_appends(replicated, seconds)]})


def nodes(setup: Setup) -> Iterator[Contender]:
    times = 50 if setup.quick else 300
    server = start_server(setup)
    yield Contender("LISTEN", "floor", lambda: {"other_node": asyncio.run(_bare_notices(server, times))})
    yield Contender("log", "buddy", lambda: {"other_node": asyncio.run(_waits(server, times))})


def start_server(setup: Setup) -> Postgres:
    """With what a server has by default: every commit is synced to the disk."""
    if not is_installed():
        raise BenchmarkError("PostgreSQL is missing: make services")
    server = Postgres(fsync="on", autovacuum="on")
    setup.cleanup.enter_context(server)
    return server


async def _bare(server: Postgres, seconds: float) -> float:
    """As many rows in each statement as there are sessions."""
    url = server.database()
    log = await PostgresLog.open(url, lambda: 0)
    await log.close()
    connection = await _asyncpg.connect(url)
    done, began = 0, perf_counter()
    payload = bytes(token_event("sess_x", 1).payload).decode()
    keys = list(range(SESSIONS))
    while perf_counter() - began < seconds:
        seq = [done // SESSIONS + 1] * SESSIONS
        columns = (keys, seq, seq, [None] * SESSIONS, ["assistant_token"] * SESSIONS, [payload] * SESSIONS)
        await connection.execute(INSERT, *columns)
        done += SESSIONS
    rate = done / (perf_counter() - began)
    await connection.close()
    return rate


def _appends(server: Postgres, seconds: float) -> float:
    return asyncio.run(_append(server.database(), "", seconds))


def _appends_of(server: Postgres, seconds: float, nodes: int) -> Sample:
    """Several processes at once, each with as many sessions."""
    url = server.database()
    with ProcessPoolExecutor(nodes, mp_context=get_context("spawn")) as pool:
        started = [pool.submit(_append_here, url, f"{node}_", seconds) for node in range(nodes)]
        return {"shared_appends": [sum(future.result() for future in started)]}


def _append_here(url: str, prefix: str, seconds: float) -> float:
    return asyncio.run(_append(url, prefix, seconds))


async def _append(url: str, prefix: str, seconds: float) -> float:
    """Each session waits for the answer to its event before it appends the next."""
    log = await PostgresLog.open(url, lambda: 0)
    leases = [await log.create(_record(f"sess_{prefix}{number}"), this_owner()) for number in range(SESSIONS)]
    began = perf_counter()

    async def work(number: int) -> int:
        lease, seq = leases[number], 0
        while perf_counter() - began < seconds:
            seq = await log.append(Batch(lease.session_id, lease.epoch, seq, [token_event(lease.session_id, seq + 1)]))
        return seq

    done = sum(await asyncio.gather(*(work(number) for number in range(SESSIONS))))
    rate = done / (perf_counter() - began)
    await log.close()
    return rate


async def _waits(server: Postgres, times: int) -> list[float]:
    """From the call of an append on one node to the return of a wait on another, in milliseconds."""
    url = server.database()
    writer, reader = [await PostgresLog.open(url, lambda: 0) for _ in range(2)]
    lease = await writer.create(_record("sess_1"), this_owner())
    await reader.wait("sess_1", 0, 0.2)
    took: list[float] = []
    for seq in range(times):
        waiting = asyncio.create_task(reader.wait("sess_1", seq, 10))
        await asyncio.sleep(0.01)
        began = perf_counter()
        await writer.append(Batch("sess_1", lease.epoch, seq, [token_event("sess_1", seq + 1)]))
        await waiting
        took.append((perf_counter() - began) * 1000)
    await writer.close()
    await reader.close()
    return [statistics.median(took)]


async def _bare_notices(server: Postgres, times: int) -> list[float]:
    """An INSERT, a NOTIFY on another connection and its arrival on a third."""
    url = server.database()
    await (await PostgresLog.open(url, lambda: 0)).close()
    writer, sender, listener = [await _asyncpg.connect(url) for _ in range(3)]
    await sender.execute("SET synchronous_commit = off")
    heard = asyncio.Event()
    await listener.add_listener("floor", lambda *_: heard.set())  # pyright: ignore[reportUnknownLambdaType] - asyncpg has no types
    took: list[float] = []
    for seq in range(times):
        heard.clear()
        await asyncio.sleep(0.01)
        began = perf_counter()
        await writer.execute(INSERT, [1], [seq], [0], [None], ["x"], [TEXT])
        await sender.execute("SELECT pg_notify('floor', '1')")
        await heard.wait()
        took.append((perf_counter() - began) * 1000)
    for connection in (writer, sender, listener):
        await connection.close()
    return [statistics.median(took)]


def token_event(session_id: str, seq: int) -> Event:
    return event_of(AssistantToken(text=TEXT), session_id=session_id, seq=seq, ts=0, run_id="run_1")


def _record(session_id: str) -> SessionRecord:
    return SessionRecord(session_id, Repo("/"), "headless", "idle", 0, 0, 1, 0)


BENCHMARKS = (
    Benchmark(
        "shared-appends",
        (
            Metric(
                "shared_appends",
                "appends to PostgreSQL, 100 sessions, grouped",
                "events/s",
                "≥ 20,000",
                more_is_better=True,
            ),
        ),
        appends,
    ),
    Benchmark("shared-nodes", (Metric("other_node", "append to reader on another node, p50", "ms", "≤ 8"),), nodes),
)

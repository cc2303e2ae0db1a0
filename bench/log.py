"""How many events per second go into the SQLite log, beside a bare apsw loop with the same durability and batch size.

`python bench/log.py [SECONDS]`. Each session has up to eight appends under way, as a session has that streams tokens.
The bare loop commits each batch by itself with `executemany`; the log may commit what waits together.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from buddy.log.contract import Batch, Lease, SessionRecord
from buddy.log.database import Database
from buddy.log.owners import this_owner
from buddy.log.schema import open_database
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import AssistantToken
from buddy.protocol.shapes import Repo

UNDER_WAY = 8
TEXT = "The quick brown fox jumps over the lazy dog. " * 4
INSERT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT))"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def events_after(session_id: str, seq: int, count: int) -> list[Event]:
    body = AssistantToken(text=TEXT)
    numbers = range(seq + 1, seq + count + 1)
    return [event_of(body, session_id=session_id, seq=number, ts=1, run_id="run_1") for number in numbers]


def bare_rate(place: Path, size: int, seconds: float, *, durable: bool) -> float:
    db = open_database(place / "bare.db")
    db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}", can_cache=False)
    began, written = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        commit_bare(db, written, size)
        written += size
    rate = written / (time.perf_counter() - began)
    db.close()
    return rate


def commit_bare(db: Database, seq: int, size: int) -> None:
    events = events_after("sess_bare", seq, size)
    db.execute("BEGIN IMMEDIATE")
    db.executemany(INSERT, [(1, event.seq, event.ts, event.run_id, event.type, event.payload) for event in events])
    db.execute("COMMIT")


async def log_rate(place: Path, sessions: int, size: int, seconds: float, *, durable: bool) -> float:
    log = SqliteLog.open(place, now_ms)
    made = [SessionRecord(f"sess_{n}", Repo(root_path="/p"), "headless", "idle", 1, 1, 1, 0) for n in range(sessions)]
    leases = [await log.create(record, this_owner()) for record in made]
    began = time.perf_counter()
    streams = (stream(log, lease, size, began + seconds, durable=durable) for lease in leases)
    written = sum(await asyncio.gather(*streams))
    rate = written / (time.perf_counter() - began)
    await log.close()
    return rate


async def stream(log: SqliteLog, lease: Lease, size: int, until: float, *, durable: bool) -> int:
    """Append until the time is over, a few batches ahead of the acknowledgements; give how many events."""
    seq = 0
    room = asyncio.Semaphore(UNDER_WAY)

    async def append(batch: Batch) -> None:
        try:
            await log.append(batch)
        finally:
            room.release()

    async with asyncio.TaskGroup() as group:
        while time.perf_counter() < until:
            await room.acquire()
            events = events_after(lease.session_id, seq, size)
            group.create_task(append(Batch(lease.session_id, lease.epoch, seq, events, durable=durable)))
            seq += size
    return seq


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    print(f"{'durable':8} {'sessions':>8} {'batch':>5} {'events/s':>10} {'bare apsw':>10} {'ratio':>6}")
    for durable in (False, True):
        for size in (1, 20):
            for sessions in (1, 100):
                with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
                    bare = bare_rate(Path(name), size, seconds, durable=durable)
                    rate = asyncio.run(log_rate(Path(name), sessions, size, seconds, durable=durable))
                print(f"{durable!s:8} {sessions:8} {size:5} {rate:10,.0f} {bare:10,.0f} {rate / bare:6.2f}")


if __name__ == "__main__":
    main()

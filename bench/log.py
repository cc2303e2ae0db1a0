"""How many events per second go into the SQLite log, beside a bare apsw loop with the same durability and batch size.

`python bench/log.py [SECONDS]`. `ahead` is how many appends a session has under way: 1 waits for each answer, 8 is a
session that streams. The bare loop commits each batch by itself, so a ratio above 1 is the gain of committing what
waits together, not a faster insert. Event loop and writer share the interpreter lock: figures differ with the number of
free cores (`taskset -c 0` shows the other side), so compare ratios within one run and repeat it.
"""

import asyncio
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

from msgspec import Struct

from buddy.log.contract import Batch, Lease, SessionRecord
from buddy.log.database import Database
from buddy.log.owners import this_owner
from buddy.log.schema import open_database
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import AssistantToken
from buddy.protocol.shapes import Repo

TEXT = "The quick brown fox jumps over the lazy dog. " * 4
INSERT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT))"


class Case(Struct, frozen=True):
    durable: bool
    size: int
    sessions: int
    ahead: int


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def events_after(session_id: str, seq: int, count: int) -> list[Event]:
    body = AssistantToken(text=TEXT)
    numbers = range(seq + 1, seq + count + 1)
    return [event_of(body, session_id=session_id, seq=number, ts=1, run_id="run_1") for number in numbers]


def bare_rate(place: Path, case: Case, seconds: float) -> float:
    db = open_database(place / "bare.db")
    db.execute(f"PRAGMA synchronous = {'FULL' if case.durable else 'NORMAL'}", can_cache=False)
    began, written = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        commit_bare(db, written, case.size)
        written += case.size
    rate = written / (time.perf_counter() - began)
    db.close()
    return rate


def commit_bare(db: Database, seq: int, size: int) -> None:
    events = events_after("sess_bare", seq, size)
    db.execute("BEGIN IMMEDIATE")
    db.executemany(INSERT, [(1, event.seq, event.ts, event.run_id, event.type, event.payload) for event in events])
    db.execute("COMMIT")


async def log_rate(place: Path, case: Case, seconds: float) -> float:
    log = SqliteLog.open(place, now_ms)
    made = [
        SessionRecord(f"sess_{n}", Repo(root_path="/p"), "headless", "idle", 1, 1, 1, 0) for n in range(case.sessions)
    ]
    leases = [await log.create(record, this_owner()) for record in made]
    began = time.perf_counter()
    streams = (stream(log, lease, case, began + seconds) for lease in leases)
    written = sum(await asyncio.gather(*streams))
    rate = written / (time.perf_counter() - began)
    await log.close()
    return rate


async def stream(log: SqliteLog, lease: Lease, case: Case, until: float) -> int:
    """Append until the time is over, a few batches ahead of the acknowledgements; give how many events."""
    seq = 0
    room = asyncio.Semaphore(case.ahead)

    async def append(batch: Batch) -> None:
        try:
            await log.append(batch)
        finally:
            room.release()

    async with asyncio.TaskGroup() as group:
        while time.perf_counter() < until:
            await room.acquire()
            events = events_after(lease.session_id, seq, case.size)
            group.create_task(append(Batch(lease.session_id, lease.epoch, seq, events, durable=case.durable)))
            seq += case.size
    return seq


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    print(f"{'durable':8} {'sessions':>8} {'batch':>5} {'ahead':>5} {'events/s':>10} {'bare apsw':>10} {'ratio':>6}")
    for durable, size, sessions, ahead in itertools.product((False, True), (1, 20), (1, 100), (1, 8)):
        case = Case(durable, size, sessions, ahead)
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
            bare = bare_rate(Path(name), case, seconds)
            rate = asyncio.run(log_rate(Path(name), case, seconds))
        print(f"{durable!s:8} {sessions:8} {size:5} {ahead:5} {rate:10,.0f} {bare:10,.0f} {rate / bare:6.2f}")


if __name__ == "__main__":
    main()

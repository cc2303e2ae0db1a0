"""Measurements of the log and the socket: appends, replay, opening, fan-out, round trips."""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter, perf_counter_ns

from bench.agents import Daemon
from bench.benchmarks import Benchmark, Contender
from bench.figures import Metric, Sample
from bench.setup import ROOT, Setup
from bench.wire import Wire
from buddy.log.contract import Batch, Lease, SessionRecord
from buddy.log.owners import this_owner
from buddy.log.schema import open_database
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import AssistantToken, SessionStarted
from buddy.protocol.shapes import Repo

TEXT = "The quick brown fox jumps over the lazy dog. " * 4
SESSIONS = 100
CLIENTS = 10
INSERT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT))"


def trip(setup: Setup) -> Iterator[Contender]:
    times = 500 if setup.quick else 2000
    pair, daemon = _pair(setup, 1, 120), Daemon(setup)

    def bare() -> Sample:
        return {"trip": _round_trips(pair, b"ping\n", times)}

    def buddy() -> Sample:
        hello = {"clientName": "bench", "clientVersion": "1", "capabilities": list[str]()}
        return {"trip": _round_trips(daemon.socket, _line("ping", {}), times, first=_line("hello", hello))}

    yield Contender("asyncio", "floor", bare)
    yield Contender("daemon", "buddy", buddy)


def fanout(setup: Setup) -> Iterator[Contender]:
    count = 5_000 if setup.quick else 20_000
    home = setup.new_folder("home")
    session_id = asyncio.run(fill_log(home / "state", "sess_fan", count))
    pair = _pair(setup, count, len(_token(session_id, count).line()) + 1)

    async def buddy() -> float:
        # A new daemon each time: it caches what it sent last.
        with Daemon(setup, home) as daemon:
            opener = await Wire.connect(daemon.socket)
            await opener.attach(session_id, count)
            counters = [await Counter.greet(daemon.socket) for _ in range(CLIENTS)]
            request = _line("attach_session", {"sessionId": session_id, "lastSeenSeq": 0})
            return await _rate(counters, request, count + 1)

    async def bare() -> float:
        return await _rate([await Counter.connect(pair) for _ in range(CLIENTS)], b"all\n", count)

    yield Contender("asyncio", "floor", lambda: {"fanout": [asyncio.run(bare())]})
    yield Contender("daemon", "buddy", lambda: {"fanout": [asyncio.run(buddy())]})


def replay(setup: Setup) -> Iterator[Contender]:
    """By new daemons: one that only opens the session, then one that sends all of it."""
    count = 20_000 if setup.quick else 100_000
    home = setup.new_folder("home")
    session_id = asyncio.run(fill_log(home / "state", "sess_long", count))
    pair = _pair(setup, count, 0, home / "state" / "buddy.db")

    async def opening() -> float:
        with Daemon(setup, home) as daemon:
            wire = await Wire.connect(daemon.socket)
            began = perf_counter()
            await wire.attach(session_id, count)
            took = perf_counter() - began
            wire.close()
            return took

    async def buddy() -> Sample:
        opened = await opening()
        with Daemon(setup, home) as daemon:
            counter = await Counter.greet(daemon.socket)
            request = _line("attach_session", {"sessionId": session_id, "lastSeenSeq": 0})
            return {"replay": [await _rate([counter], request, count + 1)], "open": [opened]}

    async def bare() -> Sample:
        return {"replay": [await _rate([await Counter.connect(pair)], b"log\n", count)]}

    yield Contender("asyncio apsw", "floor", lambda: asyncio.run(bare()))
    yield Contender("daemon", "buddy", lambda: asyncio.run(buddy()))


def appends(setup: Setup) -> Iterator[Contender]:
    seconds = 0.5 if setup.quick else 2.0
    yield Contender("apsw FULL", "floor", lambda: {"appends": [_bare_appends(setup.new_folder("log"), seconds)]})
    yield Contender("log", "buddy", lambda: {"appends": [asyncio.run(_appends(setup.new_folder("log"), seconds))]})


class Counter(asyncio.Protocol):
    """Counts lines without parsing them."""

    def __init__(self) -> None:
        self._left = 1
        self._there = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, path: Path) -> "Counter":
        _, counter = await asyncio.get_running_loop().create_unix_connection(cls, str(path))
        return counter

    @classmethod
    async def greet(cls, path: Path) -> "Counter":
        counter = await cls.connect(path)
        hello = {"clientName": "bench", "clientVersion": "1", "capabilities": ["stream_tokens"]}
        await counter.take(_line("hello", hello), 1)
        return counter

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._left -= data.count(b"\n")
        if self._left <= 0 and not self._there.done():
            self._there.set_result(None)

    async def take(self, request: bytes, lines: int) -> None:
        """Send the request and wait for this number of lines."""
        self._left = lines
        self._there = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        await asyncio.wait_for(self._there, 60)


async def _rate(counters: Sequence[Counter], request: bytes, lines: int) -> float:
    """Lines per second of all counters together."""
    began = perf_counter()
    await asyncio.gather(*(counter.take(request, lines) for counter in counters))
    took = perf_counter() - began
    for counter in counters:
        counter.transport.close()
    return lines * len(counters) / took


def _round_trips(path: Path, ask: bytes, times: int, first: bytes = b"") -> list[float]:
    """Microseconds per round trip of a client that only waits."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        if first:
            connection.sendall(first)
            connection.recv(65536)
        found: list[float] = []
        for _ in range(times):
            began = perf_counter_ns()
            connection.sendall(ask)
            connection.recv(65536)
            found.append((perf_counter_ns() - began) / 1000)
        return found


def _line(kind: str, payload: Mapping[str, object]) -> bytes:
    message: dict[str, object] = {"v": "push.runtime.v1", "kind": "request", "requestId": "req_bench", "type": kind}
    if "sessionId" in payload:
        message["sessionId"] = payload["sessionId"]
    return json.dumps({**message, "payload": payload}).encode() + b"\n"


def _pair(setup: Setup, count: int, size: int, database: Path | None = None) -> Path:
    path = setup.new_folder("pair") / "sock"
    command = [sys.executable, str(ROOT / "bench" / "pair.py"), str(path), str(count), str(size)]
    process = setup.start([*command, str(database)] if database else command)
    setup.wait_for_socket(path, process)
    return path


async def fill_log(state_dir: Path, session_id: str, count: int) -> str:
    """A session with this number of events, written directly to the log of a daemon that is not running yet."""
    log = SqliteLog.open(state_dir, _now)
    lease = await log.create(_record(session_id), this_owner())
    await log.append(Batch(session_id, lease.epoch, 0, [_started_event(session_id)]))
    for after in range(1, count, 1000):
        events = [_token(session_id, seq) for seq in range(after + 1, min(after + 1000, count) + 1)]
        await log.append(Batch(session_id, lease.epoch, after, events))
    await log.release(lease)
    await log.close()
    return session_id


def _started_event(session_id: str) -> Event:
    body = SessionStarted(
        session_id=session_id,
        state="idle",
        mode="interactive",
        provider="default",
        sandbox_provider="local",
        repo=Repo("/"),
    )
    return event_of(body, session_id=session_id, seq=1, ts=_now())


def _token(session_id: str, seq: int) -> Event:
    return event_of(AssistantToken(text=TEXT), session_id=session_id, seq=seq, ts=_now(), run_id="run_seeded")


def _record(session_id: str) -> SessionRecord:
    return SessionRecord(session_id, Repo("/"), "interactive", "idle", _now(), _now(), 1, 0)


async def _appends(place: Path, seconds: float) -> float:
    """Each session waits for the answer to its one durable event before it appends the next."""
    log = SqliteLog.open(place, _now)
    leases = [await log.create(_record(f"sess_{number}"), this_owner()) for number in range(SESSIONS)]
    until = perf_counter() + seconds

    async def stream(lease: Lease) -> int:
        seq = 0
        while perf_counter() < until:
            await log.append(
                Batch(lease.session_id, lease.epoch, seq, [_token(lease.session_id, seq + 1)], durable=True)
            )
            seq += 1
        return seq

    began = perf_counter()
    written = sum(await asyncio.gather(*(stream(lease) for lease in leases)))
    rate = written / (perf_counter() - began)
    await log.close()
    return rate


def _bare_appends(place: Path, seconds: float) -> float:
    """One event of each session in each commit, which is the most that can wait at once."""
    db = open_database(place / "bare.db")
    db.execute("PRAGMA synchronous = FULL", can_cache=False)
    began, written = perf_counter(), 0
    while perf_counter() - began < seconds:
        events = [_token(f"sess_{number}", written + 1) for number in range(SESSIONS)]
        db.execute("BEGIN IMMEDIATE")
        rows = [(at, event.seq, event.ts, event.run_id, event.type, event.payload) for at, event in enumerate(events)]
        db.executemany(INSERT, rows)
        db.execute("COMMIT")
        written += SESSIONS
    rate = written / (perf_counter() - began)
    db.close()
    return rate


def _now() -> int:
    return time.time_ns() // 1_000_000


BENCHMARKS = (
    Benchmark("trip", (Metric("trip", "socket round trip", "µs", "≤ 120 / 300", tail=True),), trip),
    Benchmark(
        "fanout",
        (Metric("fanout", "fan-out to 10 clients, delivered", "events/s", "≥ 400,000", more_is_better=True),),
        fanout,
    ),
    Benchmark(
        "appends",
        (Metric("appends", "durable acknowledged appends, 100 sessions", "events/s", "≥ 35,000", more_is_better=True),),
        appends,
        rounds=3,
    ),
    Benchmark(
        "replay",
        (
            Metric("replay", "replay of 100,000 events from the log", "events/s", "≥ 400,000", more_is_better=True),
            Metric("open", "opening a session of 100,000 events", "s", "≤ 0.2"),
        ),
        replay,
    ),
)

"""Latency added to an external agent's events: from the line it writes to the event at a client.

Invariants: the program that writes the lines is the same for all; it writes slowly enough that no line waits
for another, so that latency is measured and not queueing.
"""

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns

from bench.agents import Daemon
from bench.benchmarks import Benchmark, Contender, measure
from bench.figures import Metric, Sample, table
from bench.setup import Setup, cpu_seconds
from bench.wire import Wire

TICKER = str(Path(__file__).parent / "ticker.py")
RELAY = str(Path(__file__).parent / "relay.py")
EVENTS = 150
GAP = 0.025
"""In seconds; longer than the time within which deltas are recorded together."""
_STAMP = re.compile(rb"\d{10,}")


class TimingWire(Wire):
    """A client that records when each event arrived and when it was written."""

    def __init__(self) -> None:
        super().__init__()
        self.came: list[int] = []
        self.written: list[int] = []

    def _line(self, line: bytes) -> None:
        now = monotonic_ns()
        if b'"type":"assistant_token"' in line[:300]:
            self.came += [now] * line.count(b"tea ")
        elif b'"type":"status"' in line[:300]:
            stamps = [int(stamp) for stamp in _STAMP.findall(line, line.index(b'"payload"'))]
            self.written += stamps
            self.came += [now] if len(stamps) == 1 else []
        super()._line(line)

    def delays(self) -> list[float]:
        """The latency of each event in milliseconds; starts over."""
        found = [(came - written) / 1e6 for came, written in zip(self.came, self.written, strict=True)]
        self.came, self.written = [], []
        return found


def agent_events(setup: Setup) -> Iterator[Contender]:
    count = EVENTS // 5 if setup.quick else EVENTS
    programs = setup.new_folder("programs")
    program = programs / "droid"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{TICKER}" droid\n')
    program.chmod(0o755)
    setup.env |= {"PATH": f"{programs}:{setup.env['PATH']}", "FACTORY_API_KEY": "x"}
    yield Contender("pipe + socket", "floor", lambda: asyncio.run(_bare(setup, count)))
    yield Contender("daemon", "buddy", lambda: asyncio.run(_through_daemon(setup, count)))


async def _bare(setup: Setup, count: int) -> Sample:
    path = setup.new_folder("relay") / "sock"
    words = [sys.executable, "-I", TICKER, "raw", str(count), str(GAP)]
    process = setup.start([sys.executable, "-I", RELAY, str(path), *words])
    setup.wait_for_socket(path, process)
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"go\n")
    delays = list[float]()
    while line := await reader.readline():
        delays += [(monotonic_ns() - int(stamp)) / 1e6 for stamp in _STAMP.findall(line)]
    writer.close()
    await asyncio.to_thread(process.wait)
    return {"agent-event": delays, "agent-delta": delays}


async def _through_daemon(setup: Setup, count: int) -> Sample:
    found = dict[str, list[float]]()
    for key, kind in (("agent-event", "events"), ("agent-delta", "deltas")):
        # One daemon each: indexing the memory of a run continues while the next one runs.
        with Daemon(setup) as daemon:
            wire = await TimingWire.connect(daemon.socket)
            session_id = await _start(wire, setup.new_folder("benchmark"))
            before = cpu_seconds(daemon.pid)
            await wire.send(session_id, f"{kind} {count} {GAP}")
            await wire.wait_over(session_id)
            wire.close()
            found[key] = wire.delays()
            found[f"{key}-cpu"] = [(cpu_seconds(daemon.pid) - before) / count * 1000]
    return found


async def _start(wire: TimingWire, folder: Path) -> str:
    request = {"mode": "interactive", "provider": "default", "sandboxProvider": "local"}
    more = {"repo": {"rootPath": str(folder)}, "options": {"agentRuntime": "droid"}}
    return (await wire.ask("start_session", {**request, **more}))["sessionId"]


BENCHMARKS = (
    Benchmark(
        "agents",
        (
            Metric("agent-event", "another agent's event, its line → a client", "ms", "p99 ≤ 5", tail=True),
            Metric("agent-delta", "a piece of what it says, its line → a client", "ms", "p99 ≤ 5", tail=True),
            Metric("agent-event-cpu", "another agent's event, CPU", "ms", "none"),
            Metric("agent-delta-cpu", "a piece of what it says, CPU", "ms", "none"),
        ),
        agent_events,
        rounds=3,
    ),
)


def main() -> None:
    """Measure only these rows."""
    for benchmark in BENCHMARKS:
        with Setup() as setup:
            print("\n".join(table(measure(benchmark, setup, benchmark.rounds))))


if __name__ == "__main__":
    main()

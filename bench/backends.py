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
from bench.figures import Metric, Sample, table
from bench.stage import Stage, cpu_seconds
from bench.wire import Wire
from bench.works import Subject, Work, measure

TICKER = str(Path(__file__).parent / "ticker.py")
RELAY = str(Path(__file__).parent / "relay.py")
EVENTS = 150
GAP = 0.025
"""In seconds; longer than pieces are waited for to be recorded together."""
_STAMP = re.compile(rb"\d{10,}")


class Ear(Wire):
    """A client that notes when each event came, and when it was written."""

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
        """How long each was under way, in milliseconds; from here on others are noted."""
        found = [(came - written) / 1e6 for came, written in zip(self.came, self.written, strict=True)]
        self.came, self.written = [], []
        return found


def agent_events(stage: Stage) -> Iterator[Subject]:
    count = EVENTS // 5 if stage.quick else EVENTS
    programs = stage.new_folder("programs")
    program = programs / "droid"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{TICKER}" droid\n')
    program.chmod(0o755)
    stage.env |= {"PATH": f"{programs}:{stage.env['PATH']}", "FACTORY_API_KEY": "x"}
    yield Subject("pipe + socket", "floor", lambda: asyncio.run(_bare(stage, count)))
    yield Subject("daemon", "buddy", lambda: asyncio.run(_through_us(stage, count)))


async def _bare(stage: Stage, count: int) -> Sample:
    path = stage.new_folder("relay") / "sock"
    words = [sys.executable, "-I", TICKER, "raw", str(count), str(GAP)]
    process = stage.start([sys.executable, "-I", RELAY, str(path), *words])
    stage.wait_for_socket(path, process)
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"go\n")
    delays = list[float]()
    while line := await reader.readline():
        delays += [(monotonic_ns() - int(stamp)) / 1e6 for stamp in _STAMP.findall(line)]
    writer.close()
    await asyncio.to_thread(process.wait)
    return {"agent-event": delays, "agent-delta": delays}


async def _through_us(stage: Stage, count: int) -> Sample:
    found = dict[str, list[float]]()
    for key, kind in (("agent-event", "events"), ("agent-delta", "deltas")):
        # Each in a daemon of its own: what is remembered of one run is worked out while the next one goes on.
        with Daemon(stage) as daemon:
            ear = await Ear.connect(daemon.socket)
            session_id = await _start(ear, stage.new_folder("work"))
            before = cpu_seconds(daemon.pid)
            await ear.send(session_id, f"{kind} {count} {GAP}")
            await ear.wait_over(session_id)
            ear.close()
            found[key] = ear.delays()
            found[f"{key}-cpu"] = [(cpu_seconds(daemon.pid) - before) / count * 1000]
    return found


async def _start(ear: Ear, folder: Path) -> str:
    request = {"mode": "interactive", "provider": "default", "sandboxProvider": "local"}
    more = {"repo": {"rootPath": str(folder)}, "options": {"agentRuntime": "droid"}}
    return (await ear.ask("start_session", {**request, **more}))["sessionId"]


WORKS = (
    Work(
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
    """These rows alone."""
    for work in WORKS:
        with Stage() as stage:
            print("\n".join(table(measure(work, stage, work.rounds))))


if __name__ == "__main__":
    main()

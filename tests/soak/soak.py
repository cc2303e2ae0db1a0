"""Days of use in hours: many sessions on one daemon that is killed, replaced and starved; then everything is checked.

    python -m tests.soak.soak --hours 0.5

Invariants that are checked: the offline checker finds nothing in the log, in what the commands did and in what clients
received; each message that was accepted is in the log once, in the run that was promised; the database is intact; what
the daemon uses does not grow.
"""

import argparse
import asyncio
import contextlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import cast

import apsw
from msgspec import Struct

from buddy.log.database import connect as open_database
from tests.fleet.nodes import FleetOf
from tests.fleet.soak import broken_promises
from tests.harness.clients import connect
from tests.harness.scripts import Reply, section, shell
from tests.soak.machine import Machine
from tests.soak.measures import JUDGED, UNITS, Sample, percentile, sample, trend_of
from tests.soak.people import Resident

KINDS = ("kill", "restart", "disk", "mcp")
DONE = 'echo "$BUDDY_CALL" >> LEDGER'
SCRIPT: list[Reply] = [
    section("^count", {"text": "one two three"}),
    section("^make", shell(DONE), {"text": "made"}),
    section("^twice", *[shell(f"{DONE}; sleep 0.2")] * 2, {"text": "made two"}),
    section("^drip", {"text": "drop " * 40, "delay": 0.05}),
    section("^linger", shell(f"{DONE}; sleep 3"), {"text": "lingered"}),
    section("^write", shell(f"{DONE}; date +%N > written; seq 2000 > lines"), {"text": "wrote"}),
    section("^mcp", {"calls": [{"name": "mcp__soak__echo", "args": {"text": "hello"}}]}, {"text": "heard"}),
]
FULL_SECONDS = 2.0
SETTLED_SECONDS = 2.0
JUDGED_SECONDS = 600.0
"""A trend of less than this is shown and not judged."""


class Plan(Struct, frozen=True, kw_only=True):
    sessions: int = 50
    seconds: float = 1800.0
    fault_seconds: float = 60.0
    pause_seconds: float = 5.0
    events: int = 1_000_000
    kinds: tuple[str, ...] = KINDS
    seed: int = 0


class Outcome(Struct, kw_only=True):
    violations: list[str]
    faults: Counter[str]
    counts: Counter[str]
    samples: list[Sample]
    pings: list[float]
    events: int
    effects: int


class Soak:
    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.machine = Machine(folder, SCRIPT)
        self.faults: Counter[str] = Counter()
        self.samples: list[Sample] = []
        self.pings: list[float] = []
        self._chance = random.Random(plan.seed)  # noqa: S311 - no secret
        self._began = time.monotonic()
        self._started = self._began

    async def run(self) -> Outcome:
        await asyncio.to_thread(self.machine.daemon.start)
        try:
            people = self._people()
            async with asyncio.TaskGroup() as group:
                for person in people:
                    group.create_task(person.begin())
            await self._lengthen(people[0])
            self._began = self._started = time.monotonic()
            await self._live(people)
            return await self._end(people)
        finally:
            await asyncio.to_thread(self.machine.daemon.stop)

    def _people(self) -> list[Resident]:
        found = [
            Resident(cast("FleetOf", self.machine), number, self._chance.random())
            for number in range(self.plan.sessions)
        ]
        for person in found:
            person.machine = self.machine
        return found

    async def _lengthen(self, person: Resident) -> None:
        """One session has a past of a million events."""
        await person.leave()
        daemon = self.machine.daemon
        await asyncio.to_thread(daemon.stop)
        await asyncio.to_thread(self.machine.lengthen, person.session_id, self.plan.events)
        person.skip((await self.machine.last_seqs())[person.session_id])
        await asyncio.to_thread(daemon.start)

    async def _live(self, people: list[Resident]) -> None:
        until = time.monotonic() + self.plan.seconds
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(self._measure()), group.create_task(self._ping())]
            working = [group.create_task(person.work(until, self.plan.pause_seconds)) for person in people]
            await self._fail(until)
            await asyncio.wait(working)
            for task in watching:
                task.cancel()

    # --- what happens ------------------------------------------------------------------------------------------------

    async def _fail(self, until: float) -> None:
        number = 0
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, self._chance.uniform(0.5, 1.5) * self.plan.fault_seconds))
            kinds = self.plan.kinds
            kind = kinds[number] if number < len(kinds) else self._chance.choice(kinds)
            number += 1
            self.faults[kind] += 1
            await {"kill": self._kill, "restart": self._restart, "disk": self._fill, "mcp": self._kill_servers}[kind]()

    async def _kill(self) -> None:
        await asyncio.to_thread(self.machine.daemon.kill)
        await asyncio.sleep(self._chance.uniform(0, 1))
        await asyncio.to_thread(self.machine.daemon.start)
        self._started = time.monotonic()

    async def _restart(self) -> None:
        done = await asyncio.to_thread(self.machine.daemon.run, "daemon", "restart", "--wait", "10s")
        assert done.code == 0, done.err
        self._started = time.monotonic()

    async def _fill(self) -> None:
        """No file may grow for a moment: what a full disk looks like to a process."""
        pid = self.machine.daemon.pid()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        await asyncio.sleep(FULL_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    async def _kill_servers(self) -> None:
        """MCP servers die, and come back with the next call."""
        await asyncio.to_thread(self._end_children, b"mcp_server")

    def _end_children(self, word: bytes) -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                parent = (path.parent / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == self.machine.daemon.pid() and word in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)

    # --- what is measured --------------------------------------------------------------------------------------------

    async def _measure(self) -> None:
        while True:
            now = time.monotonic()
            about = (self.machine.daemon.pid(), self.machine.daemon.state_dir, now - self._began, now - self._started)
            taken = await asyncio.to_thread(sample, *about)
            if taken is not None:
                self.samples.append(taken)
            await asyncio.sleep(max(1.0, self.plan.seconds / 2000))

    async def _ping(self) -> None:
        """A client that only wants to know whether somebody is there; while the daemon is away, nothing is measured."""
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                client = await connect(self.machine.daemon)
                try:
                    await client.hello("console")
                    while True:
                        began = time.perf_counter()
                        await client.ask("ping")
                        self.pings.append(time.perf_counter() - began)
                        await asyncio.sleep(0.1)
                finally:
                    await client.close()
            await asyncio.sleep(0.2)

    # --- what is left ------------------------------------------------------------------------------------------------

    async def _catch_up(self, people: list[Resident]) -> None:
        """Until nothing is appended: what a command changed is found after its run, too."""
        known: dict[str, int] = {}
        while (last_seqs := await self.machine.last_seqs()) != known:
            known = last_seqs
            await asyncio.gather(*(person.catch_up(known[person.session_id]) for person in people))
            await asyncio.sleep(SETTLED_SECONDS)

    async def _end(self, people: list[Resident]) -> Outcome:
        daemon = self.machine.daemon
        await self._catch_up(people)
        to_end = [person.client for person in people if person.client]
        await asyncio.gather(*(person.leave() for person in people))
        await asyncio.to_thread(daemon.stop)
        log = await self.machine.read_log()
        # The reply that named a fork may have been lost.
        self.machine.forks |= log.keys() - {person.session_id for person in people}
        violations = [*self.machine.violations(log, to_end), *broken_promises(people, log)]
        violations += [
            f"{text}: {number} times"
            for person in people
            for text, number in person.counts.items()
            if number and text.startswith(("refused", "approved"))
        ]
        violations += [f"the database is damaged: {line}" for line in _integrity(daemon.state_dir)]
        if self.plan.seconds >= JUDGED_SECONDS:
            violations += [
                f"{name} grows" for name in JUDGED if (trend := trend_of(self.samples, name)) and trend.grows
            ]
        return Outcome(
            violations=violations,
            faults=self.faults,
            counts=sum((person.counts for person in people), Counter[str]()),
            samples=self.samples,
            pings=self.pings,
            events=sum(map(len, log.values())) + self.plan.events,
            effects=len(self.machine.ledger.read_text().split()),
        )


def _integrity(state_dir: Path) -> list[str]:
    db = open_database(state_dir / "buddy.db", apsw.SQLITE_OPEN_READWRITE)
    try:
        found = [str(row[0]) for row in db.execute("PRAGMA integrity_check")]
    finally:
        db.close()
    return [] if found == ["ok"] else found


def report(plan: Plan, outcome: Outcome) -> str:
    """The figures, one to a line."""
    pings = [1000 * seconds for seconds in outcome.pings]
    lines = [
        f"{plan.sessions} sessions for {plan.seconds:.0f} s, seed {plan.seed}; one with {plan.events} events before",
        f"faults: {_counted(outcome.faults)}",
        f"what people did: {_counted(outcome.counts)}",
        f"events: {outcome.events}; side effects: {outcome.effects}",
        f"ping under load: median {percentile(pings, 0.5):.2f} ms, p99 {percentile(pings, 0.99):.2f} ms",
    ]
    for name, measured_in in UNITS.items():
        trend = trend_of(outcome.samples, name)
        if trend is not None:
            unit = f" {measured_in}".rstrip()
            lines.append(f"{name}: mean {trend.mean:.1f}{unit}, {trend.slope:+.2f} ± {trend.margin:.2f}{unit} per hour")
    return "\n".join([*lines, f"violations: {len(outcome.violations)}", *outcome.violations])


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items())) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(description="Use a daemon for hours while it is killed, and check what is left.")
    parser.add_argument("--hours", type=float, default=0.5)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--events", type=int, default=1_000_000, help="events that one session has before")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between faults, on average (default 60)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    plan = Plan(
        sessions=options.sessions,
        seconds=options.hours * 3600,
        events=options.events,
        fault_seconds=options.every,
        seed=options.seed,
    )
    with tempfile.TemporaryDirectory(prefix="buddy-soak-") as folder:
        outcome = asyncio.run(Soak(plan, Path(folder)).run())
    print(report(plan, outcome))  # noqa: T201 - a command's result
    return bool(outcome.violations)


if __name__ == "__main__":
    sys.exit(main())

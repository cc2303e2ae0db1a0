"""Many sessions on a fleet whose nodes fail at random; afterwards every invariant is checked offline.

    python -m tests.fleet.soak --sessions 100 --minutes 10 [--placement temporal]

Invariants that are checked: the offline checker finds nothing in the log, in what the commands did and in what clients
received; each message that was accepted is in the log once, in the run that was promised; the head of each session is
its last event; nothing that nodes asked each other is left.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from buddy.protocol.envelopes import Event
from buddy.protocol.events import Recovery, RunComplete, ToolResult, UserMessage
from tests.fleet.faults import LEASE_SECONDS, Fault, Faults
from tests.fleet.nodes import FleetOf
from tests.fleet.people import Person
from tests.harness.logs import opened_log, read_all
from tests.harness.postgres import Postgres, is_installed
from tests.harness.scripts import Reply, section, shell
from tests.harness.temporal import Temporal, settings

KINDS = ("kill", "pause", "drain", "stop", "connections", "database")
OF_TEMPORAL = ("temporal", "silence")
PLACEMENTS = ("postgres", "temporal")
DONE = 'echo "$BUDDY_CALL" >> LEDGER'
SCRIPT: list[Reply] = [
    section("^count", {"text": "one two three"}),
    section("^make", shell(DONE), {"text": "made"}),
    section("^twice", *[shell(f"{DONE}; sleep 0.2")] * 2, {"text": "made two"}),
    section("^drip", {"text": "drop " * 40, "delay": 0.05}),
    section("^linger", shell(f"{DONE}; sleep 3"), {"text": "lingered"}),
]
HEADS = """SELECT count(*) FROM sessions s WHERE s.last_seq IS DISTINCT FROM
    (SELECT coalesce(max(e.seq), 0) FROM events e WHERE e.session = s.key)"""
WAITING = "SELECT count(*) FROM requests WHERE state = 'waiting' AND session IS NOT NULL"

Body = TypeVar("Body", Recovery, RunComplete, ToolResult)


class Plan(Struct, frozen=True, kw_only=True):
    sessions: int = 100
    seconds: float = 600.0
    nodes: int = 4
    fault_seconds: float = 8.0
    pause_seconds: float = 4.0
    kinds: Sequence[str] = KINDS
    placement: str = "postgres"
    seed: int = 0


class Outcome(Struct, kw_only=True):
    """What is left of a fleet that had to bear all this."""

    violations: list[str]
    faults: list[Fault]
    drains: list[float]
    counts: Counter[str]
    events: dict[str, list[Event]]
    effects: int

    def bodies(self, kind: type[Body]) -> list[tuple[Event, Body]]:
        """The events of one type, with what they say."""
        found = ((event, event.body()) for events in self.events.values() for event in events)
        return [(event, body) for event, body in found if isinstance(body, kind)]

    def take_overs(self, kind: str) -> list[float]:
        """Seconds from a fault of this kind to each session's first event on another node."""
        found: list[float] = []
        for event, body in self.bodies(Recovery):
            reason = next((one for one in self.faults if one.node == body.from_node and _covers(one, event.ts)), None)
            if body.action == "taken_over" and reason is not None and reason.kind == kind:
                found.append((event.ts - reason.began) / 1000)
        return found


def _covers(fault: Fault, ts: int) -> bool:
    """Whether it is the reason for what happened then: a node may have been given up shortly before it came back."""
    return fault.began <= ts <= fault.ended + LEASE_SECONDS * 1000


async def soak(plan: Plan, folder: Path) -> Outcome:
    """Use a fleet and let it fail; returns what is left."""
    with Postgres() as server, ExitStack() as stack:
        temporal = stack.enter_context(Temporal()) if plan.placement == "temporal" else None
        cluster = settings(temporal) if temporal else ""
        names = [f"node-{number}" for number in range(1, plan.nodes + 1)]
        fleet = FleetOf(folder, server, *names, script=SCRIPT, cluster=cluster)
        chance = random.Random(plan.seed)  # noqa: S311 - no secret
        faults = Faults(fleet, plan.kinds, plan.fault_seconds, chance)
        faults.temporal = temporal
        try:
            if "failover" in plan.kinds:
                faults.standby = server.add_standby()
                fleet.use_standby(faults.standby)
            async with fleet:
                people = [Person(fleet, number, chance.random()) for number in range(plan.sessions)]
                return await _soak(plan, fleet, faults, people)
        finally:
            faults.remove_servers()


async def _soak(plan: Plan, fleet: FleetOf, faults: Faults, people: list[Person]) -> Outcome:
    until = time.monotonic() + plan.seconds
    async with asyncio.TaskGroup() as group:
        group.create_task(faults.go_on(until))
        for person in people:
            group.create_task(person.work(until, plan.pause_seconds))
    async with opened_log(fleet.url) as log:
        events = {record.session_id: await read_all(log, record.session_id) for record in await log.newest(100_000)}
    await asyncio.gather(*(person.catch_up(events[person.session_id][-1].seq) for person in people))
    counts = sum((person.counts for person in people), Counter[str]())
    violations = await fleet.violations(*events, to_end=[person.client for person in people if person.client])
    violations += broken_promises(people, events)
    for what, statement in (("head that is not its last event", HEADS), ("request that nobody served", WAITING)):
        if (number := fleet.sql(statement)) != "0":
            violations.append(f"left: {what}, {number} times")
    await asyncio.gather(*(person.leave() for person in people))
    return Outcome(
        violations=violations,
        faults=faults.history,
        drains=faults.drains,
        counts=counts,
        events=events,
        effects=len(fleet.ledger.read_text().split()),
    )


def broken_promises(people: Sequence[Person], events: dict[str, list[Event]]) -> list[str]:
    """Messages that were accepted, and are not in the log once, in the run that was promised."""
    found: list[str] = []
    for person in people:
        bodies = ((event, event.body()) for event in events[person.session_id])
        recorded = [(body.message_id, event.run_id) for event, body in bodies if isinstance(body, UserMessage)]
        for message_id, run_id in person.promised.items():
            if recorded.count((message_id, run_id)) != 1:
                found.append(
                    f"{person.session_id}: {message_id} was promised in {run_id}, and is not in the log like that"
                )
    return found


def report(plan: Plan, outcome: Outcome) -> str:
    """The figures, one to a line."""
    counts = outcome.counts
    kinds = Counter(fault.kind for fault in outcome.faults)
    errors = [body.structured_error for _, body in outcome.bodies(ToolResult)]
    unknown = sum(error is not None and error.type == "UNKNOWN_OUTCOME" for error in errors)
    outcomes = Counter[str](body.outcome for _, body in outcome.bodies(RunComplete))
    lines = [
        f"{plan.sessions} sessions on {plan.nodes} nodes for {plan.seconds:.0f} s, seed {plan.seed}",
        f"placement: {plan.placement}",
        f"faults: {_counted(kinds)}",
        f"runs: {_counted(outcomes)}; events: {sum(map(len, outcome.events.values()))}",
        f"side effects: {outcome.effects}; calls with an unknown outcome: {unknown}",
        f"clients: {counts['changed gateway']} changes of gateway, {counts['tried again']} requests repeated",
        *(f"{text}: {number} times" for text, number in counts.items() if text.startswith("refused")),
        *(
            f"taken over after {kind}: {_spread(outcome.take_overs(kind))}"
            for kind in ("kill", "pause", "drain", "stop")
        ),
        f"drained: {_spread(outcome.drains)}",
        f"violations: {len(outcome.violations)}",
    ]
    return "\n".join([*lines, *outcome.violations])


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items())) or "none"


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    return f"{len(seconds)} times, median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description="Use a fleet while its nodes fail, and check what is left.")
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--placement", choices=PLACEMENTS, default="postgres", help="who places (default postgres)")
    also = f"; also failover and, with Temporal, {' and '.join(OF_TEMPORAL)}, which are in its default"
    parser.add_argument("--faults", help=f"what may happen (default {','.join(KINDS)}{also})")
    parser.add_argument("--every", type=float, default=8.0, help="seconds between faults, on average (default 8)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    usual = (*KINDS, *OF_TEMPORAL) if options.placement == "temporal" else KINDS
    kinds = options.faults.split(",") if options.faults else usual
    unknown = [kind for kind in kinds if kind not in (*usual, "failover")]
    if unknown:
        parser.error(f"unknown fault {unknown[0]!r}. Available: {', '.join((*usual, 'failover'))}")
    if not is_installed():
        parser.error("PostgreSQL is missing: make services")
    plan = Plan(
        sessions=options.sessions,
        seconds=options.minutes * 60,
        nodes=options.nodes,
        fault_seconds=options.every,
        kinds=kinds,
        placement=options.placement,
        seed=options.seed,
    )
    with tempfile.TemporaryDirectory(prefix="buddy-fleet-") as folder:
        outcome = asyncio.run(soak(plan, Path(folder)))
    print(report(plan, outcome))  # noqa: T201 - a command's result
    return bool(outcome.violations)


if __name__ == "__main__":
    sys.exit(main())

"""Measurements of a fleet: how soon another node continues, and what the database has to do for it."""

import asyncio
import itertools
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench.benchmarks import Benchmark, Contender
from bench.figures import Metric, Sample
from bench.postgres import start_server
from bench.setup import BenchmarkError, Setup
from tests.fleet.nodes import FleetOf
from tests.harness.clients import send
from tests.harness.postgres import Postgres
from tests.harness.temporal import PROGRAM, Temporal, settings
from tests.harness.wire_client import WireClient

RUNS = 100
IDLE_SESSIONS = 200
IDLE_SECONDS = 5.0
STREAMS = 20


def fleets(setup: Setup) -> Iterator[Contender]:
    server, numbers = start_server(setup), itertools.count()
    runs, sessions = (10, 20) if setup.quick else (RUNS, IDLE_SESSIONS)

    def take() -> Sample:
        folder = setup.folder / f"fleet-{next(numbers)}"
        folder.mkdir()
        return asyncio.run(_measure(server, folder, runs, sessions))

    yield Contender("fleet", "buddy", take)


def fleets_with_temporal(setup: Setup) -> Iterator[Contender]:
    if not PROGRAM.exists():
        raise BenchmarkError("Temporal is missing: make services")
    server, numbers = start_server(setup), itertools.count()
    temporal = setup.cleanup.enter_context(Temporal())

    def take() -> Sample:
        folder = setup.folder / f"temporal-{next(numbers)}"
        folder.mkdir()
        return asyncio.run(_measure_with_temporal(server, temporal, folder))

    yield Contender("temporal", "buddy", take)


async def _measure_with_temporal(server: Postgres, temporal: Temporal, folder: Path) -> Sample:
    took = await _take_overs(server, folder, settings(temporal))
    (folder / "cost").mkdir()
    async with FleetOf(folder / "cost", server, "a", "b", cluster=settings(temporal)) as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        idle = await _share_of_core(temporal.process)
        for client in (here, there) * (STREAMS // 2):
            await send(client, await fleet.start(client), "drip")
        await there.wait_for("assistant_token")
        busy = await _share_of_core(temporal.process)
    return {
        **{f"temporal_{name}": values for name, values in took.items()},
        "engine_idle": [idle],
        "engine_busy": [busy],
    }


async def _take_overs(server: Postgres, folder: Path, cluster: str = "") -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, fault in _FAULTS.items():
        (folder / name).mkdir()
        fleet = FleetOf(folder / name, server, "a", "b", cluster=cluster)
        found[f"after_{name}"] = [await _take_over(fleet, fault)]
    return found


async def _share_of_core(process: subprocess.Popen[bytes] | None) -> float:
    began = _cpu_seconds(process)
    await asyncio.sleep(IDLE_SECONDS)
    return (_cpu_seconds(process) - began) * 100 / IDLE_SECONDS


async def _measure(server: Postgres, folder: Path, runs: int, sessions: int) -> Sample:
    took = await _take_overs(server, folder)
    (folder / "cost").mkdir()
    async with FleetOf(folder / "cost", server, "a", "b") as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        delivered = await _delivery(fleet, here, there)
        per_run = await _cost_of_runs(fleet, here, server, runs)
        idle = await _cost_of_idling(fleet, here, server, sessions)
    return {**took, "other_client": delivered, "run_cost": [per_run], "idle_cost": [idle]}


async def _take_over(fleet: FleetOf, fault: Callable[[FleetOf, WireClient], Awaitable[None]]) -> float:
    """Seconds until a run that a node streams has its next event from another node."""
    async with fleet:
        _, there, _ = await fleet.stream()
        began = time.monotonic()
        await fault(fleet, there)
        await there.wait_for("recovery", lambda body: body["action"] == "taken_over")
        return time.monotonic() - began


async def _kill(fleet: FleetOf, _: WireClient) -> None:
    fleet.nodes["a"].kill()


async def _pause(fleet: FleetOf, _: WireClient) -> None:
    fleet.nodes["a"].signal(signal.SIGSTOP)


async def _drain(_: FleetOf, client: WireClient) -> None:
    await client.ask("drain_node", {"node": "a"})


_FAULTS = {"kill": _kill, "pause": _pause, "drain": _drain}


async def _delivery(fleet: FleetOf, here: WireClient, there: WireClient) -> list[float]:
    """Milliseconds from recording a piece of an answer to its arrival at a client of another node."""
    session_id = await fleet.start(here)
    await fleet.attach(there, session_id)
    await send(here, session_id, "drip")
    took: list[float] = []
    while (event := await there.wait_for("assistant_token")) and len(took) < 100:
        took.append(time.time() * 1000 - event["ts"])
    await there.wait_for("run_complete")
    return [sorted(took)[len(took) // 2]]


async def _cost_of_runs(fleet: FleetOf, client: WireClient, server: Postgres, runs: int) -> float:
    """Milliseconds of the database's processors for a run of one answer."""
    session_id = await fleet.start(client)
    began = _cpu_seconds(server.process)
    for _ in range(runs):
        run_id = await send(client, session_id, "count")
        while (await client.wait_for("run_complete"))["runId"] != run_id:
            pass  # that of another session
    return (_cpu_seconds(server.process) - began) * 1000 / runs


async def _cost_of_idling(fleet: FleetOf, client: WireClient, server: Postgres, sessions: int) -> float:
    """The share of one core that the database needs while nobody does anything."""
    for _ in range(sessions):
        await fleet.start(client)
    await asyncio.sleep(1)
    return await _share_of_core(server.process)


def _cpu_seconds(process: subprocess.Popen[bytes] | None) -> float:
    """Of a server's processes, also of those that have ended."""
    assert process is not None
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if path.parent.name == str(process.pid):
            ticks += sum(map(int, fields[11:15]))
        elif fields[1] == str(process.pid):
            ticks += sum(map(int, fields[11:13]))
    return ticks / 100


BENCHMARKS = (
    Benchmark(
        "fleet",
        (
            Metric("after_kill", "a node is killed → its run goes on elsewhere", "s", "≤ 2"),
            Metric("after_pause", "a node is paused → its run goes on elsewhere", "s", "≤ 3.5"),
            Metric("after_drain", "a node is drained → its run goes on elsewhere", "s", "≤ 0.5"),
            Metric("other_client", "event → client of another node, p50", "ms", "≤ 8"),
            Metric("run_cost", "a run of one answer, CPU of the database", "ms", "none"),
            Metric("idle_cost", "two idle nodes with 200 idle sessions, CPU of the database", "% of a core", "none"),
        ),
        fleets,
        rounds=3,
        warm=False,
    ),
    Benchmark(
        "fleet-temporal",
        (
            Metric("temporal_after_kill", "a node is killed → its run goes on elsewhere, Temporal places", "s", "none"),
            Metric(
                "temporal_after_pause", "a node is paused → its run goes on elsewhere, Temporal places", "s", "none"
            ),
            Metric(
                "temporal_after_drain", "a node is drained → its run goes on elsewhere, Temporal places", "s", "none"
            ),
            Metric("engine_idle", "two idle nodes, CPU of Temporal", "% of a core", "none"),
            Metric("engine_busy", "two nodes with 20 runs that last, CPU of Temporal", "% of a core", "none"),
        ),
        fleets_with_temporal,
        rounds=5,
        warm=False,
    ),
)

"""Measurements of a daemon with clients: many sessions, many streams, and their cost."""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from bench.agents import READ, SHELL, Agent, Daemon, floors
from bench.benchmarks import Benchmark, Contender
from bench.figures import Metric, Sample
from bench.model import Script
from bench.peers import peers, servers
from bench.replies import WORD
from bench.setup import BenchmarkError, Finished, Request, Setup, cpu_seconds, end, resident
from bench.storage import fill_log
from bench.wire import PATIENCE, Wire
from buddy.log.schema import open_reader

CONNECTIONS = 10
EVENTS_PER_TURN = 8
THINK = 0.05
MEBI = 1 << 20
BARE = """
import asyncio, sys
async def main():
    server = await asyncio.start_unix_server(lambda reader, writer: None, sys.argv[1])
    await server.serve_forever()
asyncio.run(main())
"""


def sessions(setup: Setup) -> Iterator[Contender]:
    count, turns = (20, 5) if setup.quick else (100, 10)
    scripts = partial(_scripts, setup, count, turns=turns, call=READ.name, arguments=READ.arguments)
    floor = next(floors(setup, "asyncio", logs=("NORMAL",)))
    for agent in (floor, *(peer for peer in peers(setup) if peer.takes_many)):
        yield Contender(agent.name, agent.kind, partial(_sessions_of, setup, agent, scripts), max_rounds=3)
    yield Contender("daemon", "buddy", lambda: asyncio.run(_sessions(setup, scripts())))


def streams(setup: Setup) -> Iterator[Contender]:
    scripts = partial(_scripts, setup, 10, deltas=2_000 if setup.quick else 20_000)
    yield Contender("asyncio NORMAL", "floor", lambda: _floor_streams(setup, scripts()))
    yield Contender("daemon", "buddy", lambda: asyncio.run(_streams(setup, scripts())))


def idle(setup: Setup) -> Iterator[Contender]:
    def bare() -> Sample:
        path = setup.new_folder("bare") / "sock"
        began = perf_counter_ns()
        process = setup.start([sys.executable, "-c", BARE, str(path)])
        return _idle(process, (setup.wait_for_socket(path, process) - began) / 1e9)

    def buddy() -> Sample:
        with Daemon(setup) as daemon:
            return _idle(daemon.process, daemon.ready_seconds)

    def peer(serve: Callable[[], "subprocess.Popen[bytes]"]) -> Sample:
        began = perf_counter_ns()
        process = serve()
        sample = _idle(process, (perf_counter_ns() - began) / 1e9)
        end(process)
        return sample

    yield Contender("asyncio", "floor", bare)
    yield Contender("daemon", "buddy", buddy)
    for name, serve in servers(setup):
        yield Contender(name, "peer", partial(peer, serve), max_rounds=2)


def resume(setup: Setup) -> Iterator[Contender]:
    turns = 50 if setup.quick else 200
    state_dir = setup.new_folder("seeded")
    asyncio.run(fill_log(state_dir, "sess_seeded", turns * EVENTS_PER_TURN))
    yield Contender("apsw", "floor", lambda: {"resume": [_read_all(state_dir / "buddy.db")]})
    yield Contender("daemon", "buddy", lambda: asyncio.run(_resume(setup, turns)))
    for agent in peers(setup):
        if agent.resume:
            yield Contender(agent.name, "peer", partial(_resume_of, setup, agent, agent.resume, turns), max_rounds=2)


def crowd(setup: Setup) -> Iterator[Contender]:
    count, seconds = (100, 1.0) if setup.quick else (1000, 5.0)
    yield Contender("daemon", "buddy", lambda: asyncio.run(_crowd(setup, count, seconds)))


def answers(setup: Setup) -> Iterator[Contender]:
    runs, times = (20, 10) if setup.quick else (100, 100)
    yield Contender("daemon", "buddy", lambda: asyncio.run(_answers(setup, runs, times)))


def disk(setup: Setup) -> Iterator[Contender]:
    yield Contender("daemon", "buddy", lambda: asyncio.run(_disk(setup)))


def _scripts(setup: Setup, count: int, **fields: object) -> list[Script]:
    return [setup.script(**fields) for _ in range(count)]


def _span(requests: Sequence[Sequence[Request]]) -> tuple[int, int]:
    """From the first request of any session to the last reply of any."""
    return min(each[0].received for each in requests), max(each[-1].sent for each in requests)


def _sessions_of(setup: Setup, agent: Agent, scripts: Callable[[], list[Script]]) -> Sample:
    """One process with all sessions, compared to one with a single session."""
    alone, together = scripts()[:1], scripts()
    one, many = (_all_at_once(setup, agent, played) for played in (alone, together))
    began, ended = _span([setup.requests(script) for script in together])
    turns, more = sum(script.turns for script in together), len(together) - 1
    cpu = (many.cpu - one.cpu) / (turns - alone[0].turns)
    return {
        "turns": [turns / (ended - began) * 1e9],
        "turn-cpu": [cpu * 1000],
        "session": [(many.resident - one.resident) / MEBI / more],
    }


def _all_at_once(setup: Setup, agent: Agent, scripts: Sequence[Script]) -> Finished:
    prompts = "\n".join(script.prompt() for script in scripts)
    return setup.run(agent.command(prompts), cwd=setup.new_folder("work"))


async def _sessions(setup: Setup, scripts: Sequence[Script]) -> Sample:
    with Daemon(setup) as daemon:
        # One session first: what is loaded with the first one does not count for each.
        await play(setup, daemon, [setup.script(turns=1, call=READ.name, arguments=READ.arguments)])
        cpu, before = cpu_seconds(daemon.pid), resident(daemon.pid)
        took = await play(setup, daemon, scripts)
        turns = sum(script.turns for script in scripts)
        began, ended = _span([setup.requests(script) for script in scripts])
        return {
            "turns": [turns / (ended - began) * 1e9],
            "turn-cpu": [(cpu_seconds(daemon.pid) - cpu) / turns * 1000],
            "session": [(resident(daemon.pid) - before) / MEBI / len(scripts)],
            "fairness": [max(took) / statistics.median(took)],
        }


async def play(setup: Setup, daemon: Daemon, scripts: Sequence[Script]) -> list[int]:
    """Play all at once, each in its own session; returns how long each run took for its client."""
    wires = [await Wire.connect(daemon.socket) for _ in range(min(CONNECTIONS, len(scripts)))]
    ready = [(wires[at % len(wires)], script) for at, script in enumerate(scripts)]
    started = [(wire, await wire.start(setup.new_folder("work")), script) for wire, script in ready]

    async def run(wire: Wire, session_id: str, script: Script) -> int:
        began = perf_counter_ns()
        await wire.send(session_id, script.prompt())
        await wire.wait_over(session_id)
        return wire.over[session_id] - began

    took = await asyncio.gather(*(run(*each) for each in started))
    for wire in wires:
        wire.close()
    return took


def _floor_streams(setup: Setup, scripts: Sequence[Script]) -> Sample:
    floor = next(floors(setup, "asyncio", logs=("NORMAL",)))
    # Its output is the time at which it was done.
    return _stream_rate(setup, scripts, int(_all_at_once(setup, floor, scripts).output))


async def _streams(setup: Setup, scripts: Sequence[Script]) -> Sample:
    with Daemon(setup) as daemon:
        await play(setup, daemon, scripts)
        return _stream_rate(setup, scripts, perf_counter_ns())


def _stream_rate(setup: Setup, scripts: Sequence[Script], ended: int) -> Sample:
    began, _ = _span([setup.requests(script) for script in scripts])
    return {"streams": [sum(script.deltas for script in scripts) / (ended - began) * 1e9]}


def _idle(process: "subprocess.Popen[bytes]", ready: float) -> Sample:
    time.sleep(1)
    return {"idle": [resident(process.pid) / MEBI], "ready": [ready]}


def _read_all(database: Path) -> float:
    """Milliseconds to open a log and build the bytes of a request from it."""
    began = perf_counter_ns()
    db = open_reader(database)
    body = b",".join(payload for (payload,) in db.execute("SELECT CAST(payload AS BLOB) FROM events ORDER BY seq"))
    db.close()
    assert body
    return (perf_counter_ns() - began) / 1e6


async def _resume(setup: Setup, turns: int) -> Sample:
    """The same message to a new session and to a long one that a new daemon has not opened yet."""
    home = setup.new_folder("home")
    long = setup.script(turns=turns, call=READ.name, arguments=READ.arguments)
    with Daemon(setup, home) as daemon:
        wire = await Wire.connect(daemon.socket)
        session_id = await wire.start(setup.new_folder("work"))
        await wire.send(session_id, long.prompt())
        await wire.wait_over(session_id)
        last_seq: int = (await wire.ask("read_events", {"after": 0, "limit": 1}, session_id))["lastSeq"]
    fresh = setup.script()

    async def new(wire: Wire) -> str:
        return await wire.start(setup.new_folder("work"))

    async def old(wire: Wire) -> str:
        await wire.attach(session_id, last_seq)
        return session_id

    first = await _first_request(setup, home, new, fresh)
    again = await _first_request(setup, home, old, long)
    return {"resume": [(again - first) / 1e6]}


def _resume_of(setup: Setup, agent: Agent, resume: Callable[[str], Sequence[str]], turns: int) -> Sample:
    """Two processes: from the start of each to its first request."""
    folder, fresh = setup.new_folder("work"), setup.script()
    long = setup.script(turns=turns, call=agent.read.name, arguments=agent.read.arguments)
    began = setup.run(agent.command(fresh.prompt()), cwd=setup.new_folder("work")).started
    first = setup.requests(fresh)[0].received - began
    setup.run(agent.command(long.prompt()), cwd=folder)
    began = setup.run(resume("go on"), cwd=folder).started
    requests = setup.requests(long)
    if len(requests) != turns + 2:
        raise BenchmarkError(f"{agent.name} did not resume its session")
    return {"resume": [(requests[-1].received - began - first) / 1e6]}


async def _first_request(setup: Setup, home: Path, find: Callable[[Wire], Awaitable[str]], script: Script) -> int:
    """Nanoseconds from requesting a session from a new daemon until the model has its message."""
    with Daemon(setup, home) as daemon:
        # What a daemon loads with its very first run and call, and for a message like this one, is not measured here.
        await play(setup, daemon, [setup.script(turns=1, call=READ.name, arguments=READ.arguments)])
        wire = await Wire.connect(daemon.socket)
        began = perf_counter_ns()
        session_id = await find(wire)
        await wire.send(session_id, script.prompt())
        await wire.wait_over(session_id)
        return setup.requests(script)[-1].received - began


async def _crowd(setup: Setup, count: int, seconds: float) -> Sample:
    with Daemon(setup) as daemon:
        folder = setup.new_folder("work")
        wires = [await Wire.connect(daemon.socket) for _ in range(count)]
        for wire in wires:
            await wire.start(folder)
        await asyncio.sleep(1)
        memory, cpu = resident(daemon.pid), cpu_seconds(daemon.pid)
        await asyncio.sleep(seconds)
        used = cpu_seconds(daemon.pid) - cpu
        for wire in wires:
            wire.close()
        return {"crowd": [memory / 1e6], "crowd-cpu": [used / seconds * 100]}


async def _answers(setup: Setup, runs: int, times: int) -> Sample:
    """While runs are busy, ten other clients approve and cancel, until there are enough samples or a minute is over.

    The model thinks a little: runs that turn as fast as they can fill any loop, and then its load is what is measured.
    """
    with Daemon(setup) as daemon:
        busy = await Wire.connect(daemon.socket)
        wires = [await Wire.connect(daemon.socket) for _ in range(CONNECTIONS)]
        sessions = [await busy.start(setup.new_folder("work")) for _ in range(runs)]
        for session_id in sessions:
            script = setup.script(turns=100_000, call=READ.name, arguments=READ.arguments, think=THINK)
            await busy.send(session_id, script.prompt())
        until = perf_counter_ns() + 60 * 10**9
        decided, cancelled = list[float](), list[float]()

        async def probe(wire: Wire) -> None:
            for _ in range(times // CONNECTIONS):
                if perf_counter_ns() < until:
                    decided.append(await _decide(setup, wire))
                    cancelled.append(await _cancel(setup, wire))

        await asyncio.gather(*(probe(wire) for wire in wires))
        return {"decided": decided, "cancelled": cancelled}


async def _decide(setup: Setup, wire: Wire) -> float:
    session_id = await wire.start(setup.new_folder("work"), "ask")
    await wire.send(session_id, setup.script(turns=1, call=SHELL.name, arguments=SHELL.arguments).prompt())
    async with asyncio.timeout(PATIENCE):
        asked = await wire.approvals.get()
    payload = {"sessionId": session_id, "runId": asked["runId"], "approvalId": asked["payload"]["approvalId"]}
    began = perf_counter_ns()
    await wire.ask("submit_approval", {**payload, "decision": "approve"}, session_id)
    answered = perf_counter_ns()
    await wire.wait_over(session_id)
    return (answered - began) / 1e6


async def _cancel(setup: Setup, wire: Wire) -> float:
    session_id = await wire.start(setup.new_folder("work"))
    run_id = await wire.send(session_id, setup.script(think=60.0).prompt())
    began = perf_counter_ns()
    await wire.ask("cancel_run", {"sessionId": session_id, "runId": run_id}, session_id)
    answered = perf_counter_ns()
    await wire.wait_over(session_id)
    return (answered - began) / 1e6


async def _disk(setup: Setup) -> Sample:
    with Daemon(setup) as daemon:
        await play(setup, daemon, [setup.script()])
        before = _written(daemon.pid)
        script = setup.script(deltas=20_000)
        await play(setup, daemon, [script])
        return {"disk": [(_written(daemon.pid) - before) / (script.deltas * len(WORD))]}


def _written(pid: int) -> int:
    """Bytes that a process wrote to files, excluding sockets."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


BENCHMARKS = (
    Benchmark(
        "sessions",
        (
            Metric("turns", "100 sessions at once, 10 tool turns each", "turns/s", "≥ 3,000", more_is_better=True),
            Metric("turn-cpu", "the same, CPU", "ms/turn", "≤ 0.5"),
            Metric("session", "the same, memory", "MiB/session", "≤ 0.1"),
            Metric("fairness", "the same, slowest run", "x median", "≤ 3"),
        ),
        sessions,
        warm=False,
    ),
    Benchmark(
        "streams",
        (Metric("streams", "10 streams at once through the server", "deltas/s", "≥ 60,000", more_is_better=True),),
        streams,
    ),
    Benchmark(
        "idle",
        (
            Metric("idle", "idle daemon, memory", "MiB", "≤ 40"),
            Metric("ready", "daemon, start → ready", "s", "≤ 0.2"),
        ),
        idle,
    ),
    Benchmark("resume", (Metric("resume", "resume after 200 turns, extra time", "ms", "≤ 5"),), resume),
    Benchmark(
        "crowd",
        (
            Metric("crowd", "1,000 idle sessions, 1,000 clients: memory", "MB", "≤ 250"),
            Metric("crowd-cpu", "the same, CPU", "%", "none"),
        ),
        crowd,
        rounds=1,
        warm=False,
    ),
    Benchmark(
        "answers",
        (
            Metric("decided", "100 busy runs: a decision is answered", "ms", "p99 ≤ 50", tail=True),
            Metric("cancelled", "100 busy runs: a cancel is answered", "ms", "p99 ≤ 50", tail=True),
        ),
        answers,
        rounds=1,
        warm=False,
    ),
    Benchmark(
        "disk", (Metric("disk", "written to disk by an answer of 20,000 deltas", "x its text", "≤ 3"),), disk, rounds=3
    ),
)

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
from bench.figures import Metric, Sample
from bench.model import Script
from bench.peers import peers, servers
from bench.replies import WORD
from bench.stage import Ended, Failed, Request, Stage, cpu_seconds, end, resident
from bench.storage import seed
from bench.wire import PATIENCE, Wire
from bench.works import Subject, Work
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


def sessions(stage: Stage) -> Iterator[Subject]:
    count, turns = (20, 5) if stage.quick else (100, 10)
    scripts = partial(_scripts, stage, count, turns=turns, call=READ.name, arguments=READ.arguments)
    floor = next(floors(stage, "asyncio", logs=("NORMAL",)))
    for agent in (floor, *(peer for peer in peers(stage) if peer.takes_many)):
        yield Subject(agent.name, agent.kind, partial(_sessions_of, stage, agent, scripts), most=3)
    yield Subject("daemon", "buddy", lambda: asyncio.run(_sessions(stage, scripts())))


def streams(stage: Stage) -> Iterator[Subject]:
    scripts = partial(_scripts, stage, 10, deltas=2_000 if stage.quick else 20_000)
    yield Subject("asyncio NORMAL", "floor", lambda: _floor_streams(stage, scripts()))
    yield Subject("daemon", "buddy", lambda: asyncio.run(_streams(stage, scripts())))


def idle(stage: Stage) -> Iterator[Subject]:
    def bare() -> Sample:
        path = stage.new_folder("bare") / "sock"
        began = perf_counter_ns()
        process = stage.start([sys.executable, "-c", BARE, str(path)])
        return _idle(process, (stage.wait_for_socket(path, process) - began) / 1e9)

    def buddy() -> Sample:
        with Daemon(stage) as daemon:
            return _idle(daemon.process, daemon.ready_seconds)

    def peer(serve: Callable[[], "subprocess.Popen[bytes]"]) -> Sample:
        began = perf_counter_ns()
        process = serve()
        sample = _idle(process, (perf_counter_ns() - began) / 1e9)
        end(process)
        return sample

    yield Subject("asyncio", "floor", bare)
    yield Subject("daemon", "buddy", buddy)
    for name, serve in servers(stage):
        yield Subject(name, "peer", partial(peer, serve), most=2)


def resume(stage: Stage) -> Iterator[Subject]:
    turns = 50 if stage.quick else 200
    state_dir = stage.new_folder("seeded")
    asyncio.run(seed(state_dir, "sess_seeded", turns * EVENTS_PER_TURN))
    yield Subject("apsw", "floor", lambda: {"resume": [_read_all(state_dir / "buddy.db")]})
    yield Subject("daemon", "buddy", lambda: asyncio.run(_resume(stage, turns)))
    for agent in peers(stage):
        if agent.resume:
            yield Subject(agent.name, "peer", partial(_resume_of, stage, agent, agent.resume, turns), most=2)


def crowd(stage: Stage) -> Iterator[Subject]:
    count, seconds = (100, 1.0) if stage.quick else (1000, 5.0)
    yield Subject("daemon", "buddy", lambda: asyncio.run(_crowd(stage, count, seconds)))


def answers(stage: Stage) -> Iterator[Subject]:
    runs, times = (20, 10) if stage.quick else (100, 100)
    yield Subject("daemon", "buddy", lambda: asyncio.run(_answers(stage, runs, times)))


def disk(stage: Stage) -> Iterator[Subject]:
    yield Subject("daemon", "buddy", lambda: asyncio.run(_disk(stage)))


def _scripts(stage: Stage, count: int, **fields: object) -> list[Script]:
    return [stage.script(**fields) for _ in range(count)]


def _span(requests: Sequence[Sequence[Request]]) -> tuple[int, int]:
    """From the first request of all to the last reply of all."""
    return min(each[0].received for each in requests), max(each[-1].sent for each in requests)


def _sessions_of(stage: Stage, agent: Agent, scripts: Callable[[], list[Script]]) -> Sample:
    """One process with all of them, against one with one of them."""
    alone, together = scripts()[:1], scripts()
    one, many = (_all_at_once(stage, agent, played) for played in (alone, together))
    began, ended = _span([stage.requests(script) for script in together])
    turns, more = sum(script.turns for script in together), len(together) - 1
    cpu = (many.cpu - one.cpu) / (turns - alone[0].turns)
    return {
        "turns": [turns / (ended - began) * 1e9],
        "turn-cpu": [cpu * 1000],
        "session": [(many.resident - one.resident) / MEBI / more],
    }


def _all_at_once(stage: Stage, agent: Agent, scripts: Sequence[Script]) -> Ended:
    prompts = "\n".join(script.prompt() for script in scripts)
    return stage.run(agent.command(prompts), cwd=stage.new_folder("work"))


async def _sessions(stage: Stage, scripts: Sequence[Script]) -> Sample:
    with Daemon(stage) as daemon:
        # One before all others: what is loaded with the first session does not belong to each.
        await play(stage, daemon, [stage.script(turns=1, call=READ.name, arguments=READ.arguments)])
        cpu, before = cpu_seconds(daemon.pid), resident(daemon.pid)
        took = await play(stage, daemon, scripts)
        turns = sum(script.turns for script in scripts)
        began, ended = _span([stage.requests(script) for script in scripts])
        return {
            "turns": [turns / (ended - began) * 1e9],
            "turn-cpu": [(cpu_seconds(daemon.pid) - cpu) / turns * 1000],
            "session": [(resident(daemon.pid) - before) / MEBI / len(scripts)],
            "fairness": [max(took) / statistics.median(took)],
        }


async def play(stage: Stage, daemon: Daemon, scripts: Sequence[Script]) -> list[int]:
    """All at once, each in a session of its own; gives how long each run took for its client."""
    wires = [await Wire.connect(daemon.socket) for _ in range(min(CONNECTIONS, len(scripts)))]
    ready = [(wires[at % len(wires)], script) for at, script in enumerate(scripts)]
    started = [(wire, await wire.start(stage.new_folder("work")), script) for wire, script in ready]

    async def run(wire: Wire, session_id: str, script: Script) -> int:
        began = perf_counter_ns()
        await wire.send(session_id, script.prompt())
        await wire.wait_over(session_id)
        return wire.over[session_id] - began

    took = await asyncio.gather(*(run(*each) for each in started))
    for wire in wires:
        wire.close()
    return took


def _floor_streams(stage: Stage, scripts: Sequence[Script]) -> Sample:
    floor = next(floors(stage, "asyncio", logs=("NORMAL",)))
    # Its output is when it was done.
    return _stream_rate(stage, scripts, int(_all_at_once(stage, floor, scripts).output))


async def _streams(stage: Stage, scripts: Sequence[Script]) -> Sample:
    with Daemon(stage) as daemon:
        await play(stage, daemon, scripts)
        return _stream_rate(stage, scripts, perf_counter_ns())


def _stream_rate(stage: Stage, scripts: Sequence[Script], ended: int) -> Sample:
    began, _ = _span([stage.requests(script) for script in scripts])
    return {"streams": [sum(script.deltas for script in scripts) / (ended - began) * 1e9]}


def _idle(process: "subprocess.Popen[bytes]", ready: float) -> Sample:
    time.sleep(1)
    return {"idle": [resident(process.pid) / MEBI], "ready": [ready]}


def _read_all(database: Path) -> float:
    """Milliseconds to open a log and to have what is in it as the bytes of a request."""
    began = perf_counter_ns()
    db = open_reader(database)
    body = b",".join(payload for (payload,) in db.execute("SELECT CAST(payload AS BLOB) FROM events ORDER BY seq"))
    db.close()
    assert body
    return (perf_counter_ns() - began) / 1e6


async def _resume(stage: Stage, turns: int) -> Sample:
    """The same message to a new session and to a long one that a new daemon has not opened yet."""
    home = stage.new_folder("home")
    long = stage.script(turns=turns, call=READ.name, arguments=READ.arguments)
    with Daemon(stage, home) as daemon:
        wire = await Wire.connect(daemon.socket)
        session_id = await wire.start(stage.new_folder("work"))
        await wire.send(session_id, long.prompt())
        await wire.wait_over(session_id)
    fresh = stage.script()

    async def new(wire: Wire) -> str:
        return await wire.start(stage.new_folder("work"))

    async def old(wire: Wire) -> str:
        await wire.attach(session_id, 1 << 40)
        return session_id

    first = await _first_request(stage, home, new, fresh)
    again = await _first_request(stage, home, old, long)
    return {"resume": [(again - first) / 1e6]}


def _resume_of(stage: Stage, agent: Agent, resume: Callable[[str], Sequence[str]], turns: int) -> Sample:
    """Two processes: from the start of each to its first request."""
    folder, fresh = stage.new_folder("work"), stage.script()
    long = stage.script(turns=turns, call=agent.read.name, arguments=agent.read.arguments)
    began = stage.run(agent.command(fresh.prompt()), cwd=stage.new_folder("work")).started
    first = stage.requests(fresh)[0].received - began
    stage.run(agent.command(long.prompt()), cwd=folder)
    began = stage.run(resume("go on"), cwd=folder).started
    requests = stage.requests(long)
    if len(requests) != turns + 2:
        raise Failed(f"{agent.name} did not go on where it was")
    return {"resume": [(requests[-1].received - began - first) / 1e6]}


async def _first_request(stage: Stage, home: Path, find: Callable[[Wire], Awaitable[str]], script: Script) -> int:
    """Nanoseconds from asking a new daemon for a session to the model's having its message."""
    with Daemon(stage, home) as daemon:
        # What a daemon loads with its first run of all is not what is asked for here.
        await play(stage, daemon, [stage.script()])
        wire = await Wire.connect(daemon.socket)
        began = perf_counter_ns()
        session_id = await find(wire)
        await wire.send(session_id, script.prompt())
        await wire.wait_over(session_id)
        return stage.requests(script)[-1].received - began


async def _crowd(stage: Stage, count: int, seconds: float) -> Sample:
    with Daemon(stage) as daemon:
        folder = stage.new_folder("work")
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


async def _answers(stage: Stage, runs: int, times: int) -> Sample:
    """While a number of runs are busy, ten other clients decide and cancel, until enough was taken or a minute is over.

    The model thinks a little: runs that turn as fast as they can fill any loop, and then its load is what is measured.
    """
    with Daemon(stage) as daemon:
        busy = await Wire.connect(daemon.socket)
        wires = [await Wire.connect(daemon.socket) for _ in range(CONNECTIONS)]
        sessions = [await busy.start(stage.new_folder("work")) for _ in range(runs)]
        for session_id in sessions:
            script = stage.script(turns=100_000, call=READ.name, arguments=READ.arguments, think=THINK)
            await busy.send(session_id, script.prompt())
        until = perf_counter_ns() + 60 * 10**9
        decided, cancelled = list[float](), list[float]()

        async def probe(wire: Wire) -> None:
            for _ in range(times // CONNECTIONS):
                if perf_counter_ns() < until:
                    decided.append(await _decide(stage, wire))
                    cancelled.append(await _cancel(stage, wire))

        await asyncio.gather(*(probe(wire) for wire in wires))
        return {"decided": decided, "cancelled": cancelled}


async def _decide(stage: Stage, wire: Wire) -> float:
    session_id = await wire.start(stage.new_folder("work"), "ask")
    await wire.send(session_id, stage.script(turns=1, call=SHELL.name, arguments=SHELL.arguments).prompt())
    async with asyncio.timeout(PATIENCE):
        asked = await wire.approvals.get()
    payload = {"sessionId": session_id, "runId": asked["runId"], "approvalId": asked["payload"]["approvalId"]}
    began = perf_counter_ns()
    await wire.ask("submit_approval", {**payload, "decision": "approve"}, session_id)
    answered = perf_counter_ns()
    await wire.wait_over(session_id)
    return (answered - began) / 1e6


async def _cancel(stage: Stage, wire: Wire) -> float:
    session_id = await wire.start(stage.new_folder("work"))
    run_id = await wire.send(session_id, stage.script(think=60.0).prompt())
    began = perf_counter_ns()
    await wire.ask("cancel_run", {"sessionId": session_id, "runId": run_id}, session_id)
    answered = perf_counter_ns()
    await wire.wait_over(session_id)
    return (answered - began) / 1e6


async def _disk(stage: Stage) -> Sample:
    with Daemon(stage) as daemon:
        await play(stage, daemon, [stage.script()])
        before = _written(daemon.pid)
        script = stage.script(deltas=20_000)
        await play(stage, daemon, [script])
        return {"disk": [(_written(daemon.pid) - before) / (script.deltas * len(WORD))]}


def _written(pid: int) -> int:
    """Bytes that a process wrote to files; what it sends over sockets is not among them."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


WORKS = (
    Work(
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
    Work(
        "streams",
        (Metric("streams", "10 streams at once through the server", "deltas/s", "≥ 60,000", more_is_better=True),),
        streams,
    ),
    Work(
        "idle",
        (
            Metric("idle", "idle daemon, memory", "MiB", "≤ 40"),
            Metric("ready", "daemon, start → ready", "s", "≤ 0.2"),
        ),
        idle,
    ),
    Work("resume", (Metric("resume", "resume after 200 turns, extra time", "ms", "≤ 5"),), resume),
    Work(
        "crowd",
        (
            Metric("crowd", "1,000 idle sessions, 1,000 clients: memory", "MB", "≤ 250"),
            Metric("crowd-cpu", "the same, CPU", "%", "none"),
        ),
        crowd,
        rounds=1,
        warm=False,
    ),
    Work(
        "answers",
        (
            Metric("decided", "100 busy runs: a decision is answered", "ms", "p99 ≤ 50", tail=True),
            Metric("cancelled", "100 busy runs: a cancel is answered", "ms", "p99 ≤ 50", tail=True),
        ),
        answers,
        rounds=1,
        warm=False,
    ),
    Work(
        "disk", (Metric("disk", "written to disk by an answer of 20,000 deltas", "x its text", "≤ 3"),), disk, rounds=3
    ),
)

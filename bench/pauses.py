"""How long one large input holds up everybody else: another client's pings meanwhile, and the daemon's memory.

Invariants: every kind of input has a daemon of its own, which has served a run before; a session has a folder of its
own, or its memory would repeat the script of another. The rows show the kind that did worst; stderr has each.
"""

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from bench.agents import Daemon
from bench.benchmarks import Benchmark, Contender
from bench.figures import Metric, Sample, number, percentile
from bench.setup import BenchmarkError, Setup, resident
from bench.wire import Wire

SIZE = 10_000_000
MESSAGE = 256 * 1024
PINGER = str(Path(__file__).with_name("pinger.py"))
IDLE_SECONDS = 2.0


class Input(Struct, frozen=True):
    """What the model does (`Script`), what its message and the file `big.txt` are filled with."""

    name: str
    script: Mapping[str, object]
    message: str = ""
    file: str = ""


def _call(tool: str, arguments: Mapping[str, object], **more: object) -> dict[str, object]:
    return {"turns": 1, "call": tool, "arguments": json.dumps(arguments), **more}


KEY = "-----BEGIN RSA PRIVATE KEY-----\n"
EDIT = {"path": "big.txt", "old": "first line", "new": "another line"}
INPUTS = (
    Input("reply", {"fill": "word ", "size": SIZE}),
    Input("reply of one word", {"fill": "A", "size": SIZE}),
    Input("reply of keys", {"fill": KEY, "size": SIZE}),
    Input("reply of Markdown", {"fill": "[*`> | ", "size": SIZE}),
    Input("reply of nested JSON", {"fill": "[", "size": SIZE, "raw": 1}),
    Input("arguments", _call("write_file", {"path": "new.txt", "content": "@fill"}, fill="x\\n", size=7_999_998)),
    Input(
        "overwriting",
        _call("write_file", {"path": "big.txt", "content": "@fill"}, fill="x\\n", size=7_999_998),
        file="y\n",
    ),
    Input("edit", _call("edit_file", EDIT), file="line\n"),
    Input("read", _call("read_file", {"path": "big.txt"}), file="secret=secret=\n"),
    Input("search", _call("grep", {"pattern": "secret"}), file="secret="),
    Input("output", _call("run_shell", {"command": "cat big.txt"}), file="secret=secret=\n"),
    Input("command", _call("run_shell", {"command": "@fill true"}, fill="true | ", size=49_000)),
    Input("message", {}, message="secret="),
)


def pauses(setup: Setup) -> Iterator[Contender]:
    yield Contender("idle", "floor", lambda: asyncio.run(_idle(setup)))
    yield Contender("daemon", "buddy", lambda: asyncio.run(_worst(setup)))


async def _idle(setup: Setup) -> Sample:
    with Daemon(setup) as daemon:
        async with pinging(daemon) as took:
            await asyncio.sleep(IDLE_SECONDS)
        return {"pause": [percentile(took, 0.99)], "pause-worst": [max(took)], "pause-memory": []}


async def _worst(setup: Setup) -> Sample:
    samples = [await _handle(setup, given) for given in INPUTS]
    return {key: [max(sample[key][0] for sample in samples)] for key in samples[0]}


async def _handle(setup: Setup, given: Input) -> Sample:
    with Daemon(setup) as daemon:
        wire = await Wire.connect(daemon.socket)
        await _run(wire, setup.new_folder("work"), setup.script().prompt())
        work = setup.new_folder("work")
        (work / "big.txt").write_text("first line\n" + _repeat(given.file, SIZE))
        before = resident(daemon.pid) / 1e6
        async with pinging(daemon) as took:
            script = setup.script(**given.script)
            await _run(wire, work, script.prompt() + _repeat(given.message, MESSAGE - 1024))
        wire.close()
        memory = _peak(daemon.pid) - before
    worst, p99 = max(took), percentile(took, 0.99)
    figures = f"{number(p99)} / {number(worst)} ms, {number(memory)} MB"
    print(f"pauses: {given.name}: {figures}, {len(took)} pings", file=sys.stderr)
    return {"pause": [p99], "pause-worst": [worst], "pause-memory": [memory]}


async def _run(wire: Wire, work: Path, text: str) -> None:
    session_id = await wire.start(work)
    await wire.send(session_id, text)
    await wire.wait_over(session_id)


@asynccontextmanager
async def pinging(daemon: Daemon) -> AsyncGenerator[list[float]]:
    """Another client pings from a process of its own; the list has its milliseconds when the context ends."""
    took: list[float] = []
    arguments = (sys.executable, PINGER, str(daemon.socket))
    pinger = await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE, limit=SIZE)
    assert pinger.stdout is not None
    await pinger.stdout.readline()
    try:
        yield took
    finally:
        took += json.loads((await pinger.communicate(b""))[0])


def _repeat(text: str, size: int) -> str:
    return (text * (size // max(1, len(text)) + 1))[:size]


def _peak(pid: int) -> float:
    """The most memory that the process ever had, in MB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise BenchmarkError("the kernel does not report a process's peak of memory")
    return int(found[1]) * 1024 / 1e6


BENCHMARKS = (
    Benchmark(
        "pauses",
        (
            Metric("pause", "10 MB for one session: another client's ping, p99", "ms", "≤ 50"),
            Metric("pause-worst", "the same, the longest", "ms", "none"),
            Metric("pause-memory", "the same, memory", "MB", "≤ 110"),
        ),
        pauses,
        rounds=1,
        warm=False,
    ),
)

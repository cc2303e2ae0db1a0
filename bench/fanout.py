"""How fast a real daemon gives events to its clients, beside a bare asyncio Unix-socket pair in the same run.

`python bench/fanout.py [EVENTS]`. The bare pair is a server process that writes ready-made lines of the same size, in
the same portions, to clients in this process: no log, no protocol. Ratios within one run are what counts; the machine
decides the rest. `append→client` is the time from an event's commit in the daemon to its arrival here.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from daemon.plain import OnSocket, Plain  # noqa: E402
from daemon.running import Daemon, section  # noqa: E402
from daemon.seeding import seed  # noqa: E402
from daemon.talking import attach, connect, plain, send, start  # noqa: E402

TEXT = 180
PORTION = 250
ROUND_TRIPS = 2000
SESSIONS = 100

BARE = """
import asyncio, sys
path, count, size, portion = sys.argv[1], *map(int, sys.argv[2:])
line = b"x" * (size - 1) + b"\\n"
async def serve(reader, writer):
    while asked := await reader.readline():
        if asked == b"ping\\n":
            writer.write(line)
            continue
        for start in range(0, count, portion):
            writer.write(line * min(portion, count - start))
            await writer.drain()
async def main():
    server = await asyncio.start_unix_server(serve, path)
    print("ready", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


class Bare:
    """The pair to compare with."""

    def __init__(self, folder: Path, count: int, size: int) -> None:
        self.path = folder / "bare.sock"
        self.count = count
        arguments = [str(self.path), str(count), str(size), str(PORTION)]
        self.process = subprocess.Popen([sys.executable, "-c", BARE, *arguments], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    async def rate(self, clients: int) -> float:
        """Lines per second, all clients together."""
        carriers = [await OnSocket.connect(self.path) for _ in range(clients)]
        began = time.perf_counter()
        await asyncio.gather(*(self._take_all(carrier) for carrier in carriers))
        took = time.perf_counter() - began
        await asyncio.gather(*(carrier.close() for carrier in carriers))
        return self.count * clients / took

    async def _take_all(self, carrier: OnSocket) -> None:
        await carrier.send(b"all")
        await take_lines(carrier, self.count)

    async def round_trips(self) -> list[float]:
        carrier = await OnSocket.connect(self.path)

        async def ask() -> None:
            await carrier.send(b"ping")
            await carrier.receive()

        found = await timed(ask, ROUND_TRIPS)
        await carrier.close()
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def take_lines(carrier: OnSocket, count: int) -> None:
    """Read so many lines without looking into them."""
    seen = 0
    while seen < count:
        data = await carrier.reader.read(1 << 18)
        assert data, "the connection ended too early"
        seen += data.count(b"\n")


async def timed(ask: Callable[[], Awaitable[object]], times: int) -> list[float]:
    found: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        await ask()
        found.append(time.perf_counter() - began)
    return found


async def replay_rate(daemon: Daemon, session_id: str, count: int, clients: int) -> float:
    """Events per second to so many clients that attach at once to a session that is open already."""
    async with plain(daemon) as opener:
        await attach(opener, session_id, count)
        return await _replay(daemon, session_id, count, clients)


async def first_replay(daemon: Daemon, session_id: str, count: int) -> float:
    """Seconds for one client, with the opening of the session from its log."""
    return count / await _replay(daemon, session_id, count, 1)


async def _replay(daemon: Daemon, session_id: str, count: int, clients: int) -> float:
    attached = [await connect(daemon) for _ in range(clients)]
    for client in attached:
        await client.hello()

    async def follow(client: Plain) -> None:
        assert isinstance(client.carrier, OnSocket)
        await client.put("attach_session", {"sessionId": session_id, "lastSeenSeq": 0})
        await take_lines(client.carrier, count + 1)

    began = time.perf_counter()
    await asyncio.gather(*(follow(client) for client in attached))
    took = time.perf_counter() - began
    await asyncio.gather(*(client.close() for client in attached))
    return count * clients / took


async def live_latencies(daemon: Daemon) -> list[float]:
    """From commit to arrival, by a file that the model's command writes the time to just before it prints."""
    async with plain(daemon) as client:
        session_id = await start(client, daemon, approvalPolicy="all")
        await send(client, session_id, "tick")
        found: list[float] = []
        while True:
            message = await client.receive()
            now = time.time_ns() / 1e6
            if message["kind"] == "event" and message["type"] == "assistant_token":
                found.append((now - message["ts"]) / 1000)
            if message.get("type") == "run_complete":
                return found


async def pings(daemon: Daemon) -> list[float]:
    async with plain(daemon) as client:
        return await timed(lambda: client.ask("ping"), ROUND_TRIPS)


async def memory(folder: Path, limits: dict[str, float]) -> tuple[int, int]:
    """What a fresh daemon takes, and what a hundred idle sessions add to it after the first one, in KiB.

    Fresh, because one that has replayed a long log has memory left over in which sessions would seem to cost nothing.
    """
    with Daemon(folder, limits=limits) as daemon:
        idle = daemon.rss_kib()
        async with plain(daemon) as client:
            await start(client, daemon)
            before = daemon.rss_kib()
            for _ in range(SESSIONS):
                await start(client, daemon)
            return idle, daemon.rss_kib() - before


def percentiles(values: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile, in milliseconds."""
    return statistics.median(values) * 1000, statistics.quantiles(values, n=100)[98] * 1000


def show(what: str, value: str, bare: str = "", ratio: str = "", aim: str = "") -> None:
    print(f"{what:34} {value:>18} {bare:>18} {ratio:>7}  {aim}")


async def measure(folder: Path, count: int) -> None:
    fast: dict[str, float] = {"requests_per_second": 1e9, "burst": 1_000_000_000}
    daemon = Daemon(folder, limits=fast, play=[section("^tick", {"text": "tock " * 300, "delay": 0.01})])
    # A session for each figure: the daemon keeps what it sent last, and a second look at one would find it ready.
    first, second, third = [await seed(daemon.state_dir, daemon.workspace, count, TEXT) for _ in range(3)]
    with daemon:
        async with plain(daemon) as client:
            await attach(client, first, count - 1)
            size = len(json.dumps(await client.receive(), separators=(",", ":"))) + 1
        bare = Bare(folder, count, size)
        try:
            show("", "daemon", "bare pair", "ratio", "aim")
            for clients, session_id in ((1, first), (10, second)):
                theirs = await bare.rate(clients)
                ours = await replay_rate(daemon, session_id, count, clients)
                show(
                    f"events/s to {clients} clients", f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}", "≥ 0.50"
                )
            took = await first_replay(daemon, third, count)
            show(f"open and replay {count:,} events", f"{took:.3f} s", aim="≤ 0.3 s for 10,000")
            mine, theirs = percentiles(await pings(daemon)), percentiles(await bare.round_trips())
            pair = (f"{mine[0]:.3f} / {mine[1]:.3f}", f"{theirs[0]:.3f} / {theirs[1]:.3f}")
            show("round trip p50 / p99 ms", *pair, f"{mine[0] / theirs[0]:.1f}")
            middle, slow = percentiles(await live_latencies(daemon))
            show("append→client p50 / p99 ms", f"{middle:.2f} / {slow:.2f}", aim="≤ 2 / ≤ 10")
            idle, more = await memory(folder / "fresh", fast)
            show("resident, idle", f"{idle / 1024:.1f} MiB", aim="≤ 60 MB")
            show(f"more by {SESSIONS} sessions", f"{more / 1024:.1f} MiB")
        finally:
            bare.close()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        asyncio.run(measure(Path(folder), count))


if __name__ == "__main__":
    main()

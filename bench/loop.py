"""What one turn of the loop costs beside the model: at turn 10, 200 and 500, and how it grows.

`python bench/loop.py [TURNS]`. The model answers at once with one `read_file` call per turn; the log is SQLite in a
temporary folder. The floor is a bare asyncio loop that makes as many commits of as many events, and does nothing else.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

from buddy.client.client import Client
from buddy.config.places import Places
from buddy.config.settings import AgentSettings, Config, Profile
from buddy.daemon.runtime import Parts, Runtime, unix_ms
from buddy.log.contract import Batch, SessionRecord
from buddy.log.owners import this_owner
from buddy.log.sqlite import SqliteLog
from buddy.models.contract import Piece, Prompt, Reply, TokenUsage
from buddy.protocol.envelopes import Event
from buddy.protocol.requests import SendUserMessage, StartSession
from buddy.protocol.shapes import BudgetLimits, Repo, RunOptions, ToolCallItem

SESSION = "sess_floor"
POINTS = (10, 200, 500)
AROUND = 10


class AtOnce:
    """A model that wants the same file again and again, and notes when it was asked."""

    profile = "bench"
    model = "at-once"
    api = "scripted"
    context_limit = 1_000_000_000

    def __init__(self, turns: int) -> None:
        self.asked: list[float] = []
        self._turns = turns

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        del prompt
        self.asked.append(time.perf_counter())
        turn, usage = len(self.asked), TokenUsage(100, 10)
        if turn > self._turns:
            yield Reply("done", usage=usage)
        else:
            yield Reply("", (ToolCallItem(f"call_{turn}", "read_file", '{"path":"a.txt"}'),), usage=usage)

    async def close(self) -> None:
        """Nothing to close."""


class Noting(SqliteLog):
    """The log, which also notes what was appended."""

    appended: ClassVar[list[Batch]] = []

    async def append(self, batch: Batch) -> int:
        self.appended.append(batch)
        return await super().append(batch)


async def measure(place: Path, turns: int) -> tuple[list[float], list[Batch]]:
    """Seconds per turn, and what was written for them."""
    (place / "a.txt").write_text("a line of text\n" * 20)
    log = Noting.open(place / "state", unix_ms, min_free=0)
    model = AtOnce(turns)
    config = Config(models={"bench": Profile(api="scripted")}, agent=AgentSettings(model="bench"))
    places = Places(place / "config", place / "state", place / "socket")
    runtime = Runtime(config, places, {}, Parts(log=log, provider=lambda _: model))
    async with Client(runtime.connect(), "bench") as client:
        started = await client.start_session(StartSession("headless", "default", "local", Repo(str(place))))
        options = RunOptions(budget=BudgetLimits(max_turns=turns + 1))
        await client.send(SendUserMessage(started.session_id, "msg_1", "go", options=options))
        async for event in client.events():
            if event.type == "run_complete":
                break
    await runtime.close()
    return [later - earlier for earlier, later in zip(model.asked, model.asked[1:], strict=False)], Noting.appended


async def floor(place: Path, batches: list[Batch]) -> float:
    """Seconds for the same commits with nothing around them."""
    log = SqliteLog.open(place / "floor", unix_ms, min_free=0)
    record = SessionRecord(SESSION, Repo(str(place)), "headless", "idle", 1, 1, 1, 0)
    lease = await log.create(record, this_owner())
    copies = [
        Batch(SESSION, lease.epoch, batch.expected_seq, [_renamed(event) for event in batch.events], batch.durable)
        for batch in batches
    ]
    began = time.perf_counter()
    for batch in copies:
        await log.append(batch)
    spent = time.perf_counter() - began
    await log.close()
    return spent


def _renamed(event: Event) -> Event:
    return Event(SESSION, event.seq, event.ts, event.type, event.payload, event.run_id)


def growth(spent: list[float]) -> float:
    """Seconds by which a turn is slower than the one before: the slope of a straight line through all of them."""
    slope, _ = statistics.linear_regression(range(len(spent)), spent)
    return slope


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else max(POINTS) + AROUND
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        place = Path(name)
        spent, batches = asyncio.run(measure(place, turns))
        bare = asyncio.run(floor(place, batches)) / turns
    print(f"{'turn':>6} {'median ms':>10}")
    for point in POINTS:
        near = spent[max(0, point - AROUND) : point + AROUND]
        if near:
            print(f"{point:6} {statistics.median(near) * 1e3:10.2f}")
    print(
        f"all turns: median {statistics.median(spent) * 1e3:.2f} ms, growing by {growth(spent) * 1e6:.2f} µs per turn"
    )
    print(f"floor: {bare * 1e3:.2f} ms per turn ({len(batches) / turns:.1f} commits, the same events, nothing else)")


if __name__ == "__main__":
    main()

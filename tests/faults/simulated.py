"""A simulated machine: virtual time, processes that outlive the runtime that started them, a slow log.

Invariants: nothing here is real, so a simulation depends on its random seed only; a wait that nothing can end
is an error and not a hang; the ledger says what was really executed.
"""

import asyncio
import random
import selectors
from collections.abc import Mapping

from buddy.config.places import Places
from buddy.config.settings import AgentSettings, Config, Profile
from buddy.daemon.runtime import Runtime, RuntimeOverrides
from buddy.errors import StorageFull, ToolError
from buddy.log.contract import Batch, Lease
from buddy.log.memory import MemoryLog
from buddy.log.owners import this_owner
from buddy.models.script import Script
from buddy.models.scripted import Scripted
from buddy.protocol.events import SessionStarted
from buddy.protocol.ids import CountingIds
from buddy.targets.contract import Entry, FileStat, Finished, OnOutput
from buddy.tools.contract import Place

EPOCH_MS = 1_700_000_000_000
ROOT = "/simulated"
# How long a process that is asked to end takes; one whose runtime dies meanwhile keeps running.
GRACE = 0.05


class Stuck(Exception):
    """Every task waits, and nothing is pending that could wake one."""


class _Instant(selectors.SelectSelector):
    """Never waits: it says how much time would have passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise Stuck("nothing is left that could happen")
        self.now += timeout or 0.0
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer."""

    def __init__(self) -> None:
        self._instant = _Instant()
        super().__init__(self._instant)

    def time(self) -> float:
        return self._instant.now


def clock() -> int:
    """Unix milliseconds of the virtual loop that runs."""
    return EPOCH_MS + round(asyncio.get_running_loop().time() * 1000)


class SlowLog(MemoryLog):
    """A log whose commits take time before and after they count; `full` makes it refuse."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(clock)
        self.full = False
        self._chance = chance

    async def acquire(self, session_id: str, owner: str) -> Lease | None:
        if self.full:
            raise StorageFull("the simulated disk is full")
        return await self.take_over(session_id, owner)

    async def take_over(self, session_id: str, owner: str) -> Lease | None:
        """What a crash comes to: it happens on a full disk, too."""
        return await super().acquire(session_id, owner)

    async def append(self, batch: Batch) -> int:
        await asyncio.sleep(self._chance.choice((0, 0, 0.001, 0.02)))
        if self.full:
            raise StorageFull("the simulated disk is full")
        last_seq = await super().append(batch)
        await asyncio.sleep(self._chance.choice((0, 0, 0.001, 0.02)))
        return last_seq


class SimulatedMachine:
    """Files, processes by nonce, and the ledger."""

    def __init__(self) -> None:
        self.ledger: list[str] = []
        self.files: dict[str, bytes] = {}
        self._processes: dict[str, set[asyncio.Task[int]]] = {}

    def start(self, nonce: str, command: str, on_output: OnOutput) -> "asyncio.Task[int]":
        """A process of the command `BEFORE AFTER EXIT`: it waits, writes the ledger, waits again and exits."""
        process = asyncio.get_running_loop().create_task(self._process(nonce, command, on_output))
        living = self._processes.setdefault(nonce, set())
        living.add(process)
        process.add_done_callback(living.discard)
        return process

    async def end(self, nonce: str) -> int:
        living = tuple(self._processes.get(nonce, ()))
        for process in living:
            process.cancel()
        if living:
            await asyncio.wait(living)
        return len(living)

    def living(self) -> list[str]:
        return [nonce for nonce, processes in self._processes.items() if processes]

    async def _process(self, nonce: str, command: str, on_output: OnOutput) -> int:
        before, after, code, *_ = command.split()
        await asyncio.sleep(float(before))
        self.ledger.append(nonce)
        await on_output("stdout", b"done\n")
        await asyncio.sleep(float(after))
        return int(code)


class RuntimeProcess:
    """One process of the runtime; once dead, it can reach neither its commands nor its clients."""

    def __init__(self) -> None:
        self.alive = True


class Simulated:
    """Satisfies `Target` on a simulated machine, for as long as its runtime lives."""

    name: str = "local"

    def __init__(self, world: SimulatedMachine, runtime: RuntimeProcess) -> None:
        self._world = world
        self._runtime = runtime

    async def run(
        self,
        command: str,
        *,
        cwd: str,  # noqa: ARG002 - there is one directory
        nonce: str,
        on_output: OnOutput,
        timeout: float | None = None,  # noqa: ARG002 - no command of a simulation asks for one
        env: Mapping[str, str] | None = None,  # noqa: ARG002 - as above
    ) -> Finished:
        async def tell(stream: str, data: bytes) -> None:
            if self._runtime.alive:
                await on_output("stderr" if stream == "stderr" else "stdout", data)

        await asyncio.sleep(0.001)
        process = self._world.start(nonce, command, tell)
        try:
            return Finished(await asyncio.shield(process))
        except asyncio.CancelledError:
            await asyncio.sleep(GRACE)
            if self._runtime.alive:
                await self._world.end(nonce)
            raise

    async def read_file(self, path: str, *, root: str, limit: int) -> bytes:  # noqa: ARG002 - there is one root
        return self._content(path)[:limit]

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:  # noqa: ARG002 - as above
        await asyncio.sleep(0.001)
        self._world.files[path] = content

    async def stat(self, path: str, *, root: str) -> FileStat | None:
        if path in (".", root):
            return FileStat(0, is_dir=True, modified_ns=0)
        content = self._world.files.get(path)
        return None if content is None else FileStat(len(content), is_dir=False, modified_ns=0)

    async def kill_orphans(self, nonce: str) -> int:
        return await self._world.end(nonce)

    async def locate(self, path: str, *, root: str) -> str:
        return f"{root}/{path}"

    async def list_dir(self, path: str, *, root: str) -> list[Entry]:  # noqa: ARG002 - there is one directory
        return [Entry(name, is_dir=False, size=len(content)) for name, content in sorted(self._world.files.items())]

    def _content(self, path: str) -> bytes:
        try:
            return self._world.files[path]
        except KeyError:
            raise ToolError(f"no file {path!r}", code="FILE_NOT_FOUND") from None


class SimulatedRuntime(Runtime):
    """The real runtime, but for its model, its log and the place its tools work on."""

    def __init__(
        self, world: SimulatedMachine, log: MemoryLog, ids: CountingIds, script: Script, timeout: float = 300.0
    ) -> None:
        agent = AgentSettings(model="sim", approval_timeout_seconds=timeout)
        config = Config(models={"sim": Profile(api="scripted")}, agent=agent)
        parts = RuntimeOverrides(
            clock, ids, log, lambda resolved: Scripted(resolved.profile, script), boot_clock=lambda: None
        )
        self.process = RuntimeProcess()
        self._world = world
        super().__init__(config, _nowhere(), {}, parts)

    def _place(self, started: SessionStarted) -> Place:  # noqa: ARG002 - all sessions share one workspace
        return Place(Simulated(self._world, self.process), ROOT)

    async def crash(self) -> None:
        """Die: what it would still write is refused, and no word of it reaches anybody.

        Nothing is opened any more, and each lease is taken over, before the sessions can react to their end.
        """
        self.process.alive = False
        opening = [task for task in asyncio.all_tasks() if "Sessions._load" in repr(task.get_coro())]
        for task in opening:
            task.cancel()
        for session in self.sessions.open_sessions:
            assert isinstance(self.log, SlowLog)
            policy = await self.log.take_over(session.session_id, this_owner())
            assert policy is not None, "the same process may always take its own session over"
            session.broken = True
        if opening:
            await asyncio.wait(opening)
        await self.close()


def _nowhere() -> Places:
    from pathlib import Path

    return Places(Path(ROOT), Path(ROOT), Path(ROOT))

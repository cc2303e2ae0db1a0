"""Confinement that is loaded, and proven again, while the model is already at work.

Invariants: as for `Confined`, which runs the commands: nothing runs before a method was proven in this process. Only
the start of a session goes by the last verdict.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from buddy.targets.confine.verdict import Verdict, read_verdict, write_verdict
from buddy.targets.contract import Finished, OnOutput
from buddy.targets.local import Local

if TYPE_CHECKING:
    from buddy.targets.confine.policy import ConfinementPolicy
    from buddy.targets.confine.probe import ProbeResult
    from buddy.targets.confine.target import Confined

# By then the first model request is on its way, and a run that only talks may be over.
SOON_SECONDS = 0.25
PROVE = "import sys; from buddy.targets.confine.deferred import prove; prove(sys.argv[1])"


class DeferredConfined(Local):
    """`state_dir` has the last verdict."""

    def __init__(self, make_policy: "Callable[[], ConfinementPolicy]", state_dir: str) -> None:
        super().__init__(groups=False)
        self._make_policy = make_policy
        self._state_dir = state_dir

    async def verify(self, root: str) -> None:
        if not _was_probed() and (last := read_verdict(self._state_dir)) is not None and last.method:
            prove_soon(self._state_dir)
        else:
            await self._confined.verify(root)

    def with_network(self) -> "Confined":
        return self._confined.with_network()

    def outside(self) -> Local:
        return self._confined.outside()

    async def run(
        self,
        command: str,
        *,
        cwd: str,
        nonce: str,
        on_output: OnOutput,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Finished:
        confined = self._confined
        return await confined.run(command, cwd=cwd, nonce=nonce, on_output=on_output, timeout=timeout, env=env)

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        await self._confined.write_file(path, content, root=root)

    @cached_property
    def _confined(self) -> "Confined":
        from buddy.targets.confine.target import Confined

        return Confined(self._make_policy(), lambda: prove(self._state_dir))


def prove(state_dir: str) -> "ProbeResult":
    """The result of this process's self-test, which is kept. Slow: do not call it in an event loop."""
    from buddy.targets.confine.probe import probe

    proof = probe()
    write_verdict(state_dir, Verdict(proof.method, proof.reason))
    return proof


def prove_soon(state_dir: str) -> None:
    """Run the self-test in another thread, in a moment. A failure is found by the first command."""
    loop = asyncio.get_running_loop()

    def prove_now() -> None:
        loop.run_in_executor(None, prove, state_dir).add_done_callback(_prepare_standby)

    loop.call_later(SOON_SECONDS, prove_now)


async def prove_if_unknown(state_dir: str) -> None:
    """Have another process find out, in a moment, if nobody knows yet whether it works here.

    What the self-test loads would stay in this one, which may never run a command.
    """
    last = read_verdict(state_dir)
    if last is not None and last.method:
        return
    await asyncio.sleep(SOON_SECONDS)
    nothing = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", PROVE, state_dir), stdin=nothing, stdout=nothing, stderr=nothing
        )
    except OSError:
        return  # no descriptors or processes left: the first session proves it
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def end_standby() -> None:
    """End the process that waits for the next command, if there is one."""
    if "buddy.targets.confine.standby" in sys.modules:
        from buddy.targets.confine.standby import standby

        standby.close()


def _prepare_standby(proving: "asyncio.Future[ProbeResult]") -> None:
    from buddy.targets.confine.methods import LANDLOCK_METHOD
    from buddy.targets.confine.standby import standby

    if not proving.cancelled() and proving.exception() is None and proving.result().method == LANDLOCK_METHOD:
        standby.prepare()


def _was_probed() -> bool:
    if "buddy.targets.confine.probe" not in sys.modules:
        return False
    from buddy.targets.confine.probe import was_probed

    return was_probed()

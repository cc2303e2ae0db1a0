"""This machine as a target whose commands are confined.

What always holds: as for `Local`; and a command, or a file tool, writes only in the workspace and not to what is
protected there, and has no network unless it was asked for by name.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from buddy.targets import paths
from buddy.targets.confine import bubblewrap
from buddy.targets.confine.fence import Fence, Plan
from buddy.targets.contract import Finished, OnOutput
from buddy.targets.local import GRACE, Local
from buddy.targets.remote import signed

Wrap = Callable[[Plan, Sequence[str], str], list[str]]


def landlocked(plan: Plan, argv: Sequence[str], cwd: str) -> list[str]:
    helper = Path(__file__).with_name("landlock.py")
    return [sys.executable, "-I", "-S", str(helper), msgspec.json.encode(plan).decode(), cwd, "--", *argv]


WRAPS: dict[str, Wrap] = {"bubblewrap": bubblewrap.wrap, "landlock": landlocked}


class Confined(Local):
    def __init__(self, fence: Fence, wrap: Wrap, *, network: bool = False, grace: float = GRACE) -> None:
        super().__init__(grace=grace)
        self._fence = fence
        self._wrap = wrap
        self._network = network

    def with_network(self) -> "Confined":
        """The same, for a call that was allowed to use the network."""
        return Confined(self._fence, self._wrap, network=True, grace=self._grace)

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
        with self._fence.raised(network=self._network) as plan:
            argv = self._wrap(plan, self._argv(command), paths.locate(cwd, self._fence.root))
            finished = await self._start(argv, cwd, nonce, on_output, timeout, env)
        return msgspec.structs.replace(finished, exit_code=signed(finished.exit_code))

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        self._fence.check(paths.locate(path, root))
        await super().write_file(path, content, root=root)

"""This machine as a target whose commands are confined.

Invariants: as for `Local`; in addition, commands and file tools write only in the workspace and not to its protected
paths, and have no network unless their call was allowed to. Nothing runs before a method was proven. What only reads
runs with the workspace read-only, so that nothing in it needs protection.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

import msgspec
from msgspec import Struct

from buddy.errors import ToolError
from buddy.scrub.environment import secrets_of
from buddy.targets import cgroups, files, paths
from buddy.targets.cancellation import finish_despite_cancel
from buddy.targets.confine.limits import join_groups, make_groups, remove_groups
from buddy.targets.confine.methods import LANDLOCK_METHOD, confine, empty_file, simple_filter
from buddy.targets.confine.policy import ConfinementPolicy, Plan, Running
from buddy.targets.confine.probe import ProbeResult, probe
from buddy.targets.confine.standby import standby
from buddy.targets.contract import Finished, OnOutput
from buddy.targets.local import GRACE, Local
from buddy.targets.reading_commands import only_reads
from buddy.targets.remote import exit_code_of


class Confined(Local):
    """`proof` returns the method that works, testing if necessary."""

    def __init__(
        self,
        policy: ConfinementPolicy,
        proof: Callable[[], ProbeResult] = probe,
        *,
        network: bool = False,
        grace: float = GRACE,
        plain: bool = False,
    ) -> None:
        """`plain` is for Buddy's own searches, which change nothing, start nothing and need no sockets."""
        super().__init__(grace=grace, groups=False)  # its process namespace ends all at once
        self._policy = policy
        self._proof = proof
        self._network = network
        self._plain = plain
        self._method = ""
        self.without_cgroups = self if plain else Confined(policy, proof, network=network, grace=grace, plain=True)

    def with_network(self) -> "Confined":
        return Confined(self._policy, self._proof, network=True, grace=self._grace)

    def outside(self) -> Local:
        return Local(grace=self._grace)

    async def verify(self, root: str) -> None:  # noqa: ARG002 - it holds everywhere here, or nowhere
        await self._proven()

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
        how = await self._proven()

        async def start(plan: Plan, groups: Sequence[str] = ()) -> Finished:
            argv = confine(how, plan, self._argv(command), paths.locate(cwd, self._policy.root))
            fds = () if plan.filter is None else (plan.filter,)
            starting = standby.launcher(network=plan.network) if how == LANDLOCK_METHOD else nullcontext()
            with empty_file() as stdin:
                async with starting as launch:
                    words = join_groups(groups, argv)
                    ended = await self._start(words, cwd, nonce, on_output, timeout, env, stdin, fds, launch)
                return msgspec.structs.replace(ended, exit_code=exit_code_of(ended.exit_code))

        if self._plain or (not self._network and only_reads(command)):
            with simple_filter(self._policy.reading_plan()) as plan:
                return await start(plan)
        active = ExitStack()
        active.enter_context(self._policy.active())
        started: _Started | None = None
        try:
            started = await finish_despite_cancel(asyncio.to_thread(self._prepare, how, command, nonce))
            with _filtered(started) as plan:
                finished = await start(plan, started.groups)
        finally:
            # In the thread as well: the last command of a workspace removes the placeholders, file by file.
            done = await finish_despite_cancel(asyncio.to_thread(self._settle, started, active))
        for line in done:
            await on_output("stderr", f"confined: {line}\n".encode("utf-8", "replace"))
        return finished

    def _prepare(self, how: str, command: str, nonce: str) -> "_Started":
        # Plain commands start no others and need no sockets, so they wait for no supervisor and no group.
        is_plain = not cgroups.may_outlive(command)
        running = self._policy.begin(network=self._network)
        # A process of the standby is in groups of its own.
        groups = [] if is_plain or how == LANDLOCK_METHOD else make_groups(nonce)
        return _Started(running, groups, is_plain=is_plain)

    def _settle(self, started: "_Started | None", active: ExitStack) -> list[str]:
        try:
            with active:
                return [] if started is None else self._policy.settle(started.running)
        finally:
            # At the end: by then, the last process has usually left them, and nobody waits for it.
            remove_groups([] if started is None else started.groups)

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        writing = asyncio.to_thread(files.write, path, content, root, self._policy.check)
        await finish_despite_cancel(writing)

    def _base_environment(self) -> dict[str, str]:
        """Without this process's secrets: even without a network, a command could show them to the model."""
        complete = super()._base_environment()
        secret = set(secrets_of(complete))
        return {name: value for name, value in complete.items() if value not in secret}

    async def _proven(self) -> str:
        if not self._method:
            proof = await asyncio.to_thread(self._proof)
            if not proof.method:
                raise ToolError(
                    f"confined cannot be proven here ({proof.reason}); install bubblewrap, or use a container",
                    code="SANDBOX_UNREACHABLE",
                )
            self._method = proof.method
        return self._method


class _Started(Struct, frozen=True):
    running: Running
    groups: list[str]
    is_plain: bool


def _filtered(started: _Started) -> AbstractContextManager[Plan]:
    plan = started.running.plan
    return simple_filter(plan) if started.is_plain else nullcontext(plan)

"""A target whose commands run in a shared tmux pane; files and orphans are handled by its base target.

Invariants:
- a command is over when the pane's shell has recorded its exit code; nothing it prints can fake that;
- after a timeout the command continues and the result says so; only a cancellation ends it;
- a command that outlived the process that typed it can be found by its nonce.
"""

import re
import secrets
from collections.abc import Mapping
from contextlib import suppress

from buddy import faults
from buddy.capabilities import has
from buddy.errors import OutcomeUnknown, ToolError
from buddy.targets import child
from buddy.targets.cancellation import finish_despite_cancel
from buddy.targets.contract import (
    Capture,
    Entry,
    FileStat,
    Finished,
    Keys,
    OnOutput,
    PaneInfo,
    Target,
    Verifiable,
)
from buddy.targets.environment import environment
from buddy.targets.launchers import Launcher
from buddy.targets.oneshot import ask, unreachable
from buddy.targets.orphans import NONCE_VARIABLE
from buddy.targets.remote import encode_command, exit_code_of
from buddy.targets.scripts import script_argv
from buddy.targets.tmux.pane import Pane, PaneCommand
from buddy.targets.tmux.screen import MARK, PaneText

GRACE_TENTHS = "5"


class Tmux:
    """Satisfies `Target`, `Terminal`, `Reattachable` and `FencedTarget`."""

    def __init__(self, base: Target, launcher: Launcher, pane: Pane) -> None:
        self.name: str = base.name
        self.fence = ""
        self._base = base
        self.without_terminal: Target = base
        self._launcher = launcher
        self._pane = pane

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
        """As in `Target`; `timeout` bounds the wait, and 0 does not wait at all."""
        if env:
            raise ToolError("a command in the shared pane takes its environment from there; set variables in it")
        faults.reached("tool.start.before")
        typed = await finish_despite_cancel(self._pane.type(encode_command(command), cwd, nonce, self.fence))
        faults.reached("tool.start.after")
        if timeout is not None and timeout <= 0:
            return Finished(0, timed_out=True, still_running=True)
        return await self._follow(typed, nonce, on_output, timeout)

    async def reattach(self, nonce: str, on_output: OnOutput) -> Finished | None:
        typed = PaneCommand(await self._pane.directory_of(nonce), b"", b"")
        try:
            return await self._follow(typed, nonce, on_output, None)
        except ToolError:
            return None

    async def verify(self, root: str) -> None:
        if has(self._base, Verifiable):
            await self._base.verify(root)
        await self._pane.make()

    async def read_file(self, path: str, *, root: str, limit: int) -> bytes:
        return await self._base.read_file(path, root=root, limit=limit)

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        await self._base.write_file(path, content, root=root)

    async def stat(self, path: str, *, root: str) -> FileStat | None:
        return await self._base.stat(path, root=root)

    async def locate(self, path: str, *, root: str) -> str:
        return await self._base.locate(path, root=root)

    async def list_dir(self, path: str, *, root: str) -> list[Entry]:
        return await self._base.list_dir(path, root=root)

    async def kill_orphans(self, nonce: str) -> int:
        return await self._base.kill_orphans(nonce)

    async def find_pane(self, target: str | None) -> PaneInfo:
        return await self._pane.find(target)

    async def capture(self, request: Capture) -> str:
        return await self._pane.capture(request)

    async def send_keys(self, keys: Keys) -> None:
        await self._pane.send_keys(keys, self.fence)

    async def snapshot(self) -> str:
        return await self._pane.snapshot()

    async def leave(self) -> None:
        await self._pane.leave()

    def attach_hint(self) -> str:
        return self._pane.attach_hint()

    async def _follow(self, typed: PaneCommand, nonce: str, on_output: OnOutput, timeout: float | None) -> Finished:
        reading = _PaneOutput(PaneText(typed.begin, typed.end), on_output)
        own = secrets.token_hex(16)
        words = ["env", f"{NONCE_VARIABLE}={own}", *script_argv("follow", typed.directory)]
        follower = child.start(await self._launcher.argv(words), "/", environment())
        in_time, settled = True, False
        try:
            in_time = await follower.follow(reading.take, timeout, 0)
            settled = True
        finally:
            try:
                if not settled:
                    await finish_despite_cancel(self._end(typed, nonce))
                if not (settled and in_time):
                    await finish_despite_cancel(self._stop_following(follower, own))
            finally:
                follower.close()
        if not in_time:
            return Finished(0, timed_out=True, still_running=True)
        return await finish_despite_cancel(self._finish(typed, reading))

    async def _finish(self, typed: PaneCommand, reading: "_PaneOutput") -> Finished:
        mark = (MARK + typed.end).decode()[1:]
        answer = await ask(self._launcher, script_argv("finish", typed.directory, str(reading.count), mark))
        word, newline, rest = answer.output.partition(b"\n")
        if not newline:
            raise unreachable(self._launcher, answer.errors or "tmux gave no answer")
        await reading.rest(rest)
        faults.reached("tool.end")
        ended = re.fullmatch(rb"ended (\d+)", word)
        if ended is None:
            raise OutcomeUnknown("the pane was closed or its shell exited while the command ran")
        return Finished(exit_code_of(int(ended[1])))

    async def _end(self, typed: PaneCommand, nonce: str) -> None:
        # If the target is gone, there is nothing left to end.
        with suppress(ToolError):
            await ask(self._launcher, script_argv("end", nonce, GRACE_TENTHS))
            await ask(self._launcher, script_argv("finish", typed.directory, "0", ""))

    async def _stop_following(self, follower: child.Child, own: str) -> None:
        await follower.end(0)
        await self._base.kill_orphans(own)


class _PaneOutput:
    """Output from the pane; `count` is the number of raw bytes received."""

    def __init__(self, screen: PaneText, on_output: OnOutput) -> None:
        self._screen = screen
        self._on_output = on_output
        self.count = 0

    async def take(self, stream: str, piece: bytes) -> None:
        if stream == "stdout":
            self.count += len(piece)
            await self._give(self._screen.take(piece))

    async def rest(self, piece: bytes) -> None:
        await self._give(self._screen.take(piece))
        await self._give(self._screen.flush())

    async def _give(self, text: bytes) -> None:
        if text:
            await self._on_output("stdout", text)

"""A container or another machine as a target: commands in their own sessions, files below the workspace.

Invariants:
- a command whose end was not reported has an unknown outcome, which the result says; it is not run again;
- after a timeout or a cancellation nothing that carries the call's nonce is left, if the target is still reachable;
- a command cannot fake its own end: the end marker contains a secret that it never sees;
- with a `fence` (`SESSION:EPOCH`), nothing starts there once a higher epoch of the session was seen there.
"""

import asyncio
import re
import secrets
from collections.abc import Mapping
from typing import Literal

from buddy import faults
from buddy.capabilities import has
from buddy.errors import OutcomeUnknown, ToolError
from buddy.targets import child
from buddy.targets.cancellation import finish_despite_cancel
from buddy.targets.contract import Entry, FileStat, Finished, OnOutput, Unconnected
from buddy.targets.environment import environment
from buddy.targets.launchers import Launcher
from buddy.targets.oneshot import ask, unreachable
from buddy.targets.scripts import script_argv
from buddy.targets.shell_files import ShellFiles

GRACE = 0.5
FENCE_TRIES = 50
FENCE_SECONDS = 0.1
MAX_PREAMBLE = 16 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Remote:
    """Satisfies `Target` over whatever its launcher reaches."""

    def __init__(self, launcher: Launcher, *, grace: float = GRACE) -> None:
        self.name: str = launcher.name
        self.launcher = launcher
        self.fence = ""
        self._grace = grace
        self._files = ShellFiles(launcher)

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
        words = script_argv("run", cwd, nonce, self.fence or "-", *_assignments(env or {}))
        ending = OutputParser(on_output)
        faults.reached("tool.start.before")
        stdin = ending.token + b"\n" + encode_command(command)
        started = child.start(await self.launcher.argv(words), "/", environment(), stdin)
        settled, in_time = False, True
        try:
            faults.reached("tool.start.after")
            in_time = await started.follow(ending.take, timeout, self._grace, ending.has_ended)
            if not in_time:
                await self._end(nonce, self._grace)
            settled = True
        finally:
            try:
                await finish_despite_cancel(started.end(0) if settled else self._abandon(started, nonce))
            finally:
                code = started.close()
        faults.reached("tool.end")
        return Finished(0, timed_out=True) if not in_time else self._judge(ending, cwd, code)

    async def is_offline(self) -> bool:
        return has(self.launcher, Unconnected) and await self.launcher.is_offline()

    async def verify(self, root: str) -> None:
        await self._files.locate(".", root=root)

    async def read_file(self, path: str, *, root: str, limit: int) -> bytes:
        return await self._files.read(path, root=root, limit=limit)

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        await self._files.write(path, content, root=root)

    async def stat(self, path: str, *, root: str) -> FileStat | None:
        return await self._files.stat(path, root=root)

    async def list_dir(self, path: str, *, root: str) -> list[Entry]:
        return await self._files.list_dir(path, root=root)

    async def locate(self, path: str, *, root: str) -> str:
        """The canonical path there, whether it exists or not."""
        return await self._files.locate(path, root=root)

    async def kill_orphans(self, nonce: str) -> int:
        """With a fence, nothing of the call starts later either: an earlier owner may have been about to start it."""
        ended = await self._end(nonce, 0)
        session, _, epoch = self.fence.rpartition(":")
        for _ in range(FENCE_TRIES if session else 0):
            try:
                answer = await ask(self.launcher, script_argv("fence", session, epoch, nonce))
            except ToolError:
                break  # nothing can start there now; what is started later raises the epoch itself
            if answer.output == b"fenced\n":
                break
            await asyncio.sleep(FENCE_SECONDS)
            ended += await self._end(nonce, 0)
        return ended

    async def _end(self, nonce: str, grace: float) -> int:
        """If the target is gone, nothing can be done about its processes."""
        try:
            answer = await ask(self.launcher, script_argv("end", nonce, str(round(grace * 10))))
        except ToolError:
            return 0
        found = re.fullmatch(rb"ended (\d+)\n", answer.output)
        return int(found[1]) if found else 0

    async def _abandon(self, started: child.Child, nonce: str) -> None:
        await self._end(nonce, self._grace)
        await started.end(0)

    def _judge(self, ending: "OutputParser", cwd: str, code: int) -> Finished:
        if ending.code is not None:
            return Finished(exit_code_of(ending.code))
        if ending.stage == "nodir":
            raise ToolError(f"the directory {cwd!r} does not exist on {self.name}; use another cwd")
        if ending.stage == "fenced":
            raise ToolError(
                f"{self.name} refused to start it: another node has the session", code="SANDBOX_UNREACHABLE"
            )
        if ending.stage == "waiting":
            raise unreachable(
                self.launcher, ending.preamble() or f"it exited with code {code} before the command started"
            )
        raise OutcomeUnknown(f"the connection to {self.name} was lost while the command ran (it may still be running)")


class OutputParser:
    """Finds a command's start and end markers in stderr and forwards the rest."""

    def __init__(self, on_output: OnOutput) -> None:
        self.token = secrets.token_hex(24).encode()
        self.stage: Literal["waiting", "nodir", "fenced", "running", "ended"] = "waiting"
        self.code: int | None = None
        self._on_output = on_output
        self._mark = b"\n" + self.token + b" ended "
        self._held = b""

    async def take(self, stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        if stream == "stdout":
            await self._on_output(stream, chunk)
            return
        self._held += chunk
        if self.stage == "waiting":
            self._find_start()
        if self.stage in ("running", "ended"):
            shown = self._find_end()
            if shown:
                await self._on_output("stderr", shown)

    def has_ended(self) -> bool:
        return self.stage == "ended"

    def preamble(self) -> str:
        return self._held.decode("utf-8", "replace").strip()

    def _find_start(self) -> None:
        before, found, after = self._held.partition(self.token + b" ")
        if not found or b"\n" not in after:
            self._held = self._held[-MAX_PREAMBLE:]
            return
        del before  # a login banner, not the command's output
        word, _, self._held = after.partition(b"\n")
        self.stage = "running" if word == b"started" else "fenced" if word == b"fenced" else "nodir"

    def _find_end(self) -> bytes:
        before, found, after = self._held.partition(self._mark)
        if found and b"\n" in after:
            code, _, later = after.partition(b"\n")
            self.code, self.stage, self._held = int(code), "ended", b""
            return before + later
        keep = len(found + after) if found else _overlap(before, self._mark)
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return shown


def _overlap(text: bytes, mark: bytes) -> int:
    """How many bytes at the end of `text` may be the start of the marker."""
    return next(count for count in range(min(len(text), len(mark) - 1), -1, -1) if text.endswith(mark[:count]))


def _assignments(env: Mapping[str, str]) -> list[str]:
    for name in env:
        if not _NAME.fullmatch(name):
            raise ToolError(f"{name[:80]!r} is not a valid variable name")
    return [f"{name}={value}" for name, value in env.items()]


def encode_command(command: str) -> bytes:
    """A command as bytes for the shell; ToolError if it contains invalid bytes."""
    try:
        text = command.encode()
    except UnicodeEncodeError:
        text = b"\0"
    if b"\0" in text:
        raise ToolError("the command contains invalid bytes (NUL or a broken character); remove them")
    return text


def exit_code_of(code: int) -> int:
    """A shell reports a fatal signal as 128 plus its number; we report it as negative."""
    return 128 - code if 128 < code <= 128 + 64 else code

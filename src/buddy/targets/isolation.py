"""Check from inside whether a container is isolated, before it is used.

Invariants: the level `container` is only granted where processes and files are not this machine's, Buddy's files are
not visible, and the container has no power over the machine. What cannot be proven is refused with the reason.
"""

import asyncio
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from buddy.errors import ToolError
from buddy.targets.launchers import ENGINES, ContainerLauncher, Launcher, engines, query_engine
from buddy.targets.oneshot import ask
from buddy.targets.scripts import script_argv

SPACES = ("mnt", "pid")
LIST_SECONDS = 20.0


class IsolatedContainer(ContainerLauncher):
    """A container that is checked before its first use; `own` is a directory it must not see."""

    def __init__(self, container: str, own: Path, engine: str | None = None) -> None:
        super().__init__(container, engine)
        self._own = own
        self._proven: Isolation | None = None

    async def argv(self, words: Sequence[str]) -> list[str]:
        await self._prove()
        return await super().argv(words)

    async def is_offline(self) -> bool:
        """Whether it had no network when it was checked."""
        return (await self._prove()).is_offline

    async def _prove(self) -> "Isolation":
        if self._proven is None:
            found = await inspect_isolation(ContainerLauncher(self.container, await self.engine()), self._own)
            if found.flaw:
                raise ToolError(
                    f"{self.name} is not a sandbox: {found.flaw}; to use it anyway, request the sandbox host",
                    code="SANDBOX_UNREACHABLE",
                )
            self._proven = found
        return self._proven


class Isolation(Struct, frozen=True):
    """Why a container is not isolated, empty if it is; and whether it was proven to have no network."""

    flaw: str = ""
    is_offline: bool = False


async def inspect_isolation(container: Launcher, own: Path) -> Isolation:
    """Look at a container from inside."""
    try:
        probe = await asyncio.to_thread(_create_probe, own)
    except OSError as error:
        return Isolation(f"no probe file can be created in {own} ({error.strerror})")
    try:
        answer = await ask(container, script_argv("isolation", str(probe)))
    finally:
        await asyncio.to_thread(probe.unlink, missing_ok=True)
    facts = dict(line.split("=", 1) for line in answer.output.decode("ascii", "replace").splitlines() if "=" in line)
    if facts.get("done") != "yes":
        return Isolation(
            f"it could not be inspected ({answer.errors[-200:] or f'its shell exited with {answer.code}'})"
        )
    return Isolation(_judge(facts), is_offline=facts.get("network") == "no")


async def describe() -> str:
    """The container level for `buddy doctor`, which enters no container: engines are only asked what is running."""
    found = engines()
    if not found:
        return f"unavailable: none of {', '.join(ENGINES)} is installed"
    states = [await _state_of(engine) for engine in found]
    level = "untried" if any(state.is_usable for state in states) else "unavailable"
    return f"{level}: {'; '.join(state.text for state in states)}"


class EngineState(Struct, frozen=True):
    is_usable: bool
    text: str


async def _state_of(engine: str) -> EngineState:
    try:
        running = await _running(engine)
    except (ToolError, OSError) as error:
        return EngineState(False, f"{engine}: {error}")
    if not running:
        return EngineState(True, f"{engine} responds, but no container is running")
    noun = "container is" if len(running) == 1 else "containers are"
    return EngineState(True, f"{engine}: {len(running)} {noun} running; each is checked before its first use")


def _judge(facts: dict[str, str]) -> str:
    if facts.get("probe") == "seen":
        return "it can see Buddy's own files"
    boot = facts.get("boot", "")
    if boot and boot != _read("/proc/sys/kernel/random/boot_id"):
        return ""  # another machine's kernel: nothing of this one is visible
    for space in SPACES:
        theirs = facts.get(space, "")
        if not theirs or theirs == _link(f"/proc/self/ns/{space}"):
            return f"it shares this machine's {'files' if space == 'mnt' else 'processes'}"
    if facts.get("admin") == "yes":
        return "it is privileged and could take over this machine"
    return f"it can control the container engine ({facts['engine']})" if "engine" in facts else ""


def _create_probe(own: Path) -> Path:
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    probe = own / f".probe-{secrets.token_hex(8)}"
    probe.touch(mode=0o600)
    return probe


async def _running(engine: str) -> list[str]:
    try:
        listing = await query_engine(engine, ("ps", "--format", "{{.Names}}"), LIST_SECONDS)
    except TimeoutError:
        raise ToolError(f"no answer within {LIST_SECONDS:g} s") from None
    if listing.code != 0:
        raise ToolError(listing.errors.decode("utf-8", "replace").strip()[-200:] or f"exit code {listing.code}")
    return listing.output.decode("utf-8", "replace").split()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - plain text
    except OSError:
        return ""

"""A control group per command, where this process may create one: everything a command starts stays in it.

Invariants: a process cannot leave its group by a new session or another environment, so killing the group kills
everything a call started. Where no group can be created, calls run without one and are found by their nonce alone.
"""

import os
import re
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

PREFIX = "buddy-"
# An empty group this old belongs to a call that ended or never started; on a busy machine entering takes seconds.
STALE_SECONDS = 600.0
PATIENCE = 5.0
PROBE_SECONDS = 30.0
LOOK_AGAIN_MS = 20
# Plain commands of programs that start no others unless asked to: they leave nothing behind.
_ALONE = (
    r"(?:(?:true|false|echo|printf|pwd|cd|ls|tree|cat|head|tail|wc|stat|file|date|uname|whoami|id|which|test|\[|grep|cut|tr"
    r"|uniq|nl|tac|comm|tee|jq|basename|dirname|realpath|readlink|du|df|sha256sum|md5sum|diff|cmp|mkdir|touch|cp|mv|rm|sleep)"
    r"|sed -n [\"']?\d+(?:,\d+)?p[\"']?(?!\S| .*-)"
    r"|(?:find|rg|sort)(?! .*(?:-exec|-ok|--pre|--host|--co|\S[\"']\S|\{)))"
    r"(?: (?>[12]?>&[12]|[^&;|$`()\n\\])*+)?"
)
# The shell moves itself into the group and then becomes the command.
JOIN = '{ echo 0 >"$0"; } 2>/dev/null; exec "$@"'


class Group(Struct, frozen=True):
    place: Path

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """The same command, started inside the group."""
        return ["/bin/sh", "-c", JOIN, str(self.place / "cgroup.procs"), *argv]

    def end(self) -> int:
        """Kill everything inside, wait until it is dead and return how many processes there were."""
        found = 0
        with suppress(OSError):
            found = len((self.place / "cgroup.procs").read_text(encoding="ascii").split())
            (self.place / "cgroup.kill").write_text("1", encoding="ascii")
            self._wait_empty()
        self.leave()
        return found

    def _wait_empty(self) -> None:
        """Bounded, because a process stuck in the kernel ignores even SIGKILL."""
        with (self.place / "cgroup.events").open(encoding="ascii") as events:
            news = select.poll()
            news.register(events, select.POLLPRI)
            until = time.monotonic() + PATIENCE
            while "populated 1" in events.read() and time.monotonic() < until:
                news.poll(LOOK_AGAIN_MS)  # a change between read and poll is not reported
                events.seek(0)

    def leave(self) -> None:
        """Remove the group unless it still has processes."""
        with suppress(OSError):
            self.place.rmdir()


def may_outlive(command: str) -> bool:
    """Whether a command could leave a process behind; entering a group takes about ten milliseconds.

    Quotes are ignored, which finds more commands than there are, never fewer.
    """
    return not all(re.fullmatch(_ALONE, part.strip(" ")) for part in re.split(r"&&|\|\||[;|]", command))


def make(nonce: str) -> Group | None:
    """A group for a call, or None if none can be created."""
    base = _base()
    if base is None:
        return None
    _sweep(base)
    group = Group(base / f"{PREFIX}{nonce}")
    try:
        group.place.mkdir(exist_ok=True)
    except OSError:
        return None
    return group


def find(nonce: str) -> Group | None:
    """The group of a call, even one started by another Buddy process."""
    mount = _mount()
    if mount is None or _base() is None:
        return None
    name = f"{PREFIX}{nonce}"
    near = _own(mount) / name
    if near.is_dir():
        return Group(near)
    return next((Group(Path(at) / name) for at, names, _ in os.walk(mount) if name in names), None)


@cache
def _base() -> Path | None:
    """Where groups can be created, verified by trying: a process must be able to enter and be killable."""
    mount = _mount()
    if mount is None:
        return None
    own = _own(mount)
    # Named by the time as well: a probe that a busy machine left behind may have had the same process id.
    group = Group(own / f"{PREFIX}probe-{os.getpid()}-{time.monotonic_ns()}")
    try:
        group.place.mkdir()
        entered = subprocess.run(
            group.wrap(["/bin/cat", "/proc/self/cgroup"]), capture_output=True, timeout=PROBE_SECONDS, check=False
        )
        holds = (group.place / "cgroup.kill").exists() and group.place.name in entered.stdout.decode()
    except (OSError, subprocess.TimeoutExpired):
        return None
    finally:
        group.end()
    return own if holds else None


@cache
def _mount() -> Path | None:
    """Where cgroup v2 is mounted, alone or alongside v1."""
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            fields, _, rest = line.partition(" - ")
            if rest.startswith("cgroup2 "):
                return Path(fields.split()[4])
    return None


def _own(mount: Path) -> Path:
    """The group of this process."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::/"):
                return mount / line.removeprefix("0::/")
    return mount


def _sweep(base: Path) -> None:
    """Remove the groups of calls whose last process has ended."""
    before = time.time() - STALE_SECONDS
    for place in base.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if place.stat().st_mtime < before:
                place.rmdir()

"""A control group per command, where this process may make one: whatever a command starts stays in it.

Invariants: a process leaves its group neither by a new session nor by another environment, so that ending the
group ends everything a call started. Where no group can be made, calls run without, and are found by their mark alone.
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
# An empty group this old is of a call that ended, or never began; on a busy machine a shell takes seconds to enter.
STALE_SECONDS = 600.0
PATIENCE = 5.0
LOOK_AGAIN_MS = 20
# A plain command of a program that starts no other, or only where it is told to: nothing of it could stay.
_ALONE = (
    r"(?:(?:true|false|echo|printf|pwd|cd|ls|tree|cat|head|tail|wc|stat|file|date|uname|whoami|id|which|test|\[|grep|cut|tr"
    r"|uniq|nl|tac|comm|tee|jq|basename|dirname|realpath|readlink|du|df|sha256sum|md5sum|diff|cmp|mkdir|touch|cp|mv|rm|sleep)"
    r"|sed -n [\"']?\d+(?:,\d+)?p[\"']?(?!\S| .*-)"
    r"|(?:find|rg|sort)(?! .*(?:-exec|-ok|--pre|--host|--co|\S[\"']\S|\{)))"
    r"(?: (?>[12]?>&[12]|[^&;|$`()\n\\])*+)?"
)
# The shell moves itself, before there is anything else in it, and then becomes the command.
JOIN = '{ echo 0 >"$0"; } 2>/dev/null; exec "$@"'


class Group(Struct, frozen=True):
    place: Path

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """The same command, started inside."""
        return ["/bin/sh", "-c", JOIN, str(self.place / "cgroup.procs"), *argv]

    def end(self) -> int:
        """Kill everything inside and wait until it is dead; give how many there were."""
        found = 0
        with suppress(OSError):
            found = len((self.place / "cgroup.procs").read_text(encoding="ascii").split())
            (self.place / "cgroup.kill").write_text("1", encoding="ascii")
            self._wait_empty()
        self.leave()
        return found

    def _wait_empty(self) -> None:
        """Bounded, because a process stuck inside the kernel does not even heed this."""
        with (self.place / "cgroup.events").open(encoding="ascii") as events:
            news = select.poll()
            news.register(events, select.POLLPRI)
            until = time.monotonic() + PATIENCE
            while "populated 1" in events.read() and time.monotonic() < until:
                news.poll(LOOK_AGAIN_MS)  # what changes between the look and the wait is not told
                events.seek(0)

    def leave(self) -> None:
        """Take it away; one that still has processes stays for them."""
        with suppress(OSError):
            self.place.rmdir()


def may_outlive(command: str) -> bool:
    """Whether a command could leave a process behind; to enter a group takes the kernel some ten milliseconds.

    What is quoted is read as if it were not, which finds more commands than there are, never fewer.
    """
    return not all(re.fullmatch(_ALONE, part.strip(" ")) for part in re.split(r"&&|\|\||[;|]", command))


def make(nonce: str) -> Group | None:
    """A group for a call; None where there can be none."""
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
    """The group of a call, also of one that another process of this program started."""
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
    """Where groups can be made, after trying it: a process must be able to enter one, and be killed in it."""
    mount = _mount()
    if mount is None:
        return None
    own = _own(mount)
    group = Group(own / f"{PREFIX}probe-{os.getpid()}")
    try:
        group.place.mkdir()
        entered = subprocess.run(
            group.wrap(["/bin/cat", "/proc/self/cgroup"]), capture_output=True, timeout=10, check=False
        )
        holds = (group.place / "cgroup.kill").exists() and group.place.name in entered.stdout.decode()
    except (OSError, subprocess.TimeoutExpired):
        return None
    finally:
        group.leave()
    return own if holds else None


@cache
def _mount() -> Path | None:
    """Where the second version of control groups is mounted, alone or beside the first."""
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
    """Take away the groups of calls whose last process has ended since."""
    before = time.time() - STALE_SECONDS
    for place in base.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if place.stat().st_mtime < before:
                place.rmdir()

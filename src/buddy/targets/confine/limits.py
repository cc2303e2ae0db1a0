"""How many processes and how much memory a confined command may have: by control group, else by resource limits.

Invariants: a command enters its groups before anything of it runs, or is not started; where no group can be made, the
limits that remain are said by `describe_limits`.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

PREFIX = "buddy-confined-"
MAX_PROCESSES = 4096
STALE_SECONDS = 600.0
# Of the machine's memory, for a command with all its processes, and for what it writes to each private directory.
MEMORY_SHARE, FILES_SHARE = 0.75, 0.125
MAX_FILES_BYTES = 4 * 1024**3
JOIN = 'while [ "$1" != -- ]; do echo 0 >"$1" || exit 126; shift; done; shift; exec "$@"'
# How long the last process of a command may take to leave its groups.
LEAVE_TRIES, LEAVE_SECONDS = 20, 0.005


class Hierarchy(Struct, frozen=True):
    """A directory in which groups can be made, and the limits that each gets by the name of their files."""

    place: str
    limits: dict[str, int]


def make_groups(nonce: str) -> list[str]:
    """Groups for one command; none where none can be made."""
    return [group for hierarchy in hierarchies() if (group := _make(hierarchy, nonce))]


def join_groups(groups: Sequence[str], argv: Sequence[str]) -> list[str]:
    """The same command line, which enters the groups first."""
    files = [f"{group}/cgroup.procs" for group in groups]
    return ["/bin/sh", "-c", JOIN, "sh", *files, "--", *argv] if files else list(argv)


def remove_groups(groups: Sequence[str]) -> None:
    """Waits a moment for the last process to leave."""
    for group in groups:
        _remove(group)


def remove_empty_groups(groups: Sequence[str]) -> list[str]:
    """Remove those that have no processes, without waiting; returns the others."""
    left: list[str] = []
    for group in groups:
        try:
            os.rmdir(group)  # noqa: PTH106 - plain text
        except FileNotFoundError:
            continue
        except OSError:
            left.append(group)
    return left


def memory_bytes() -> int:
    return int(_total_memory() * MEMORY_SHARE)


def files_bytes() -> int:
    """The size of each private directory, which is kept in memory."""
    return min(int(_total_memory() * FILES_SHARE), MAX_FILES_BYTES)


def resource_limits() -> tuple[int, int]:
    """Processes and memory to be limited for each process, 0 for what a group limits."""
    held = {name for hierarchy in hierarchies() for name in hierarchy.limits}
    has_memory = bool(held & {"memory.max", "memory.limit_in_bytes"})
    return 0 if "pids.max" in held else MAX_PROCESSES, 0 if has_memory else memory_bytes()


def describe_limits() -> str:
    processes, memory = resource_limits()
    size = f"{memory_bytes() / 1024**3:.1f} GiB"
    if processes and os.geteuid() == 0:
        count = "any number of processes (root is limited by control groups alone, and none can be made)"
    else:
        count = f"at most {MAX_PROCESSES} processes"
    return f"{count}, {size} of memory{' for each of them' if memory else ''}"


@cache
def hierarchies() -> tuple[Hierarchy, ...]:
    """Those in which a group with a limit could be made just now."""
    found = (_with_limits(place) for place in own_groups())
    return tuple(hierarchy for hierarchy in found if hierarchy is not None)


def own_groups() -> list[str]:
    """The group of this process in each hierarchy that has the controllers: one of version 2, several of version 1."""
    mounts: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            fields, _, rest = line.partition(" - ")
            kind, _, options = rest.split(" ", 2)
            if kind == "cgroup2":
                mounts[""] = fields.split()[4]
            elif kind == "cgroup":
                mounts.update(
                    dict.fromkeys({"pids", "memory"} & set(options.split()[-1].split(",")), fields.split()[4])
                )
        own = dict[str, str]()
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            own.update(dict.fromkeys(names.split(","), path.rstrip("/")))
        return list(dict.fromkeys(f"{mount}{own.get(name, '')}" for name, mount in mounts.items()))
    return []


def _with_limits(place: str) -> Hierarchy | None:
    wanted = {"pids.max": MAX_PROCESSES, "memory.max": memory_bytes(), "memory.limit_in_bytes": memory_bytes()}
    group = f"{place}/{PREFIX}probe-{os.getpid()}"
    limits: dict[str, int] = {}
    with suppress(OSError):
        os.mkdir(group)  # noqa: PTH102 - plain text
        try:
            for name, value in wanted.items():
                with suppress(OSError):
                    _write(f"{group}/{name}", value)
                    limits[name] = value
        finally:
            _remove(group)
    return Hierarchy(place, limits) if limits else None


def _make(hierarchy: Hierarchy, nonce: str) -> str | None:
    _sweep(hierarchy.place)
    group = f"{hierarchy.place}/{PREFIX}{nonce}"
    try:
        os.mkdir(group)  # noqa: PTH102 - plain text
        for name, value in hierarchy.limits.items():
            _write(f"{group}/{name}", value)
    except OSError:
        _remove(group)
        return None
    return group


def _write(path: str, value: int) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CLOEXEC)  # never created: a missing controller has no such file
    try:
        os.write(opened, str(value).encode())
    finally:
        os.close(opened)


def _remove(group: str) -> None:
    for _ in range(LEAVE_TRIES):
        try:
            os.rmdir(group)  # noqa: PTH106 - plain text
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(LEAVE_SECONDS)


def _sweep(place: str) -> None:
    """Remove the groups of processes that were killed."""
    before = time.time() - STALE_SECONDS
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.stat().st_mtime < before:
                with suppress(OSError):
                    os.rmdir(entry.path)  # noqa: PTH106 - plain text


@cache
def _total_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

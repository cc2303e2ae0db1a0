"""What the state directory takes, and what may be removed of it by age and by a cap.

Invariants: only sessions without an active run are removed, those that were not used for longest first; a session and
its sub-agents are removed together or not at all; nothing is removed unless somebody asked for it, by a command or in
`[storage]`.
"""

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from buddy.checkpoints.checkpoints import FOLDER as CHECKPOINTS
from buddy.config.settings import StorageSettings
from buddy.daemon.runtime import Runtime
from buddy.errors import BuddyError
from buddy.log.usage import DATABASE, SessionUsage, free_bytes, read_sessions, upload_bytes

MIB = 1024 * 1024
DAY_MS = 24 * 3600 * 1000
LOOK_SECONDS = 24 * 3600.0
LARGE = 5 * 1024 * MIB
"""From this size on, `buddy doctor` mentions it."""

log = logging.getLogger("buddy.daemon")


class StorageUsage(Struct, frozen=True, rename="camel"):
    """In bytes, as the files are. `free` is the part of `sessions` that new events will use; `uploads` is the part of
    `blobs` that no message names, which is removed after a day."""

    sessions: int
    blobs: int
    checkpoints: int
    memory: int
    logs: int
    other: int
    free: int = 0
    uploads: int = 0

    @property
    def total(self) -> int:
        return self.sessions + self.blobs + self.checkpoints + self.memory + self.logs + self.other


class Removal(Struct, frozen=True):
    """What to remove: sessions that were not used since, in Unix milliseconds, and more until they take no more."""

    before: int | None = None
    max_size: int | None = None


Family: TypeAlias = list[SessionUsage]
"""A session and its sub-agents, each after the one that started it."""


class Plan(Struct, frozen=True):
    """What to remove, what was not used for longest first, and the bytes that removing all of it frees."""

    families: list[Family]
    freed: int

    @property
    def sessions(self) -> list[SessionUsage]:
        return [one for family in self.families for one in family]


def measure(state_dir: Path) -> StorageUsage:
    """The size of each part; files that vanish meanwhile do not count."""
    sizes: Counter[str] = Counter()
    for folder, _, names in os.walk(state_dir):
        inside = Path(folder).relative_to(state_dir).parts
        for name in names:
            try:
                sizes[_part_of((*inside, name))] += (Path(folder) / name).lstat().st_size
            except OSError:
                continue
    return StorageUsage(
        sizes["sessions"],
        sizes["blobs"],
        sizes["checkpoints"],
        sizes["memory"],
        sizes["logs"],
        sizes["other"],
        free_bytes(state_dir),
        upload_bytes(state_dir),
    )


def _part_of(path: Sequence[str]) -> str:
    first, is_file = path[0], len(path) == 1
    if is_file:
        return "sessions" if first.startswith(DATABASE) else "memory" if first.startswith("memory.db") else "other"
    return {"blobs": "blobs", CHECKPOINTS: "checkpoints", "logs": "logs"}.get(first, "other")


def choose(sessions: Sequence[SessionUsage], removal: Removal) -> Plan:
    """Only what sessions take counts: removing them frees nothing else."""
    names = Counter(blob for one in sessions for blob in one.blobs)
    chosen: list[Family] = []
    used = total = _size_of(sessions)
    for family in sorted(_families_of(sessions), key=_last_used):
        is_old = removal.before is not None and _last_used(family) < removal.before
        is_over = removal.max_size is not None and used > removal.max_size
        if (is_old or is_over) and not any(one.is_active for one in family):
            chosen.append(family)
            used -= _release(family, names)
    return Plan(chosen, total - used)


def _families_of(sessions: Sequence[SessionUsage]) -> list[Family]:
    known = {one.session_id for one in sessions}
    started: dict[str | None, Family] = {}
    for one in sessions:
        started.setdefault(one.parent if one.parent in known else None, []).append(one)

    def family_of(session: SessionUsage) -> Family:
        below = [family_of(child) for child in started.get(session.session_id, ())]
        return [session, *(one for family in below for one in family)]

    return [family_of(session) for session in started.get(None, ())]


def _last_used(family: Family) -> int:
    return max(one.updated_at for one in family)


def _size_of(sessions: Sequence[SessionUsage]) -> int:
    """What they take together: a blob is stored once, however many name it."""
    blobs = {blob: size for one in sessions for blob, size in one.blobs.items()}
    return sum(one.log for one in sessions) + sum(blobs.values())


def _release(family: Family, names: Counter[str]) -> int:
    """What removing it frees: its events, and the blobs that nobody else names. `names` counts who names one."""
    freed = 0
    for one in family:
        names.subtract(one.blobs.keys())
        freed += one.log + sum(size for blob, size in one.blobs.items() if not names[blob])
    return freed


def removal_of(settings: StorageSettings, now: int) -> Removal | None:
    """What the configuration asks for; None if it asks for nothing."""
    if not settings.keep_days and not settings.max_total_mb:
        return None
    before = now - settings.keep_days * DAY_MS if settings.keep_days else None
    return Removal(before, settings.max_total_mb * MIB if settings.max_total_mb else None)


def plan(state_dir: Path, removal: Removal) -> Plan:
    return choose(read_sessions(state_dir), removal)


async def prune_daily(runtime: Runtime, state_dir: Path) -> None:
    """At the start and then once a day, remove images that no message names, and what the configuration asks for."""
    while True:
        try:
            await runtime.log.sweep_blobs()
        except BuddyError as error:
            log.warning("images that no message names are not removed: %s", error)
        removal = removal_of(runtime.configuration.current.storage, int(time.time() * 1000))
        if removal is not None and runtime.shared_log is None:
            try:
                await _prune(runtime, (await asyncio.to_thread(plan, state_dir, removal)).families)
            except BuddyError as error:
                log.warning("old sessions are not removed: %s", error)
        await asyncio.sleep(LOOK_SECONDS)


async def _prune(runtime: Runtime, families: Sequence[Family]) -> None:
    for family in families:
        open_ones = [runtime.sessions.live(one.session_id) for one in family]
        if any(live is not None and live.audience for live in open_ones):
            continue  # somebody is looking at it
        try:
            for session in reversed(family):
                await _remove(runtime, session)
        except BuddyError as error:
            log.info("%s is not removed: %s", family[0].session_id, error)


async def _remove(runtime: Runtime, session: SessionUsage) -> None:
    if await runtime.sessions.delete(session.session_id):
        await runtime.forget(session.session_id)
        log.info("removed %s, last used %d, %d bytes", session.session_id, session.updated_at, session.size)

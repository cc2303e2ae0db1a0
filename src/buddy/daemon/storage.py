"""What the state directory takes, and what may be removed of it by age and by a cap.

Invariants: only sessions without an active run are removed, those that were not used for longest first; nothing is
removed unless somebody asked for it, by a command or in `[storage]`.
"""

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

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


class Plan(Struct, frozen=True):
    """The sessions to remove, those that were not used for longest first, and the bytes that frees."""

    sessions: list[SessionUsage]
    freed: int


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
    chosen: list[SessionUsage] = []
    used = total = _size_of(sessions)
    for session in sorted(sessions, key=lambda one: one.updated_at):
        is_old = removal.before is not None and session.updated_at < removal.before
        is_over = removal.max_size is not None and used > removal.max_size
        if not session.is_active and (is_old or is_over):
            chosen.append(session)
            used -= _release(session, names)
    return Plan(chosen, total - used)


def _size_of(sessions: Sequence[SessionUsage]) -> int:
    """What they take together: a blob is stored once, however many name it."""
    blobs = {blob: size for one in sessions for blob, size in one.blobs.items()}
    return sum(one.log for one in sessions) + sum(blobs.values())


def _release(session: SessionUsage, names: Counter[str]) -> int:
    """What removing it frees: its events, and the blobs that none of the others names. `names` counts who names one."""
    names.subtract(session.blobs.keys())
    return session.log + sum(size for blob, size in session.blobs.items() if not names[blob])


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
                await _prune(runtime, (await asyncio.to_thread(plan, state_dir, removal)).sessions)
            except BuddyError as error:
                log.warning("old sessions are not removed: %s", error)
        await asyncio.sleep(LOOK_SECONDS)


async def _prune(runtime: Runtime, chosen: Sequence[SessionUsage]) -> None:
    for session in chosen:
        live = runtime.sessions.live(session.session_id)
        if live is not None and live.audience:
            continue  # somebody is looking at it
        try:
            if await runtime.sessions.delete(session.session_id):
                await runtime.forget(session.session_id)
                log.info("removed %s, last used %d, %d bytes", session.session_id, session.updated_at, session.size)
        except BuddyError as error:
            log.info("%s is not removed: %s", session.session_id, error)

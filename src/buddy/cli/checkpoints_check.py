"""The line of `buddy doctor` about the checkpoints of files: how much room they take."""

import sqlite3
from pathlib import Path

from buddy.checkpoints.checkpoints import FOLDER
from buddy.checkpoints.database import FILE, NewerStore, check_version
from buddy.checkpoints.limits import MIB
from buddy.checkpoints.pins import own_size
from buddy.cli.doctor_check import Check
from buddy.config.settings import CheckpointSettings


def check_checkpoints(state_dir: Path, settings: CheckpointSettings) -> Check:
    folder = state_dir / FOLDER
    if not settings.enabled:
        return Check("checkpoints", "info", "off: what a run does to files cannot be undone")
    limit = f"of at most {settings.max_total_mb} MiB, kept for {settings.keep_days:g} days"
    if not (folder / FILE).exists():
        return Check("checkpoints", "ok", f"0 MiB {limit}")
    try:
        count, size = _count(folder / FILE)
        used = -(-(size + own_size(folder)) // MIB)
    except NewerStore as error:
        return Check("checkpoints", "warn", f"{folder}: {error}; this version cannot undo anything", "upgrade Buddy")
    except (sqlite3.Error, OSError) as error:
        damaged = getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        hint = "what it could restore is lost; new checkpoints go to a new one" if damaged else "check the disk"
        return Check("checkpoints", "warn", f"{folder} cannot be read: {error}", hint)
    return Check("checkpoints", "ok", f"{used} MiB {limit}; {count} checkpoints in {folder}")


def _count(path: Path) -> tuple[int, int]:
    """How many checkpoints there are, and the size of what they keep; nothing is changed."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)
    try:
        [version] = db.execute("PRAGMA user_version").fetchone()
        check_version(version)
        [count] = db.execute("SELECT count(*) FROM checkpoints").fetchone()
        [size] = db.execute("SELECT coalesce(sum(size), 0) FROM contents").fetchone()
    finally:
        db.close()
    return count, size

"""`buddy storage`: what sessions, blobs and checkpoints take on the disk, and removing old sessions.

Invariant: a session is removed as by `buddy session delete`, by the process that has it open, be it the daemon or not.
"""

import json
import math
import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path

import apsw
from msgspec import to_builtins

from buddy.cli.connect import blocking_client
from buddy.cli.daemon import is_free
from buddy.cli.options import Options
from buddy.cli.settings import places_of, read_config
from buddy.daemon.opening import log_url_of
from buddy.daemon.storage import Family, Removal, StorageUsage, measure, plan
from buddy.errors import ProtocolError, UserError
from buddy.log.database import connect
from buddy.log.room import DiskSpace
from buddy.log.state_use import DAEMON_LOCK, StateUse, check_restored
from buddy.log.usage import DATABASE, SessionUsage, read_sessions, remove_blobs_of
from buddy.protocol.durations import parse_duration
from buddy.terminal.escape import escape, one_line
from buddy.terminal.phrases import plural

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
ROOM = 64 * 1024 * 1024
"""What deleting a session may need on the disk until it is done."""
LITTLE = 1024 * 1024
"""With less, opening the log may fail."""
PARTS = ("sessions", "blobs", "checkpoints", "memory", "logs", "other")


def storage(options: Options) -> int:
    refuse_shared_log(options)
    state_dir = places_of(options).state_dir
    check_state_dir(state_dir)
    check_restored(state_dir)
    return _prune(options) if options.action == "prune" else _show(options)


def refuse_shared_log(options: Options) -> None:
    """These commands are about files; a shared log is PostgreSQL's."""
    if log_url_of(read_config(options), os.environ, options.log) is not None:
        raise UserError(
            "the log is shared, in PostgreSQL: its size and its backup are the database's",
            hint="use pg_dump or your database's own tools, or: buddy session export --all",
        )


def check_state_dir(state_dir: Path) -> None:
    """UserError unless it is a readable directory; a missing one counts as empty, as before first use."""
    try:
        os.scandir(state_dir).close()
    except FileNotFoundError:
        print(f"{escape(str(state_dir))} does not exist yet", file=sys.stderr)
    except OSError as error:
        raise UserError(f"{state_dir}: {error.strerror}", hint="choose another --state-dir") from error


def format_size(size: int) -> str:
    """`812 B`, `4.2 MiB`."""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def parse_size(text: str) -> int:
    """A size in bytes. Like an age, it needs a unit: taken as bytes, a number of gigabytes removes everything."""
    text = text.strip()
    found = _SIZE.fullmatch(text)
    size = float(found[1]) * _UNITS[(found[2] or "").upper()] if found else math.inf
    if not math.isfinite(size):
        raise UserError(f"--max-size: {text!r} is not a size", hint="such as 500MB or 5GB")
    if size and text[-1].isdigit():
        raise UserError(
            f"--max-size: {text!r} has no unit", hint=f"{text}GB for gigabytes; the units are B, KB, MB, GB and TB"
        )
    return int(size)


def _show(options: Options) -> int:
    state_dir = places_of(options).state_dir
    used, sessions = measure(state_dir), read_sessions(state_dir)
    largest = sorted(sessions, key=lambda one: one.size, reverse=True)[: max(options.limit, 0)]
    if options.json:
        parts = {**to_builtins(used), "total": used.total}
        print(
            json.dumps(
                {"stateDir": str(state_dir), **parts, "count": len(sessions), "largest": list(map(_plain, largest))}
            )
        )
        return 0
    print(f"{escape(str(state_dir))}: {format_size(used.total)}")
    for part in PARTS:
        print(f"  {part:<12}{format_size(getattr(used, part)):>11}{_note(part, used, len(sessions))}")
    if largest:
        print("largest sessions:")
    for one in largest:
        print(_line(one))
    return 0


def _note(part: str, used: StorageUsage, count: int) -> str:
    if part == "blobs" and used.uploads:
        return f"  {format_size(used.uploads)} of it in no message, removed after a day"
    if part != "sessions":
        return ""
    free = f", {format_size(used.free)} of it free" if used.free else ""
    return f"  {plural(count, 'session')}{free}"


def _line(one: SessionUsage) -> str:
    day = time.strftime("%Y-%m-%d", time.localtime(one.updated_at / 1000))
    title = one_line(one.title, 40)
    return f"  {format_size(one.size):>11}  {day}  {one.session_id}  {escape(title)}".rstrip()


def _plain(one: SessionUsage) -> dict[str, object]:
    return {
        "sessionId": one.session_id,
        "title": one.title,
        "state": one.state,
        "updatedAt": one.updated_at,
        "events": one.events,
        "size": one.size,
    }


def _prune(options: Options) -> int:
    removal = _removal(options)
    if not options.dry_run and not options.yes and not (sys.stdin.isatty() and not options.json):
        raise UserError(
            "prune needs --yes or --dry-run here: nobody can be asked", hint="add --dry-run to see what it would remove"
        )
    state_dir = places_of(options).state_dir
    before = measure(state_dir)
    planned = plan(state_dir, removal)
    chosen, size, is_full = planned.sessions, planned.freed, False
    if not options.json:
        for one in chosen:
            print(_line(one))
    if not options.dry_run:
        is_wanted = chosen and (options.yes or _confirm(len(chosen), size))
        # One that was used while the question was open stays.
        families = _unchanged(state_dir, planned.families, removal) if is_wanted else []
        chosen, is_full = _remove(options, families, removal) if families else ([], False)
    freed = size if options.dry_run else max(0, before.total - measure(state_dir).total)
    if options.json:
        shown = {"dryRun": options.dry_run, "removed": list(map(_plain, chosen)), "freed": freed}
        print(json.dumps(shown))
    elif options.dry_run:
        print(f"{plural(len(chosen), 'session')} would be removed, {format_size(freed)}", file=sys.stderr)
    else:
        print(f"removed {plural(len(chosen), 'session')}; {format_size(freed)} less on the disk", file=sys.stderr)
    if is_full:
        raise _disk_full(state_dir)
    return 0


def _removal(options: Options) -> Removal:
    if options.older_than is None and options.max_size is None:
        raise UserError(
            "say what to remove: --older-than DURATION, --max-size SIZE, or both",
            hint="buddy storage prune --older-than 90d --dry-run",
        )
    before = None if options.older_than is None else int((time.time() - _parse_age(options.older_than)) * 1000)
    return Removal(before, None if options.max_size is None else parse_size(options.max_size))


def _parse_age(text: str) -> float:
    """An age in seconds. Unlike elsewhere, it needs a unit: taken as seconds, a number of days removes everything."""
    seconds = parse_duration(text)
    if seconds is None:
        raise UserError(f"--older-than: {text!r} is not a duration", hint="such as 12h or 90d")
    if text.strip()[-1].isdigit():
        hint = f"{text.strip()}d for days; the units are s, m, h and d"
        raise UserError(f"--older-than: {text!r} has no unit", hint=hint)
    return seconds


def _confirm(count: int, size: int) -> bool:
    print(
        f"Remove {plural(count, 'session')} ({format_size(size)}) for good? [y/N] ", end="", file=sys.stderr, flush=True
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _unchanged(state_dir: Path, planned: list[Family], removal: Removal) -> list[Family]:
    """Without those that were used since they were shown."""
    now = plan(state_dir, removal).families
    return [family for family in planned if family in now]


def _remove(options: Options, families: list[Family], removal: Removal) -> tuple[list[SessionUsage], bool]:
    """What was removed, and whether the disk is too full for the rest."""
    state_dir = places_of(options).state_dir
    _make_room(state_dir, families, removal)
    removed: list[SessionUsage] = []
    while True:
        try:
            gone, is_full = _delete(options, families)
        except UserError as error:
            if DiskSpace(state_dir, LITTLE).is_enough():
                raise
            raise _disk_full(state_dir) from error
        _shrink(state_dir)
        removed += [one for family in gone for one in family]
        families = [family for family in families if family not in gone]
        if not is_full or not gone:  # otherwise there is more room now
            return removed, is_full


def _make_room(state_dir: Path, families: list[Family], removal: Removal) -> None:
    """A deletion is written to the log first, for which a full disk has no room. Blobs are files: they go before it, if
    nobody else uses the log."""
    if DiskSpace(state_dir, ROOM).is_enough():
        return
    use = StateUse(state_dir, wait=0)
    try:
        with suppress(UserError), use.alone():
            chosen = [one.session_id for family in _unchanged(state_dir, families, removal) for one in family]
            remove_blobs_of(state_dir, chosen)
    finally:
        use.end()


def _delete(options: Options, families: list[Family]) -> tuple[list[Family], bool]:
    """What was deleted, and whether the disk was too full for one of the others."""
    deleted: list[Family] = []
    is_full = False
    with blocking_client(options, "cli") as client:
        for family in families:
            try:
                client.ask("delete_session", {}, family[0].session_id)  # with its sub-agents
            except ProtocolError as error:
                if error.code == "STORAGE_FULL":
                    is_full = True
                else:
                    print(f"{family[0].session_id} is kept: {escape(error.message)}", file=sys.stderr)
            else:
                deleted.append(family)
    return deleted, is_full


def _disk_full(state_dir: Path) -> UserError:
    if is_free(state_dir / DAEMON_LOCK):
        hint = f"free a few MiB (for example {state_dir / 'memory.db'}*, which is rebuilt), then try again"
    else:
        hint = "run 'buddy daemon stop' and try again: without a daemon, blobs can be removed first"
    return UserError(f"the disk of {state_dir} is too full to delete more sessions", hint=hint, exit_code=75)


def _shrink(state_dir: Path) -> None:
    """Give free pages back to the disk, if no daemon would have to wait for that; new events use them otherwise."""
    if not is_free(state_dir / DAEMON_LOCK):
        return
    with suppress(apsw.BusyError, apsw.FullError, apsw.IOError):  # a full disk has no room for the copy
        db = connect(state_dir / DATABASE, apsw.SQLITE_OPEN_READWRITE)
        try:
            db.execute("VACUUM")
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            db.close()

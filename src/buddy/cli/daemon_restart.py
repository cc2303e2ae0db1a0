"""`buddy daemon restart`: the daemon is replaced by the Buddy that is installed now, and its runs continue.

Invariant: the daemon keeps its process, flags and environment, unless it runs from another installation; then it ends,
and this command starts the next one.
"""

import asyncio
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from buddy.cli.connect import daemon_client, find_daemon
from buddy.cli.daemon import START_SECONDS, ask_status, is_free, launch, pid_of
from buddy.cli.options import Options
from buddy.cli.settings import places_of, read_config
from buddy.daemon.instance_lock import was_left
from buddy.errors import BuddyError, ProtocolError, UserError
from buddy.log.schema import needs_migration
from buddy.log.state_use import find_users
from buddy.log.usage import DATABASE
from buddy.protocol.daemon_requests import MAX_HAND_OVER_SECONDS, RestartDaemon
from buddy.protocol.durations import parse_duration
from buddy.protocol.requests import AcceptedReply, DaemonStatusReply
from buddy.terminal.escape import escape
from buddy.terminal.phrases import plural

LOOK_SECONDS = 0.05


def restart(options: Options) -> int:
    seconds = parse_duration(options.wait)
    if seconds is None:
        raise UserError(f"--wait: {options.wait!r} is not a duration", hint="such as 30s, 5m or 1h")
    if seconds > MAX_HAND_OVER_SECONDS:
        raise UserError(f"--wait: {options.wait} is too long", hint="at most 1h: no session starts a command meanwhile")
    read_config(options)  # a daemon that cannot start again must not stop
    before = asyncio.run(ask_status(options))
    if before is None:
        launch(options)
        print("no daemon was running; started one", file=sys.stderr)
        return 0
    state_dir = places_of(options).state_dir
    pid = pid_of(state_dir / "daemon.lock")
    check_migration(state_dir, pid)
    is_ours = pid is not None and _program_of(pid).parent == Path(sys.executable).parent
    if before.runs:
        print(f"handing over {plural(before.runs, 'active run')}…", file=sys.stderr)
    asked_at = time.monotonic()
    with suppress(ConnectionError):  # it may be gone before its reply is read
        asyncio.run(_ask(options, before, RestartDaemon(seconds, stop=not is_ours)))
    after = _wait_for_next(options, asked_at, seconds, pid if is_ours else None)
    changed = f", version {escape(after.version)}" + (
        f" (was {escape(before.version)})" if after.version != before.version else ""
    )
    print(f"daemon restarted{changed}", file=sys.stderr)
    return 0


def check_migration(state_dir: Path, daemon: int | None) -> None:
    """Refuse before the daemon stops: its successor would have to wait for others to migrate the log."""
    others = [pid for pid in find_users(state_dir) if pid != daemon]
    if others and needs_migration(state_dir / DATABASE):
        raise UserError(
            f"the new Buddy changes the tables of the log, which process {', '.join(map(str, others))} uses, too",
            hint="wait until it has ended, and try again; the daemon was not stopped",
            exit_code=75,
        )


async def _ask(options: Options, before: DaemonStatusReply, request: RestartDaemon) -> None:
    link = await find_daemon(options)
    if link is None:
        return
    async with daemon_client(link, options, "cli") as client:
        try:
            with suppress(ConnectionResetError):  # it may be gone before its answer is read; what follows tells
                await client.request(request, AcceptedReply)
        except ProtocolError as error:
            if error.code != "UNSUPPORTED_REQUEST_TYPE":
                raise
            raise UserError(
                f"the running daemon (version {before.version}) can't hand over its runs",
                hint="wait until they are complete; then: buddy daemon stop && buddy daemon start",
                exit_code=1,
            ) from error


def _wait_for_next(options: Options, asked_at: float, seconds: float, pid: int | None) -> DaemonStatusReply:
    lock = places_of(options).state_dir / "daemon.lock"
    deadline = time.monotonic() + seconds + 2 * START_SECONDS
    while time.monotonic() < deadline:
        if is_free(lock) and was_left(lock):
            raise UserError("the daemon was stopped meanwhile", hint="buddy daemon start", exit_code=75)
        if is_free(lock) and not (pid and _is_there(pid)):
            launch(options)  # it has ended, as it was asked to, or because it could not start again
        status = None
        with suppress(BuddyError, OSError):  # it ends while it is asked
            status = asyncio.run(ask_status(options))
        if status is not None and status.uptime < time.monotonic() - asked_at:
            return status
        time.sleep(LOOK_SECONDS)
    raise UserError("the daemon is still handing over", hint="buddy daemon logs", exit_code=75)


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _program_of(pid: int) -> Path:
    """What a process was started with."""
    try:
        return Path(os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]))
    except OSError:
        return Path()

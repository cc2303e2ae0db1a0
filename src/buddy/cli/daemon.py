"""`buddy daemon run|start|restart|stop|status|logs|install`: the long-lived runtime that all clients share."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable
from pathlib import Path

from buddy.cli.connect import daemon_client, find_daemon
from buddy.cli.options import Options
from buddy.cli.settings import config_finder, places_of, preload_certificates, read_config
from buddy.errors import UserError
from buddy.protocol.amounts import format_usd
from buddy.protocol.daemon_requests import RestartDaemon
from buddy.protocol.requests import AcceptedReply, DaemonStatus, DaemonStatusReply, Shutdown
from buddy.terminal.escape import escape
from buddy.terminal.phrases import plural

START_SECONDS = 15.0
MAX_LOG_LINES = 1_000_000_000
NOT_RUNNING = 1
USAGE = 64
TAKEN = 75


def daemon(options: Options) -> int:
    match options.action:
        case "run":
            return run(options)
        case "start":
            return start(options)
        case "stop":
            return asyncio.run(_stop(options))
        case "status":
            return asyncio.run(_status(options))
        case "install":
            from buddy.cli.service import install

            lock = places_of(options).state_dir / "daemon.lock"
            return install(options, _forwarded_flags(options), is_running=not is_free(lock))
        case _:
            return logs(options)


def run(options: Options) -> int:
    """Run in the foreground until a signal or a shutdown request."""
    _no_core_dumps()
    config = read_config(options)
    _name_dead_rules(options)
    preload_certificates(config)
    from buddy.daemon.listen import parse_listen
    from buddy.daemon.server import serve

    listen = None
    if options.listen:
        listen = parse_listen(
            options.listen, certificate=options.tls_cert, key=options.tls_key, allow_remote=options.allow_remote
        )
    places, find = places_of(options), config_finder(options)
    echo = sys.stderr.isatty()
    serving = serve(config, places, dict(os.environ), log_url=options.log, find_config=find, listen=listen, echo=echo)
    asyncio.run(_serve_again(serving))
    return 0


async def _serve_again(serving: Awaitable[RestartDaemon | None]) -> None:
    """Become the next daemon once this one has handed over: the same process, with the program that is installed now.

    Inside the event loop: its end would stop what still runs in terminals.
    """
    request = await serving
    if request is None:
        return
    if request.stop:
        os._exit(0)
    else:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this program again


def start(options: Options) -> int:
    """Start in the background; returns once it answers."""
    started = launch(options)
    _name_dead_rules(options)
    print(f"daemon {'started' if started else 'is already running'} on {places_of(options).socket}", file=sys.stderr)
    if options.listen:
        status = asyncio.run(ask_status(options))
        for line in _web_lines(status):
            print(line, file=sys.stderr)
        if status is not None and status.listen is None:
            print("it does not listen for WebSockets: buddy daemon stop, then start it again", file=sys.stderr)
    return 0


async def ask_status(options: Options) -> DaemonStatusReply | None:
    link = await find_daemon(options)
    if link is None:
        return None
    async with daemon_client(link, options, "cli") as client:
        return await client.request(DaemonStatus(), DaemonStatusReply)


def _web_lines(status: DaemonStatusReply | None) -> list[str]:
    if status is None or status.listen is None:
        return []
    return [f"WebSocket {status.listen}", f"token in {escape(status.token_file or '')}"]


def _name_dead_rules(options: Options) -> None:
    """Warn about rules that somebody may rely on, although they allow nothing."""
    from buddy.approvals.rulebook import RuleBook

    for warning in RuleBook(read_config(options), places_of(options)).dead_rules():
        more = f" ({warning.detail})" if warning.detail else ""
        print(f"warning: {escape(warning.message)}{more}", file=sys.stderr)


def launch(options: Options) -> bool:
    """Start the daemon if it is not running, and wait until it answers; False if it was already running."""
    if asyncio.run(_is_running(options)):
        return False
    from buddy.daemon.instance_lock import safe_directory

    read_config(options)  # report errors in it here rather than in a log
    output, lock = places_of(options).state_dir / "logs" / "daemon.out", places_of(options).state_dir / "daemon.lock"
    safe_directory(places_of(options).state_dir)
    safe_directory(output.parent)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "buddy", "daemon", "run", *_forwarded_flags(options)],
        stdin=subprocess.DEVNULL,
        stdout=descriptor,
        stderr=descriptor,
        start_new_session=True,
        cwd="/",
        # Panes belong to the default tmux server, whatever terminal the daemon was started from.
        env={
            **{name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")},
            **({"BUDDY_LOG": options.log} if options.log else {}),  # not as a flag: other users can read those
        },
    )
    os.close(descriptor)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if asyncio.run(_is_running(options)):
            is_ours = child.poll() is None
            # A client that outlives the daemon takes note of its end: otherwise a zombie would be left.
            threading.Thread(target=child.wait, daemon=True).start()
            return is_ours
        # If it lost the race for the lock, wait for the daemon that has it.
        if child.poll() is not None and (child.returncode != TAKEN or is_free(lock)):
            hint = _last_line(output, "hint: ") or f"see {output}, and buddy doctor"
            why = _last_line(output, "error: ") or _last_line(output) or _silence(output)
            code = child.returncode if child.returncode in (USAGE, TAKEN) else 1
            raise UserError(f"the daemon did not start: {why}", hint=hint, exit_code=code)
        time.sleep(0.02)
    raise UserError(f"the daemon does not answer after {START_SECONDS:g} s", hint=f"see {output}", exit_code=75)


def _silence(output: Path) -> str:
    """What to say of a daemon that wrote no error, which it cannot do on a full disk."""
    return "the disk is full" if shutil.disk_usage(output.parent).free == 0 else "it said nothing"


def logs(options: Options) -> int:
    """The daemon's log; with --follow, as it grows."""
    if not 0 <= options.lines <= MAX_LOG_LINES:
        raise UserError(f"--lines must be between 0 and {MAX_LOG_LINES}")
    path = places_of(options).state_dir / "logs" / "daemon.log"
    if not path.exists():
        raise UserError(f"no daemon log at {path}", hint="buddy daemon start", exit_code=NOT_RUNNING)
    command = ["tail", "-n", str(options.lines), *(["-F"] if options.follow else []), str(path)]
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return 0


async def _stop(options: Options) -> int:
    link = await find_daemon(options)
    if link is None:
        print("no daemon is running", file=sys.stderr)
        return 0
    lock = places_of(options).state_dir / "daemon.lock"
    async with daemon_client(link, options, "cli") as client:
        await client.request(Shutdown(), AcceptedReply)
    deadline = time.monotonic() + START_SECONDS
    while not is_free(lock):
        if time.monotonic() > deadline:
            raise UserError("the daemon is still stopping", hint="buddy daemon logs", exit_code=75)
        await asyncio.sleep(0.02)
    print("daemon stopped", file=sys.stderr)
    return 0


async def _status(options: Options) -> int:
    status = await ask_status(options)
    if status is None:
        print("not running" if not options.json else json.dumps({"running": False}))
        return NOT_RUNNING
    pid = pid_of(places_of(options).state_dir / "daemon.lock")
    shown = {
        "running": True,
        "pid": pid,
        "version": status.version,
        "uptime": status.uptime,
        "sessions": status.sessions,
        "runs": status.runs,
        "connections": status.connections,
        "costUsdToday": status.cost_usd_today,
        "costUsdPerDay": status.cost_usd_per_day,
        "socket": str(places_of(options).socket),
        "config": status.config,
        "listen": status.listen,
        "tokenFile": status.token_file,
    }
    if options.json:
        print(json.dumps(shown))
    else:
        print(f"running, pid {pid}, version {status.version}, up {status.uptime:.0f} s")
        sessions, runs = plural(status.sessions, "open session"), plural(status.runs, "active run")
        print(f"{sessions}, {runs}, {plural(status.connections, 'connection')}")
        counted = "since 00:00 UTC; models without a known price are not counted"
        limit = "" if status.cost_usd_per_day is None else f" of {format_usd(status.cost_usd_per_day)}"
        print(f"cost today {format_usd(status.cost_usd_today or 0.0)}{limit} USD ({counted})")
        print(f"socket {places_of(options).socket}")
        print(f"configuration {escape(status.config or 'none')}")
        for line in _web_lines(status):
            print(line)
    return 0


async def _is_running(options: Options) -> bool:
    link = await find_daemon(options)
    if link is None:
        return False
    async with daemon_client(link, options, "cli"):
        return True


def _forwarded_flags(options: Options) -> list[str]:
    places = places_of(options)
    given = ["--state-dir", str(places.state_dir), "--socket", str(places.socket)]
    for flag, value in (
        ("--config", str(Path(options.config).absolute()) if options.config else None),
        ("--listen", options.listen),
        ("--tls-cert", options.tls_cert),
        ("--tls-key", options.tls_key),
    ):
        if value:
            given += [flag, value]
    return [*given, "--allow-remote"] if options.allow_remote else given


def is_free(lock: Path) -> bool:
    import fcntl

    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True
    return True


def pid_of(lock: Path) -> int | None:
    try:
        return int(lock.read_text())
    except (OSError, ValueError):
        return None


def _last_line(path: Path, sign: str = "") -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip() and line.startswith(sign)]
    return lines[-1].removeprefix(sign) if lines else ""


def _no_core_dumps() -> None:
    """A core dump of the daemon would contain every secret it knows."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)

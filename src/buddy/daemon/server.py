"""The daemon: one runtime behind a Unix socket, and optionally a WebSocket.

Invariants: the lock comes before the log, the log before the socket; interrupted runs are resumed before the first
client is served; a stop is clean (runs cancelled and approvals denied, or handed over), and a second signal does not
wait for it.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from buddy.config.places import Places
from buddy.config.settings import Config
from buddy.daemon.checkpoints import prune_checkpoints
from buddy.daemon.configuration import Find
from buddy.daemon.instance_lock import BACKLOG, bind_socket, leave, lock_state, peer_uid
from buddy.daemon.listen import Listen
from buddy.daemon.logfile import open_logfile
from buddy.daemon.node import has_several_users
from buddy.daemon.opening import open_runtime
from buddy.daemon.runtime import Runtime, unix_ms
from buddy.daemon.socketlink import ServerSocketLink
from buddy.daemon.storage import prune_daily
from buddy.daemon.watchdog import end_after
from buddy.daemon.web.web import Web
from buddy.errors import BuddyError, UserError
from buddy.protocol.daemon_requests import RestartDaemon
from buddy.sessions.forking import discard_incomplete
from buddy.sessions.handing_over import announce, hold, settle
from buddy.targets.confine.deferred import prove_if_unknown

STOP_SECONDS = 10.0
# Objects after which garbage is looked for among the newest: a pass takes a few milliseconds, and everyone waits.
COLLECT_AFTER = (20_000, 100, 20)

log = logging.getLogger("buddy.daemon")


async def serve(
    config: Config,
    places: Places,
    env: Mapping[str, str],
    *,
    log_url: str | None = None,
    find_config: Find | None = None,
    listen: Listen | None = None,
    echo: bool = False,
) -> RestartDaemon | None:
    """Run the daemon until it is asked to stop; with `find_config`, it follows changes of its configuration.

    Returns the request to hand over to the next daemon, if that is why it stopped.
    """
    lock = lock_state(places.state_dir)
    try:
        runtime = await open_runtime(config, places, env, log_url=log_url, find_config=find_config, is_daemon=True)
        several = runtime.shared_log is not None or has_several_users(config)
        start_operations(runtime, env, places.state_dir, is_audited=several)
        name = runtime.operations.node if several else None
        handler = open_logfile(logfile_of(places), runtime.scrubber, name)
        if echo:
            logging.getLogger().addHandler(logging.StreamHandler())
        try:
            daemon = _Daemon(runtime, places, listen, handler)
            await daemon.run()
        finally:
            logging.getLogger().removeHandler(handler)
            handler.close()
        if runtime.operations.handing_over is None:
            leave(lock)
    finally:
        os.close(lock)
    return runtime.operations.handing_over


def start_operations(runtime: Runtime, env: Mapping[str, str], state_dir: Path, *, is_audited: bool) -> None:
    operations, sessions = runtime.operations, runtime.sessions
    operations.start(env, unix_ms, runtime.status, lambda: runtime.encoded.lag)
    if operations.metrics is not None:
        listeners = (*sessions.services.listeners, operations.metrics.observe)
        sessions.services = replace(sessions.services, listeners=listeners)
    if is_audited:
        operations.start_audit(state_dir, unix_ms)


def logfile_of(places: Places) -> Path:
    return places.state_dir / "logs" / "daemon.log"


class _Daemon:
    def __init__(self, runtime: Runtime, places: Places, listen: Listen | None, handler: logging.Handler) -> None:
        self._runtime = runtime
        self._places = places
        self._listen = listen
        self._handler = handler
        self._web = runtime.web = Web(runtime, places)

    async def run(self) -> None:
        try:
            web = self._bind_web()
            listening = bind_socket(self._places.socket)
        except UserError:
            await self._runtime.close()
            raise
        try:
            await self._serve(listening, web)
        finally:
            self._places.socket.unlink(missing_ok=True)

    def _bind_web(self) -> "tuple[Listen, socket.socket] | None":
        if self._listen is None:
            return None
        return self._listen, self._web.bind(self._listen)

    async def _resend_notices(self) -> None:
        if self._runtime.shared_log is None:  # on a shared one, another node may have sent them
            try:
                await self._runtime.notifications.resend()
            except (BuddyError, OSError) as error:
                log.warning("notifications of an earlier process are not sent: %s", error)

    async def _serve(self, listening: socket.socket, web: "tuple[Listen, socket.socket] | None") -> None:
        loop = asyncio.get_running_loop()
        self._handle_signals(loop)
        await self._runtime.clean_up()
        # On a shared log, what is interrupted is taken by whichever node is first.
        recovered = await self._runtime.sessions.recover() if self._runtime.fleet is None else []
        log.info("configuration %s", self._runtime.configuration.describe())
        log.info("ready on %s, pid %d, %d runs recovered", self._places.socket, os.getpid(), len(recovered))
        gc.freeze()  # what the start allocated stays, so the collector can skip it
        gc.set_threshold(*COLLECT_AFTER)
        server = await loop.create_unix_server(lambda: _AcceptedLink(self._runtime), sock=listening, backlog=BACKLOG)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._web.serve(*web) if web is not None else self._web.reopen())
            group.create_task(prune_checkpoints(self._runtime.checkpoints))
            group.create_task(discard_incomplete(self._runtime.sessions))
            proving = group.create_task(prove_if_unknown(str(self._places.state_dir)))
            resending = group.create_task(self._resend_notices())
            restarting = group.create_task(self._hand_over_when_asked())
            pruning = group.create_task(prune_daily(self._runtime, self._places.state_dir))
            await self._runtime.stopping.wait()
            restarting.cancel()
            pruning.cancel()
            resending.cancel()
            proving.cancel()
            log.info("stopping")
            server.close()
            await self._close()
        await self._web.close()
        end_after(STOP_SECONDS, logfile_of(self._places))
        log.info("stopped")

    async def _hand_over_when_asked(self) -> None:
        """Serve on until no command is running, and stop then."""
        operations, sessions = self._runtime.operations, self._runtime.sessions
        await operations.wait_for_restart()
        log.info("handing over to the next daemon")
        if hold(sessions.open_sessions):
            await announce(sessions.open_sessions, operations.hand_over_until - time.monotonic())
        await settle(lambda: sessions.open_sessions, lambda: operations.hand_over_until)
        self._runtime.stopping.set()

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._runtime.close()
        except TimeoutError:
            log.warning("a clean stop took longer than %g s; what is left is recovered at the next start", STOP_SECONDS)
            if self._runtime.shared_log is not None:
                self._runtime.shared_log.give_up()  # else what cleans up after a cancelled run waits for it

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._reopen)

    def _stop(self) -> None:
        if self._runtime.stopping.is_set():
            log.warning("stopped at once; what was in flight is recovered at the next start")
            os._exit(1)
        self._runtime.stop()

    def _reopen(self) -> None:
        """The terminal was closed or the log file was moved; neither is a reason to stop."""
        self._handler.close()
        log.info("log reopened")


class _AcceptedLink(ServerSocketLink):
    """An accepted connection: only from the same user, and within the limits."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime.limits)
        self._runtime = runtime

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if peer_uid(connection) != os.geteuid():
            log.warning("refused a peer with another uid")
            self.abort()
        elif not self._runtime.accept(self, trusted=True, is_local=True):
            self.abort()

"""A runtime in this process for a blocking client: its event loop runs in a thread, at the other end of a socket pair.

Invariants: an error during its start is raised by `__enter__`; leaving the block closes it cleanly.
"""

import asyncio
import os
import socket
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from buddy.cli.first_run import prepare
from buddy.cli.options import Options
from buddy.cli.settings import places_of, preload_certificates, read_config

if TYPE_CHECKING:
    from buddy.daemon.runtime import Runtime

FOREVER = 1e9
# Both threads share one interpreter: a client that shows each event at once delays the request that follows it.
GATHER_SECONDS = 0.002


class RuntimeThread:
    def __init__(self, options: Options) -> None:
        self.leaves_runs = False
        """Whether its runs are left for another process to continue when the block is left, instead of cancelled."""
        self._options = options
        self._ours, self._theirs = socket.socketpair()
        self._ready: Future[None] = Future()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="runtime")

    def __enter__(self) -> Self:
        prepare(self._options)
        self._thread.start()
        try:
            self._ready.result()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # it ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def connect(self) -> socket.socket:
        """The client's end."""
        return self._ours

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)  # raised again by `__enter__`
        finally:
            self._theirs.close()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        config, profile = read_config(self._options), self._options.profile
        preload_certificates(config, profile)
        from buddy.daemon.opening import open_runtime

        runtime = await open_runtime(config, places_of(self._options), os.environ, log_url=self._options.log)
        try:
            await _welcome(runtime, self._theirs)
            self._ready.set_result(None)
            await self._stop.wait()
        finally:
            if self.leaves_runs:
                await _leave_runs(runtime)
            await runtime.close()


async def _leave_runs(runtime: "Runtime") -> None:
    from buddy.daemon.crowding import disconnect_all
    from buddy.protocol.daemon_requests import HAND_OVER_SECONDS
    from buddy.sessions.handing_over import let_go_of_all, settle

    until = time.monotonic() + HAND_OVER_SECONDS
    await settle(lambda: runtime.sessions.open_sessions, lambda: until)
    await disconnect_all(runtime.connections)
    await let_go_of_all(runtime.sessions)


async def _welcome(runtime: "Runtime", connection: socket.socket) -> None:
    """Serve the client. It is in the same process, so it is never disconnected for being slow."""
    from buddy.daemon.socketlink import ServerSocketLink

    link = ServerSocketLink(replace(runtime.limits, stalled_seconds=FOREVER))
    await asyncio.get_running_loop().connect_accepted_socket(lambda: link, connection)
    runtime.accept(link, trusted=True, is_local=True)

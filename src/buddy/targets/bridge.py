"""Forwards a local loopback port to a port on a target.

Invariants: each connection has its own command on the target; a connection ends when either side closes it, and
after `close` no connection and no local command is left.
"""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress

from buddy.targets.cancellation import finish_despite_cancel
from buddy.targets.environment import environment
from buddy.targets.launchers import Launcher
from buddy.targets.orphans import NONCE_VARIABLE

CHUNK = 64 * 1024
GRACE = 2.0
# Uses whatever can open a connection there: bash, nc or socat. When one direction ends, both end; the other would
# wait forever.
_SHELL = """
if command -v bash >/dev/null 2>&1; then
  exec bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 69
    cat <&3 & back=$!; cat <&0 >&3 & there=$!
    wait -n; kill $back $there' bash "$1" 2>/dev/null
elif command -v nc >/dev/null 2>&1; then exec nc 127.0.0.1 "$1"
elif command -v socat >/dev/null 2>&1; then exec socat - "TCP:127.0.0.1:$1"
fi
echo "bash, nc or socat is required there" >&2; exit 69
"""


class Bridge:
    """Listens locally on `port` while it is open."""

    def __init__(self, launcher: Launcher, port: int, nonce: str) -> None:
        self.port = 0
        self._launcher = launcher
        self._there = port
        self._nonce = nonce
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mark = f"{NONCE_VARIABLE}={self._nonce}"
        argv = await self._launcher.argv(["env", mark, "sh", "-c", _SHELL, "sh", str(self._there)])
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment(), start_new_session=True
        )
        try:
            if process.stdin is not None and process.stdout is not None:
                there = asyncio.create_task(_copy(reader, process.stdin))
                back = asyncio.create_task(_copy(process.stdout, writer))
                try:
                    await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    there.cancel()
                    back.cancel()
                    await asyncio.wait({there, back})
        finally:
            writer.close()
            await finish_despite_cancel(_end(process))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await source.read(CHUNK):
            sink.write(chunk)
            await sink.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Closing its stdin ends the remote process, which a signal to the local command would not reach."""
    if process.stdin is not None:
        process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await process.wait()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

"""The MCP servers of this process: one for each definition, shared by all sessions that have the same.

Invariants: a server runs as long as an open session uses it; one that no session uses any more is stopped; none is left
behind when the process stops.
"""

import asyncio
import hashlib
import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import ModuleType

from buddy.tools.mcp.connection import Open, ServerConnection
from buddy.tools.mcp.contract import ServerFailed, ServerSession, ServerStderr
from buddy.tools.mcp.definitions import ServerDefinition
from buddy.tools.mcp.leftovers import Marks

SWEEP_SECONDS = 30.0
GRACE_SECONDS = 60.0
MISSING = "MCP servers require a package that is not installed: pip install 'buddy-runtime[mcp]'"


class Servers:
    """`is_open` says whether a session is open in this process; `owner` names the process."""

    def __init__(
        self,
        is_open: Callable[[str], bool],
        owner: str,
        tokens: Path | None = None,
        marks: Marks | None = None,
        hide: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`tokens` is the folder of logins; `marks` has servers found after a crash."""
        self.on_closed: Callable[[Sequence[str]], None] = lambda _: None
        """Told which sessions are no longer open."""
        self._marks = marks
        self._hide = hide
        self._is_open = is_open
        self._tokens = tokens
        self._owner = owner
        self._connections: dict[ServerDefinition, ServerConnection] = {}
        self._used: dict[str, tuple[float, frozenset[ServerDefinition]]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self._started = 0
        self._nonces: dict[ServerConnection, str] = {}

    @property
    def running(self) -> list[ServerConnection]:
        return list(self._connections.values())

    def use(self, session_id: str, definitions: Sequence[ServerDefinition]) -> list[ServerConnection]:
        """The servers of a session, started if they are not running; what it had before is no longer its own."""
        self._used[session_id] = time.monotonic(), frozenset(definitions)
        found = [self._connection(definition) for definition in definitions]
        self._stop_unused()
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        return found

    def get(self, definition: ServerDefinition) -> ServerConnection:
        """A server that a session is about to use, started if it is not running."""
        return self._connection(definition)

    def find(self, definition: ServerDefinition) -> ServerConnection | None:
        """A server that is running; nothing is started."""
        return self._connections.get(definition)

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        await asyncio.gather(*self._closing, *map(self._end, self._connections.values()))
        self._connections.clear()

    def forget_closed(self) -> list[str]:
        """Let go of what sessions used that are no longer open; returns those sessions."""
        before = time.monotonic() - GRACE_SECONDS
        gone = [one for one, (since, _) in self._used.items() if since < before and not self._is_open(one)]
        for session_id in gone:
            del self._used[session_id]
        self._stop_unused()
        self.on_closed(gone)
        return gone

    def _connection(self, definition: ServerDefinition) -> ServerConnection:
        found = self._connections.get(definition)
        if found is None:
            self._started += 1
            nonce = nonce_of(self._owner, self._started)
            found = ServerConnection(definition, partial(_load, nonce, self._tokens, self._hide))
            self._connections[definition] = found
            if self._marks is not None and definition.command:
                self._marks.add(nonce)
                self._nonces[found] = nonce
            found.start()
        return found

    def _stop_unused(self) -> None:
        used = {definition for _, definitions in self._used.values() for definition in definitions}
        for definition in [one for one in self._connections if one not in used]:
            task = asyncio.get_running_loop().create_task(self._end(self._connections.pop(definition)))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _end(self, connection: ServerConnection) -> None:
        await connection.close()
        nonce = self._nonces.pop(connection, None)
        if self._marks is not None and nonce is not None:
            self._marks.remove(nonce)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.forget_closed()


def nonce_of(owner: str, number: int) -> str:
    """The mark of one server of a process, and of everything that it starts."""
    return hashlib.sha256(f"mcp\0{owner}\0{number}".encode()).hexdigest()[:32]


def is_installed() -> bool:
    return importlib.util.find_spec("mcp") is not None


async def _load(nonce: str, tokens: Path | None, hide: Callable[[str], None]) -> Open:
    """The part that needs the SDK, imported off the event loop: it takes half a second."""
    if not is_installed():
        raise ServerFailed(MISSING)
    client = await asyncio.to_thread(importlib.import_module, "buddy.tools.mcp.client")
    logins = await asyncio.to_thread(importlib.import_module, "buddy.tools.mcp.machine_login")
    return partial(_open, client, logins, nonce, tokens, hide)


def _open(
    client: ModuleType,
    logins: ModuleType,
    nonce: str,
    tokens: Path | None,
    hide: Callable[[str], None],
    definition: ServerDefinition,
    stderr: ServerStderr,
) -> AbstractAsyncContextManager[ServerSession]:
    login = logins.login_of(tokens, definition, hide) if tokens and definition.url else None
    return client.connect(definition, stderr, nonce, login)

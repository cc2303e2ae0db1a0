"""Connections to the server: opened with the settings that the log relies on, and opened again whenever one fails.

Invariants:
- a commit that was answered is durable: `synchronous_commit` is never weaker than `on`;
- a connection runs one statement at a time; after any error that is not a refusal it is closed and never used again;
- an answer that did not come is `Lost`: the caller finds out whether the statement was executed, or repeats it;
- while the server is away, statements wait for it; only `open` and `close` end the waiting.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from buddy.errors import LogError, StorageFull, UserError
from buddy.log.postgres.address import Address
from buddy.log.postgres.driver import (
    DISK_FULL,
    Connection,
    Row,
    Warned,
    connect,
    is_refusal,
    is_rolled_back,
    sqlstate_of,
)

CONNECT_SECONDS = 5.0
STATEMENT_SECONDS = 15.0
FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0
READERS = 4
_STRONG = ("on", "remote_apply")
_SETTINGS = {
    "application_name": "buddy",
    "client_encoding": "UTF8",
    # A statement never leaves a transaction open; should one stay open all the same, its locks must not.
    "idle_in_transaction_session_timeout": "1000",
    "jit": "off",
}

log = logging.getLogger("buddy.log")


class Lost(LogError):
    """The connection failed before the answer: the statement may have been executed, or not."""


class LogClosed(LogError):
    """The log was closed while something waited for it."""


class Server:
    """Opens connections. `is_reachable` is whether the last attempt succeeded; `has_room`, whether the disk did."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_reachable = True
        self.has_room = True
        self.closing = asyncio.Event()

    async def connect(self, *, durable: bool = True) -> Connection:
        """One attempt; raises whatever the driver does. Only hints, which may be lost, need not be durable."""
        more = {} if self.address.names_session_attrs else {"target_session_attrs": "primary"}
        connection = await connect(self.address.url, _SETTINGS, CONNECT_SECONDS, **more)
        try:
            ((level,),) = await connection.fetch("SHOW synchronous_commit", timeout=CONNECT_SECONDS)
            if not durable or level not in _STRONG:
                wanted = "on" if durable else "off"
                await connection.execute(f"SET synchronous_commit = {wanted}", timeout=CONNECT_SECONDS)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def connect_patiently(self, *, durable: bool = True) -> Connection:
        """Try until it works."""
        wait = FIRST_WAIT
        while not self.closing.is_set():
            try:
                connection = await self.connect(durable=durable)
            except Exception as error:  # noqa: BLE001 - the driver raises errors of any type here
                self._note_failure(error)
            else:
                self._note_success()
                return connection
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self.closing.wait()
            wait = min(2 * wait, LONGEST_WAIT)
        raise LogClosed("the log was closed")

    def _note_failure(self, error: Exception) -> None:
        if self.is_reachable:
            log.warning("can't reach the log at %s (%s); retrying", self.address.shown, describe(error))
        self.is_reachable = False

    def _note_success(self) -> None:
        if not self.is_reachable:
            log.warning("connected to the log at %s again", self.address.shown)
        self.is_reachable = True


class Channel:
    """One connection, opened when it is first needed. `on_closed` is called when it was closed, by either side."""

    def __init__(
        self,
        server: Server,
        *,
        durable: bool = True,
        writes: bool = True,
        on_closed: Callable[[], None] | None = None,
    ) -> None:
        self._server = server
        self._on_closed = on_closed
        self._durable = durable
        self._writes = writes
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._is_doubtful = False
        self._running: set[asyncio.Task[list[Row]]] = set()

    async def fetch(self, sql: str, *args: object, timeout: float = STATEMENT_SECONDS) -> list[Row]:
        """Run one statement; Lost if the connection fails before the answer.

        In a task of its own: a caller that is cancelled must not leave the connection in the middle of a statement.
        """
        task = asyncio.get_running_loop().create_task(self._fetch(sql, args, timeout))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def repeat(self, sql: str, *args: object, timeout: float = STATEMENT_SECONDS) -> list[Row]:
        """Run one statement, again if its answer is lost: only for what may be executed twice."""
        while True:
            try:
                return await self.fetch(sql, *args, timeout=timeout)
            except Lost as lost:
                log.info("repeating a statement: %s", lost)

    async def close(self) -> None:
        """End the connection after the statements that were begun."""
        if self._running:
            await asyncio.wait(self._running, timeout=STATEMENT_SECONDS)
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                await connection.close(timeout=1)
            connection.terminate()

    async def _fetch(self, sql: str, args: tuple[object, ...], timeout: float) -> list[Row]:
        async with self._lock:
            rows = await self._answer(sql, args, timeout)
            if self._writes:
                self._server.has_room = True
            if self._is_doubtful:
                self._drop()
                raise Lost("the server did not wait for its standby")
            return rows

    async def _answer(self, sql: str, args: tuple[object, ...], timeout: float) -> list[Row]:
        while True:
            connection = await self._connected()
            try:
                return await connection.fetch(sql, *args, timeout=timeout)
            except Exception as error:
                if is_rolled_back(error):
                    continue  # two statements waited for each other, and the server ended this one
                if not is_refusal(error):
                    self._drop()
                    raise Lost(f"no answer from {self._server.address.shown}: {describe(error)}") from error
                raise self._refusal(error) from error
            except BaseException:
                self._drop()
                raise

    def _refusal(self, error: Exception) -> Exception:
        if sqlstate_of(error) != DISK_FULL:
            return error
        self._server.has_room = False
        return StorageFull(f"the disk of {self._server.address.shown} is full: {describe(error)}")

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._server.connect_patiently(durable=self._durable)
            self._is_doubtful = False
            self._connection.add_log_listener(self._on_notice)
            self._connection.add_termination_listener(self._on_termination)
        return self._connection

    def _on_notice(self, _connection: object, notice: Warned) -> None:
        # A cancelled wait for the standby is answered as a success, with this warning: the commit is only local.
        if notice.sqlstate == "01000":
            self._is_doubtful = True

    def _on_termination(self, _connection: object) -> None:
        if self._on_closed is not None:
            self._on_closed()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.terminate()


class Readers:
    """A few connections for reads, so that a long one does not delay the others."""

    def __init__(self, server: Server) -> None:
        self._idle = [Channel(server, writes=False) for _ in range(READERS)]
        self._all = tuple(self._idle)
        self._free = asyncio.Semaphore(READERS)

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        async with self._channel() as channel:
            return await channel.repeat(sql, *args)

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._all))

    @asynccontextmanager
    async def _channel(self) -> AsyncGenerator[Channel]:
        async with self._free:
            channel = self._idle.pop()  # the one used last is connected
            try:
                yield channel
            finally:
                self._idle.append(channel)


def describe(error: BaseException) -> str:
    """An error in one line; some of the driver's have no text, and asyncio's name the call instead of the reason."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return " ".join(str(error).split()) or type(error).__name__


def cannot_connect(address: Address, error: Exception) -> UserError:
    """Why the first connection failed, and what to do."""
    match sqlstate_of(error):
        case "28P01" | "28000":
            hint = "set the password with PGPASSWORD or ~/.pgpass, and check the server's pg_hba.conf"
            return UserError(f"{address.shown} refuses the login: {describe(error)}", hint=hint)
        case "3D000":
            return UserError(f"{address.shown}: {describe(error)}", hint="create the database with 'createdb' first")
        case _ if isinstance(error, ValueError):
            return UserError(f"{address.shown} is not a valid URL: {describe(error)}", hint="check --log or [log] url")
        case _:
            why = "no answer in time" if isinstance(error, TimeoutError) else describe(error)
            return UserError(
                f"can't connect to {address.shown} ({why})",
                hint="check that PostgreSQL is running there and accepts writes; then try again",
                exit_code=75,
            )

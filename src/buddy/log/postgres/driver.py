"""The part of asyncpg that the log uses, with types of its own, and what its errors mean.

Invariant: an error is a refusal only if the server said so and nothing was executed; after any other error the
connection is in an unknown state and the statement may have been committed.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none

_asyncpg: Any = asyncpg

Row = Any
"""A row: its values by position or by name."""

# Data exceptions, integrity violations, errors in the statement, limits of the server.
_REFUSALS = ("22", "23", "42", "54")
_ROLLED_BACK = ("40001", "40P01")
DISK_FULL = "53100"


@runtime_checkable
class _ServerError(Protocol):
    """An error that the server sent."""

    sqlstate: str | None


class Warned(Protocol):
    """A notice of the server."""

    sqlstate: str
    message: str


class Connection(Protocol):
    async def fetch(self, query: str, /, *args: object, timeout: float | None = None) -> list[Row]: ...

    async def execute(self, query: str, /, *args: object, timeout: float | None = None) -> str: ...

    async def add_listener(self, channel: str, callback: Callable[[object, int, str, object], None]) -> None: ...

    def add_log_listener(self, callback: "Callable[[object, Warned], None]") -> None: ...

    def add_termination_listener(self, callback: Callable[[object], None]) -> None: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...

    async def close(self, *, timeout: float | None = None) -> None: ...


async def connect(url: str, settings: Mapping[str, str], timeout: float, **more: str) -> Connection:
    """Connect to the first of the URL's hosts that accepts writes."""
    connection: Connection = await _asyncpg.connect(url, server_settings=dict(settings), timeout=timeout, **more)
    return connection


def sqlstate_of(error: BaseException) -> str:
    """The server's code of an error; empty if it is not the server's."""
    return (error.sqlstate or "") if isinstance(error, _ServerError) else ""


def is_refusal(error: BaseException) -> bool:
    """Whether the server refused the statement: nothing was written, and the connection can be used again."""
    code = sqlstate_of(error)
    return code.startswith(_REFUSALS) or code == DISK_FULL


def is_rolled_back(error: BaseException) -> bool:
    """Whether the server gave up a statement because of another one: nothing was written, and it can be sent again."""
    return sqlstate_of(error) in _ROLLED_BACK

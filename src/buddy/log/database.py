"""The part of a database connection that the log uses, with types of its own.

Invariant: every result is read to its end (`get`, or a complete iteration) or closed, because a statement that is only
partly read keeps old pages of the write-ahead log in use.

apsw's own type stubs name a class that Python 3.11 does not have, which would make each call untyped.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import apsw

Value = int | str | bytes | None

DAMAGED_HINT = "stop the daemon, and bring back a copy with `buddy restore`; until then, change nothing"


def is_damage(error: Exception) -> bool:
    """Whether a file is not what SQLite has written there."""
    return isinstance(error, apsw.CorruptError | apsw.NotADBError)


class QueryResult(Protocol):
    """The result of a statement: an iterator of rows, or all at once."""

    @property
    def get(self) -> Any:
        """The complete result: a value, a row's tuple, or a list of either; None if there are no rows."""
        ...

    def __iter__(self) -> Iterator[Any]: ...

    def close(self) -> None: ...


class Cursor(Protocol):
    """Executes statements one after another, cheaper than a connection, which creates a cursor for each."""

    def execute(self, statements: str, bindings: Sequence[Value] | None = None, /) -> object: ...


class Database(Protocol):
    @property
    def in_transaction(self) -> bool: ...

    @property
    def system_errno(self) -> int: ...

    def execute(
        self, statements: str, bindings: Sequence[Value] | None = None, /, *, can_cache: bool = True
    ) -> QueryResult: ...

    def executemany(self, statements: str, bindings: Iterable[Sequence[Value]], /) -> QueryResult: ...

    def cursor(self) -> Cursor: ...

    def pragma(self, name: str, /) -> Any: ...

    def config(self, option: int, value: int, /) -> int: ...

    def changes(self) -> int: ...

    def total_changes(self) -> int: ...

    def create_scalar_function(
        self, name: str, called: Callable[..., Value], parameters: int, /, *, deterministic: bool
    ) -> None: ...

    def set_busy_timeout(self, milliseconds: int, /) -> None: ...

    def set_progress_handler(self, called: Callable[[], bool], steps: int, /) -> None: ...

    def set_wal_hook(self, called: Callable[[Any, str, int], int], /) -> None: ...

    def wal_checkpoint(self, *, mode: int) -> tuple[int, int]: ...

    def close(self) -> None: ...


def connect(path: Path, flags: int) -> Database:
    """Open a file that must not be a link; the directories on the way to it may be."""
    return apsw.Connection(direct(path), flags=flags | apsw.SQLITE_OPEN_NOFOLLOW)


def connect_reader(path: Path, busy_seconds: float) -> Database:
    """A connection that reads. A full disk has no room for the file by which connections share memory: one that nobody
    else needs to share with does without."""
    db = connect(path, apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(int(busy_seconds * 1000))
        db.pragma("schema_version")
    except apsw.IOError:
        db.close()  # now: it would keep the other one from being alone
        with suppress(apsw.Error):
            return _connect_alone(path)
        raise
    except BaseException:
        db.close()
        raise
    return db


def _connect_alone(path: Path) -> Database:
    db = connect(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.pragma("schema_version")
    except BaseException:
        db.close()
        raise
    return db


def direct(path: Path) -> str:
    """The path as SQLite accepts it, which refuses links anywhere on the way."""
    return str(path.parent.resolve() / path.name)

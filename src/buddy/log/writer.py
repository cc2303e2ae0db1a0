"""The writer: the event loop puts all waiting jobs into one transaction, a thread commits what must be durable.

A statement takes microseconds; on a thread it may also wait for the interpreter lock before and after. So the loop
executes statements, at the end of its iteration, and commits what needs no sync. Anything that may block goes to the
thread: commits that must reach the disk, work known to be long, waiting for another writing process, and checkpoints.

Invariants:
- only one of the two uses the connection at a time: the loop only while the thread is idle;
- jobs run in the order they were submitted, and their futures are resolved after the commit, never before;
- a refused job (LogError) changes nothing and does not disturb the others in its group;
- a group is committed or rolled back as one, and its jobs learn which;
- only `close` ends the thread.

A job whose waiter was cancelled still runs: whether it was committed can then only be read from the log.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import apsw
from msgspec import UNSET, Struct, UnsetType

from buddy import faults
from buddy.errors import LogError, StorageFull
from buddy.log.database import Database
from buddy.log.room import FULL_ERRNOS, is_full
from buddy.log.schema import BUSY_SECONDS, explain

CHECKPOINT = 2000
"""Pages in the write-ahead log at which it is checkpointed."""
ERASE_MILLISECONDS = 100
"""How long erasing waits for readers, while nobody can write."""
ERASE_AGAIN_SECONDS = 5.0
"""After which it is tried again, if a reader was in the way."""

Result = TypeVar("Result")


class Writer:
    def __init__(
        self, db: Database, path: Path, busy_seconds: float = BUSY_SECONDS, deferred: "DeferredWrites | None" = None
    ) -> None:
        self._db = db
        self._cursor = db.cursor()
        self._path = path
        self._deferred = deferred
        self._tasks: queue.SimpleQueue[_ThreadTask | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._is_full_sync: bool | None = None
        self._waiting: list[_Job] = []
        self._is_due = False  # whether the loop is going to look at the waiting jobs
        self._is_handed_over = False  # whether the thread has the connection
        self._pages = 0
        self._must_erase = False
        self._was_kept = False  # whether a reader still needed what was to be erased
        self._busy_milliseconds = round(busy_seconds * 1000)
        db.set_wal_hook(self._note_pages)

    def submit(
        self, work: Callable[[Database], Result], *, durable: bool, long: bool = False
    ) -> asyncio.Future[Result]:
        """Queue work for the next transaction. `durable` work has reached the disk when its future is done."""
        if self._is_closed:
            raise RuntimeError("the log is closed")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif loop is not self._loop:
            raise RuntimeError("a log belongs to the event loop that first wrote to it")
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append(_Work(work, future, durable, long))
        if not self._is_due and not self._is_handed_over:
            self._write_soon(loop)
        return future

    def erase_soon(self) -> None:
        """Empty the write-ahead log, in which deleted rows could still be read."""
        self._must_erase = True
        if self._loop is not None and not self._is_due and not self._is_handed_over:
            self._write_soon(self._loop)

    async def close(self) -> None:
        """Run what was submitted, then close the connection and end the thread."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._waiting:
            group, self._waiting = self._waiting, []
            self._hand_to_thread(group, self._process)
        if self._thread is None:
            self._db.close()
            return
        self._tasks.put(None)
        await asyncio.to_thread(self._thread.join)

    def _write_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_due = True
        loop.call_soon(self._write)

    def _write(self) -> None:
        """Put all waiting jobs into one transaction, and have the write-ahead log checkpointed if that is due."""
        self._is_due = False
        if self._is_closed:
            return  # the thread runs them, or did
        if not self._waiting:
            self._hand_to_thread([], _nothing)
            return
        group, self._waiting = self._waiting, []
        durable = long = False
        for job in group:
            durable |= job.durable
            long |= job.long
        if long or not self._begin_now(durable=durable):
            self._hand_to_thread(group, self._process)
            return
        try:
            self._fill(group)
        except Exception as error:  # noqa: BLE001 - the writer outlives whatever a job does
            self._hand_to_thread(group, partial(self._undo, error=error))
            return
        if durable:
            self._hand_to_thread(group, self._commit)
            return
        self._commit(group)
        self._settle(group)
        if self._must_erase or self._pages >= CHECKPOINT:
            self._hand_to_thread([], _nothing)

    def _begin_now(self, *, durable: bool) -> bool:
        """Begin a transaction, unless that would have to wait (usually for another process that writes)."""
        self._db.set_busy_timeout(0)
        try:
            self._begin(durable=durable)
        except apsw.Error:
            return False
        finally:
            self._db.set_busy_timeout(self._busy_milliseconds)
        return True

    def _hand_to_thread(self, group: "list[_Job]", act: "Callable[[list[_Job]], object]") -> None:
        """Let the thread work on these jobs; until it is done, only the thread uses the connection."""
        if self._thread is None:
            # A daemon thread: a process that forgets to close the log can still exit, and loses no more than if killed.
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="log-writer", daemon=True)
            self._thread.start()
        self._is_handed_over = True
        self._tasks.put((group, act))

    def _take_back(self, group: "list[_Job]") -> None:
        self._is_handed_over = False
        self._settle(group)
        if self._was_kept:
            self._was_kept = False
            asyncio.get_running_loop().call_later(ERASE_AGAIN_SECONDS, self.erase_soon)
        # The waiters run first: what they submit next goes into one transaction.
        if self._waiting or self._must_erase:
            self._write_soon(asyncio.get_running_loop())

    def _settle(self, group: "list[_Job]") -> None:
        for job in group:
            job.settle()
        if self._deferred:
            self._deferred.notify()

    def _note_pages(self, _db: object, _name: str, pages: int) -> int:
        self._pages = pages
        return 0

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while task := self._tasks.get():
            group, act = task
            act(group)
            if self._must_erase or self._pages >= CHECKPOINT:
                self._check_point()
            # A closed loop has no waiters left.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._take_back, group)
        self._db.close()

    def _process(self, group: "list[_Job]") -> None:
        """Run these jobs in a transaction of their own."""
        try:
            self._begin(durable=any(job.durable for job in group))
            self._fill(group)
        except Exception as error:  # noqa: BLE001 - as above
            self._undo(group, error)
            return
        self._commit(group)

    def _fill(self, group: "list[_Job]") -> None:
        for job in group:
            if job.long and self._deferred:
                self._deferred.write(self._db)  # it may depend on those writes
            job.run(self._db)
        if self._deferred:
            self._deferred.write(self._db)

    def _commit(self, group: "list[_Job]") -> None:
        try:
            faults.reached("commit.before")
            self._cursor.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(group, error)
            return
        try:
            faults.reached("commit.after")
        except Exception as error:  # noqa: BLE001 - as above; it was committed, so this is not StorageFull
            for job in group:
                job.fail(error)

    def _begin(self, *, durable: bool) -> None:
        if durable is not self._is_full_sync:
            # Not from the statement cache: a pragma acts while it is compiled.
            level = "FULL" if durable else "NORMAL"
            self._db.execute(f"PRAGMA synchronous = {level}", can_cache=False)
            self._is_full_sync = durable
        self._cursor.execute("BEGIN IMMEDIATE")
        if self._deferred:
            self._deferred.drop()

    def _check_point(self) -> None:
        """Checkpoint the write-ahead log, as far as no reader still needs its pages; erase it if it has to be."""
        must_erase, self._must_erase, self._pages = self._must_erase, False, 0
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if must_erase else apsw.SQLITE_CHECKPOINT_PASSIVE
        self._db.set_busy_timeout(ERASE_MILLISECONDS)
        try:
            self._db.wal_checkpoint(mode=mode)
        except apsw.BusyError:
            self._was_kept = must_erase
        except apsw.Error:
            pass  # what is wrong shows with the next write
        self._db.set_busy_timeout(self._busy_milliseconds)

    def _undo(self, group: "list[_Job]", error: Exception) -> None:
        """A job failed with a bug rather than a refusal: run each job alone, so that the others succeed."""
        if len(group) == 1 or not self._db.in_transaction or _is_disk_full(self._db, error):
            self._fail(group, error)
            return
        self._roll_back()
        for job in group:
            self._process([job])

    def _fail(self, group: "list[_Job]", error: Exception) -> None:
        explained = _explain(self._db, self._path, error)
        self._roll_back()
        for job in group:
            job.fail(explained)

    def _roll_back(self) -> None:
        if self._deferred:
            self._deferred.drop()
        # SQLite has rolled back by itself after some errors.
        if self._db.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._db.execute("ROLLBACK")


def _explain(db: Database, path: Path, error: Exception) -> Exception:
    if isinstance(error, DeferredRefusal):
        return error.refusal
    if _is_disk_full(db, error):
        full = StorageFull(f"the disk of {path.parent} is full: {error}")
        full.__cause__ = error
        return full
    return explain(error, path) if isinstance(error, apsw.Error) else error


def _is_disk_full(db: Database, error: Exception) -> bool:
    if isinstance(error, apsw.IOError | apsw.CantOpenError):
        return db.system_errno in FULL_ERRNOS
    return isinstance(error, apsw.FullError) or is_full(error)


class DeferredWrites(Protocol):
    """Writes that jobs defer to the end of their transaction, done for all jobs at once."""

    def drop(self) -> None: ...

    def write(self, db: Database) -> None:
        """Raises DeferredRefusal if one of the jobs must be refused."""
        ...

    def notify(self) -> None:
        """The transaction is over: wake those who wait for what it wrote."""
        ...


class DeferredRefusal(Exception):
    """A refusal of deferred writes, which can't be assigned to a job: each job of the group is run again, alone."""

    def __init__(self, refusal: LogError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class _Job(Protocol):
    durable: bool
    long: bool

    def run(self, db: Database) -> None: ...
    def fail(self, error: Exception) -> None: ...
    def settle(self) -> None: ...


_ThreadTask = tuple[list[_Job], Callable[[list[_Job]], object]]


class _Work(Struct, Generic[Result]):
    """A job and the future that its caller waits for. The outcome is kept until the group is committed."""

    work: Callable[[Database], Result]
    future: asyncio.Future[Result]
    durable: bool
    long: bool
    error: Exception | None = None
    result: Result | UnsetType = UNSET

    def run(self, db: Database) -> None:
        self.error = None
        try:
            self.result = self.work(db)
        except LogError as refusal:
            self.error = refusal

    def fail(self, error: Exception) -> None:
        self.error = error

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        elif self.result is not UNSET:
            self.future.set_result(self.result)


def _nothing(group: list[_Job]) -> None:
    """For a thread task that only checks whether a checkpoint is due."""

"""Who writes: all that waits is committed as one transaction, by the event loop itself or by a thread.

What must have reached the disk is the thread's, and whatever comes while that has work: it may wait. All else is
written by the loop, at the end of its turn: a commit without a sync takes less time than a hop to a thread and back.

What always holds:
- one of the two uses the connection at a time: the loop only while nothing was handed over;
- jobs are done in the order they were submitted, and their futures are settled after the commit, never before;
- a refused job (LogError) changes nothing and does not disturb the others of its group;
- a group is committed or rolled back whole, and its jobs are told which;
- nothing ends the thread but `close`.

A job whose waiter was cancelled is still done: whether it was committed can then only be read from the log.
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

from buddy import faults
from buddy.errors import LogError, StorageFull
from buddy.log.database import Database
from buddy.log.room import FULL_ERRNOS, is_full
from buddy.log.schema import BUSY_SECONDS, explain

CHECKPOINT = 1000

Result = TypeVar("Result")


class Writer:
    def __init__(self, db: Database, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self._db = db
        self._path = path
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._is_full_sync: bool | None = None
        self._here: list[_Job] = []
        self._there = 0  # how many were handed over and did not come back yet
        self._pages = 0
        self._busy_milliseconds = round(busy_seconds * 1000)
        db.set_wal_hook(self._note_pages)

    def submit(self, work: Callable[[Database], Result], *, durable: bool) -> asyncio.Future[Result]:
        """Queue work for the next transaction. `durable` work has reached the disk when its future is done."""
        if self._is_closed:
            raise RuntimeError("the log is closed")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif loop is not self._loop:
            raise RuntimeError("a log belongs to the event loop that first wrote to it")
        future: asyncio.Future[Result] = loop.create_future()
        self._here.append(_Work(work, future, durable))
        if durable or self._there:
            self._hand_over()
        elif len(self._here) == 1:
            loop.call_soon(self._commit_here)
        return future

    async def close(self) -> None:
        """Do what was submitted, then close the connection and end the thread."""
        if self._is_closed:
            return
        self._is_closed = True
        self._hand_over()
        if self._thread is None:
            self._db.close()
            return
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _commit_here(self) -> None:
        """Commit what was submitted in this turn of the loop, without the thread: it has nothing to do."""
        if not self._here:
            return
        self._db.set_busy_timeout(0)
        try:
            self._begin(durable=False)
        except apsw.Error:
            self._hand_over()  # another process writes, mostly: the thread can wait for it
            return
        finally:
            self._db.set_busy_timeout(self._busy_milliseconds)
        group, self._here = self._here, []
        self._fill(group)
        _settle(group)
        if self._pages >= CHECKPOINT:
            self._here.append(_Work(_nothing, _unheard(), durable=False))
            self._hand_over()

    def _hand_over(self) -> None:
        """Let the thread do all that waits, in order."""
        if not self._here or self._loop is None:
            return
        if self._thread is None:
            self._start(self._loop)
        group, self._here = self._here, []
        self._there += len(group)
        for job in group:
            self._jobs.put(job)

    def _come_back(self, group: "list[_Job]") -> None:
        self._there -= len(group)
        _settle(group)

    def _note_pages(self, _db: object, _name: str, pages: int) -> int:
        self._pages = pages
        return 0

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        # A daemon thread: a process that forgets to close the log can still end, and a kill loses nothing either.
        self._thread = threading.Thread(target=self._run, args=(loop,), name="log-writer", daemon=True)
        self._thread.start()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        is_last = False
        while not is_last:
            group, is_last = self._take()
            if group:
                self._process(group)
                if self._pages >= CHECKPOINT:
                    self._check_point()
                # The loop is closed when nobody is left to be told.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._come_back, group)
        self._db.close()

    def _take(self) -> "tuple[list[_Job], bool]":
        """Wait for a job, then take all that are there; True with the last group of all."""
        group: list[_Job] = []
        job = self._jobs.get()
        with contextlib.suppress(queue.Empty):
            while job is not None:
                group.append(job)
                job = self._jobs.get_nowait()
            return group, True
        return group, False

    def _process(self, group: "list[_Job]") -> None:
        try:
            self._begin(durable=any(job.durable for job in group))
        except Exception as error:  # noqa: BLE001 - the writer outlives whatever a job does
            self._undo(group, error)
            return
        self._fill(group)

    def _fill(self, group: "list[_Job]") -> None:
        """Do the jobs in the transaction that was begun for them, and commit it."""
        try:
            for job in group:
                job.run(self._db)
        except Exception as error:  # noqa: BLE001 - as above
            self._undo(group, error)
            return
        try:
            faults.reached("commit.before")
            self._db.execute("COMMIT")
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
        self._db.execute("BEGIN IMMEDIATE")

    def _check_point(self) -> None:
        """Move what was written into the database itself, as far as no reader needs the old pages."""
        self._pages = 0
        with contextlib.suppress(apsw.Error):
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _undo(self, group: "list[_Job]", error: Exception) -> None:
        """A job broke (which a refusal is not): do the others without it."""
        if len(group) == 1 or not self._db.in_transaction or self._is_full(error):
            self._fail(group, error)
            return
        self._roll_back()
        for job in group:
            self._process([job])

    def _fail(self, group: "list[_Job]", error: Exception) -> None:
        told = self._explain(error)
        self._roll_back()
        for job in group:
            job.fail(told)

    def _explain(self, error: Exception) -> Exception:
        if self._is_full(error):
            full = StorageFull(f"no room on the disk of {self._path.parent}: {error}")
            full.__cause__ = error
            return full
        return explain(error, self._path) if isinstance(error, apsw.Error) else error

    def _is_full(self, error: Exception) -> bool:
        if isinstance(error, apsw.IOError | apsw.CantOpenError):
            return self._db.system_errno in FULL_ERRNOS
        return isinstance(error, apsw.FullError) or is_full(error)

    def _roll_back(self) -> None:
        # SQLite has rolled back by itself after some errors.
        if self._db.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._db.execute("ROLLBACK")


class _Job(Protocol):
    durable: bool

    def run(self, db: Database) -> None: ...
    def fail(self, error: Exception) -> None: ...
    def settle(self) -> None: ...


class _Work(Generic[Result]):
    """A job: what to do, and who waits for it. Its outcome is kept until the group is committed."""

    __slots__ = ("_deliver", "_future", "_work", "durable")

    def __init__(self, work: Callable[[Database], Result], future: asyncio.Future[Result], durable: bool) -> None:
        self._work = work
        self._future = future
        self.durable = durable
        self._deliver: Callable[[], object] = future.cancel

    def run(self, db: Database) -> None:
        try:
            self._deliver = partial(self._future.set_result, self._work(db))
        except LogError as refusal:
            self.fail(refusal)

    def fail(self, error: Exception) -> None:
        self._deliver = partial(self._future.set_exception, error)

    def settle(self) -> None:
        if not self._future.done():
            self._deliver()


def _nothing(db: Database) -> None:
    """A job that only wakes the thread, which then moves pages."""


def _unheard() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


def _settle(group: list[_Job]) -> None:
    for job in group:
        job.settle()

"""The log in one SQLite database: the embedded default.

Invariants: every write goes through one connection, used by the event loop or by the writer's thread; reads use a
separate read-only connection and never wait for the writer; several processes may share one state directory.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
from msgspec import Raw

from buddy.errors import BuddyError
from buddy.log import rows, session_search, upload_rows
from buddy.log.appends import Appends
from buddy.log.batches import check_shape
from buddy.log.blobs import FileBlobs
from buddy.log.contract import (
    EVENTS_PER_READ,
    INCOMPLETE,
    ApprovalRecord,
    Batch,
    InboxItem,
    Lease,
    SessionQuery,
    SessionRecord,
    TokenRecord,
    UserUsage,
)
from buddy.log.database import Database
from buddy.log.room import MIN_FREE, DiskSpace
from buddy.log.schema import BUSY_SECONDS, open_database, open_reader
from buddy.log.state_use import StateUse
from buddy.log.statedir import make_private_dir
from buddy.log.waiters import Waiters
from buddy.log.writer import Result, Writer
from buddy.protocol.codes import VERSION
from buddy.protocol.envelopes import Event

DATABASE = "buddy.db"
# Other processes cannot wake our waiters, so these also poll.
_POLL_SECONDS = 1.0

_EVENTS = """
SELECT seq, ts, type, CAST(payload AS BLOB), run_id FROM events
WHERE session = (SELECT key FROM sessions WHERE id = ?) AND seq > ?
"""
_READ = f"{_EVENTS} AND seq <= ? ORDER BY seq LIMIT ?"
_NO_END = 2**63 - 1
_RANGE = "SELECT first_seq, last_seq FROM sessions WHERE id = ?"
_GET = f"{rows.RECORD} WHERE id = ? AND state <> ?"
WINDOW = 4096
"""The number of events that are searched for types at a time: no index has their types, so each one is looked at."""

# `Event.line`, built and joined by SQLite: reading the rows one by one in Python takes 50 % longer.
_HEAD = f'{{"v":"{VERSION}","kind":"event","sessionId":"%s",'
_LINES = f"""
SELECT max(seq), CAST(group_concat(line, ?3) AS BLOB) FROM (
  SELECT seq, concat(
    '"runId":"' || run_id || '",', '"seq":', seq, ',"ts":', ts, ',"type":"', type, '","payload":', payload, '}}'
  ) AS line FROM events
  WHERE session = (SELECT key FROM sessions WHERE id = ?1) AND seq > ?2 ORDER BY seq LIMIT {EVENTS_PER_READ}
)
"""  # noqa: S608 - constants only


class SqliteLog:
    """Satisfies `contract.Log`. Create it with `SqliteLog.open`."""

    is_inbox_private = True

    def __init__(
        self, state_dir: Path, use: StateUse, clock: Callable[[], int], busy_seconds: float, min_free: int
    ) -> None:
        path = self._path = state_dir / DATABASE
        self._clock = clock
        self._waiters = Waiters()
        self._appends = Appends(self._waiters.wake)
        self._use = use
        self._writer = Writer(open_database(path, busy_seconds, use), path, busy_seconds, self._appends)
        self._reader = open_reader(path, busy_seconds)
        self._blobs = FileBlobs(state_dir / "blobs")
        self._room = DiskSpace(state_dir, min_free)

    @classmethod
    def open(
        cls,
        state_dir: Path,
        clock: Callable[[], int],
        *,
        busy_seconds: float = BUSY_SECONDS,
        min_free: int = MIN_FREE,
    ) -> "SqliteLog":
        """Open the log in `state_dir`, creating what is missing; UserError if that is unsafe or impossible."""
        make_private_dir(state_dir)
        make_private_dir(state_dir / "blobs")
        use = StateUse(state_dir, busy_seconds)
        try:
            use.share()
            return cls(state_dir, use, clock, busy_seconds, min_free)
        except BaseException:
            use.end()
            raise

    async def close(self) -> None:
        with suppress(BuddyError, OSError, apsw.Error):  # left to the next process
            await self._discard_blobs()
        self._reader.close()
        self._waiters.wake_all()
        await self._writer.close()
        self._use.end()

    def has_room(self) -> bool:
        return self._room.is_enough()

    # --- events ---

    def append(self, batch: Batch) -> asyncio.Future[int]:
        # Not a coroutine: a task per append would cost more than the insert.
        check_shape(batch)
        work = partial(self._appends.append, batch, self._clock())
        return self._writer.submit(work, durable=batch.durable)

    async def read(
        self, session_id: str, after: int, limit: int = 500, types: Collection[str] = (), through: int | None = None
    ) -> list[Event]:
        if not types:
            values = (session_id, after, _NO_END if through is None else through, max(limit, 0))
            return _events_of(session_id, self._reader.execute(_READ, values))
        events: list[Event] = []
        first_seq, last_seq = self._range(session_id)
        after, end = max(after, first_seq - 1), last_seq if through is None else min(through, last_seq)
        while len(events) < limit and after < end:
            before, after = after, min(after + WINDOW, end)
            events += self._find(session_id, (before, after), types, "ASC", limit - len(events))
            if after < end:
                await asyncio.sleep(0)  # others are served in between
        return events

    async def read_lines(self, session_id: str, after: int, size: int) -> tuple[bytes, int]:
        head = _HEAD % session_id
        start, between = head.encode(), f"\n{head}"
        lines: list[bytes] = []
        while size > 0:
            last_seq, joined = self._reader.execute(_LINES, (session_id, after, between)).get
            if last_seq is None:
                break
            lines += (start, joined, b"\n")
            after = last_seq
            size -= len(joined)
        return b"".join(lines), after

    async def last(
        self, session_id: str, types: Collection[str], after: int = 0, through: int | None = None
    ) -> Event | None:
        first_seq, last_seq = self._range(session_id)
        after, end = max(after, first_seq - 1), last_seq if through is None else min(through, last_seq)
        while after < end:
            start = max(after, end - WINDOW)
            found = self._find(session_id, (start, end), types, "DESC", 1)
            if found:
                return found[0]
            end = start
            await asyncio.sleep(0)  # others are served in between
        return None

    def _find(
        self, session_id: str, between: tuple[int, int], types: Collection[str], order: str, limit: int
    ) -> list[Event]:
        where = f"AND seq <= ? AND type IN ({', '.join('?' * len(types))}) ORDER BY seq {order} LIMIT ?"
        return _events_of(session_id, self._reader.execute(f"{_EVENTS} {where}", (session_id, *between, *types, limit)))

    async def wait(self, session_id: str, after: int, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while self._last_seq(session_id) <= after:
            left = deadline - loop.time()
            if left <= 0:
                return False
            await self._waiters.wait_for_wake(session_id, min(left, _POLL_SECONDS))
        return True

    async def prune(self, lease: Lease, before_seq: int) -> int:
        while True:
            first_seq, is_done = await self._write(partial(rows.prune, lease, before_seq), long=True)
            if is_done:
                self._writer.erase_soon()
                await self._discard_blobs()
                return first_seq

    def _last_seq(self, session_id: str) -> int:
        return self._range(session_id)[1]

    def _range(self, session_id: str) -> tuple[int, int]:
        """The seqs of the first and of the last event."""
        found: tuple[int, int] | None = self._reader.execute(_RANGE, (session_id,)).get
        return found or (1, 0)

    # --- sessions and leases ---

    async def create(self, record: SessionRecord, owner: str, *, is_complete: bool = True) -> Lease:
        state = record.state if is_complete else INCOMPLETE
        return await self._write(partial(rows.create, record, state, owner, self._clock()))

    async def incomplete(self) -> list[str]:
        found = self._reader.execute("SELECT id FROM sessions WHERE state = ?", (INCOMPLETE,))
        return [session_id for (session_id,) in found]

    async def get(self, session_id: str) -> SessionRecord | None:
        found = rows.records_of(self._reader.execute(_GET, (session_id, INCOMPLETE)))
        return found[0] if found else None

    async def newest(self, limit: int, root_path: str | None = None) -> list[SessionRecord]:
        return session_search.search(self._reader, SessionQuery(limit, root_path))

    async def find(self, query: SessionQuery) -> list[SessionRecord]:
        return await session_search.find(self._reader, self._path, query)

    async def active(self) -> list[SessionRecord]:
        where = "WHERE state IN ('running', 'awaiting_approval') ORDER BY key"
        return rows.records_of(self._reader.execute(f"{rows.RECORD} {where}"))

    async def usage_of(self, user: str, day: int) -> UserUsage:
        return await session_search.usage_of(self._reader, self._path, user, day)

    async def cost_of(self, day: int) -> float:
        return rows.cost_of(day, self._reader)

    async def delete(self, session_id: str, epoch: int | None = None) -> bool:
        begun = await self._write(partial(rows.begin_delete, session_id, epoch), durable=True, long=True)
        if begun is not None:
            self._waiters.wake(session_id)
            key, is_done = begun
            while not is_done:
                is_done = await self._write(partial(rows.delete_part, key), long=True)
            self._writer.erase_soon()
            await self._discard_blobs()
        return begun is not None

    async def acquire(self, session_id: str, owner: str) -> Lease | None:
        return await self._write(partial(rows.acquire, session_id, owner, self._clock()))

    async def release(self, lease: Lease) -> None:
        await self._write(partial(rows.release, lease))

    async def renew(self, owner: str) -> None:
        await self._write(partial(rows.renew, owner, self._clock()))

    # --- inbox, approvals, tokens ---

    async def put(self, session_id: str, key: str, kind: str, body: bytes, limit: int) -> int | None:
        item = InboxItem(0, key, kind, body)
        return await self._write(partial(rows.put_item, session_id, item, limit), durable=True)

    async def waiting(self, session_id: str) -> list[InboxItem]:
        return rows.waiting(self._reader, session_id)

    async def approval(self, approval_id: str) -> ApprovalRecord | None:
        return rows.approval(self._reader, approval_id)

    async def decisions(
        self, limit: int, session_id: str | None = None, since: int = 0, user: str | None = None
    ) -> list[Event]:
        return rows.decisions(self._reader, max(limit, 0), session_id, since, user)

    async def put_token(self, token: TokenRecord) -> bool:
        # A token lost to a power failure can be minted again; a revocation must be durable.
        return await self._write(partial(rows.put_token, token))

    async def token(self, token_hash: str) -> TokenRecord | None:
        return rows.token(self._reader, token_hash)

    async def tokens(self, session_id: str) -> list[TokenRecord]:
        return rows.tokens(self._reader, session_id)

    async def use_link(self, token_hash: str) -> bool:
        return await self._write(partial(rows.use_link, token_hash), durable=True)

    async def revoke(self, token_hash: str) -> list[str]:
        return await self._write(partial(rows.revoke, token_hash), durable=True)

    # --- blobs ---

    async def put_blob(self, content: bytes) -> str:
        return await self._blobs.put(content)

    async def has_blob(self, session_id: str, blob: str) -> bool:
        return upload_rows.has_blob(session_id, blob, self._reader)

    async def hold_blob(self, session_id: str, blob: str) -> None:
        self._blobs.touch(blob)  # before the row: what is recent is not removed
        if not await self._write(partial(upload_rows.hold_blob, session_id, blob), durable=True):
            raise rows.no_session(session_id)

    async def sweep_blobs(self) -> None:
        await asyncio.to_thread(self._blobs.sweep)
        await self._write(partial(upload_rows.expire_uploads, self._blobs.is_old))
        await self._discard_blobs()

    async def _discard_blobs(self) -> None:
        discarded = [blob for blob in upload_rows.unnamed_blobs(self._reader) if self._blobs.discard(blob)]
        if discarded:
            await self._write(partial(upload_rows.forget_blobs, discarded))

    async def read_blob(self, blob: str, offset: int = 0, limit: int | None = None) -> tuple[bytes, int] | None:
        return await self._blobs.read(blob, offset, limit)

    async def _write(self, work: Callable[[Database], Result], *, durable: bool = False, long: bool = False) -> Result:
        return await self._writer.submit(work, durable=durable, long=long)


def _events_of(session_id: str, rows: Iterable[Any]) -> list[Event]:
    return [Event(session_id, seq, ts, kind, Raw(payload), run_id) for seq, ts, kind, payload, run_id in rows]

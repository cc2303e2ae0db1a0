"""The log in PostgreSQL: shared by several daemons.

Invariants: every write is one statement, under the epoch of its session where it belongs to one; appends have a
connection of their own and go out in groups; reads use a few others, on the same server; what was answered is durable.
"""

import asyncio
from collections.abc import Callable, Collection
from functools import partial

from buddy.errors import Fenced, LogError
from buddy.log.batches import check_shape
from buddy.log.contract import (
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
from buddy.log.owners import is_alive
from buddy.log.postgres import rows
from buddy.log.postgres.address import Address, parse_address
from buddy.log.postgres.appends import Appends, new_id
from buddy.log.postgres.blobs import EXPIRE, HOLD, TOUCH, DatabaseBlobs, ObjectStore
from buddy.log.postgres.connections import Channel, Readers, Server, cannot_connect
from buddy.log.postgres.hints import Hints
from buddy.log.postgres.schema import prepare
from buddy.log.postgres.texts import text
from buddy.log.rows import no_session
from buddy.protocol.envelopes import Event, event_lines

_EVENTS = """
SELECT seq, ts, type, payload, run_id FROM events
WHERE session = (SELECT key FROM sessions WHERE id = $1) AND seq > $2
"""
_READ = f"{_EVENTS} AND seq <= $4 ORDER BY seq LIMIT $3"
_READ_TYPES = f"{_EVENTS} AND seq <= $4 AND type = ANY($5::text[]) ORDER BY seq LIMIT $3"
_LAST = f"{_EVENTS} AND type = ANY($3::text[]) AND seq <= $4 ORDER BY seq DESC LIMIT 1"
_NO_END = 2**63 - 1
_PORTION = 1000
# As many events as make up a size, without sending the rest.
_SIZED = f"""
SELECT seq, ts, type, payload, run_id FROM (
  SELECT *, sum(octet_length(payload)) OVER (ORDER BY seq) - octet_length(payload) AS before
  FROM ({_EVENTS} ORDER BY seq LIMIT {_PORTION}) AS found
) AS sized WHERE before < $3 ORDER BY seq
"""  # noqa: S608 - constants only
_HAS_BLOB = "SELECT 1 FROM blob_refs r JOIN sessions s ON r.session IN (s.key, -s.key) WHERE r.blob = $1 AND s.id = $2"
_DOCUMENT = "SELECT content, version FROM documents WHERE name = $1"
_WRITE_DOCUMENT = """
INSERT INTO documents AS d SELECT $1, 1, $2 WHERE $3 = 0 OR EXISTS (SELECT FROM documents WHERE name = $1)
ON CONFLICT (name) DO UPDATE SET content = excluded.content, version = d.version + 1 WHERE d.version = $3
RETURNING version
"""
_LONG_SECONDS = 300.0
CLOSE_SECONDS = 5.0


class PostgresLog:
    """Satisfies `contract.Log` and `contract.Documents`. Create it with `await PostgresLog.open(url, clock)`.

    `lease_clock` replaces the server's clock, which heartbeats are measured by.
    """

    is_inbox_private = False

    def __init__(
        self, address: Address, clock: Callable[[], int], lease_clock: Callable[[], int] | None = None
    ) -> None:
        self.address = address
        self.server = Server(address)
        self._clock = clock
        self._lease_clock = lease_clock
        self.reads = Readers(self.server)
        self.writes = Channel(self.server)
        self._append_channel = Channel(self.server)
        self._hint_channel = Channel(self.server, durable=False)
        self._blob_channel = Channel(self.server)
        self.hints = Hints(self.server, self._hint_channel, self.reads)
        self._appends = Appends(self._append_channel, self.hints.grown)
        self.blobs: ObjectStore = DatabaseBlobs(self._blob_channel, self.reads)

    @classmethod
    async def open(
        cls, url: str, clock: Callable[[], int], *, lease_clock: Callable[[], int] | None = None
    ) -> "PostgresLog":
        """Connect, and create or migrate the tables; UserError if that is impossible."""
        made = cls(parse_address(url), clock, lease_clock)
        try:
            connection = await made.server.connect()
        except Exception as error:
            raise cannot_connect(made.address, error) from error
        try:
            await prepare(connection, made.address.shown)
        finally:
            connection.terminate()
        return made

    async def close(self) -> None:
        """What was submitted is still sent, unless the server is away: then its fate can be read from the log later."""
        sending = asyncio.create_task(self._appends.close())
        await asyncio.wait([sending], timeout=CLOSE_SECONDS if self.server.is_reachable else 0)
        self.server.closing.set()
        await sending
        await self.hints.close()
        channels = (self.writes, self._append_channel, self._hint_channel, self._blob_channel)
        await asyncio.gather(self.reads.close(), *(channel.close() for channel in channels))

    def give_up(self) -> None:
        """Have everything that waits for the server fail, now and from now on: this process ends."""
        self.server.closing.set()

    def has_room(self) -> bool:
        return self.server.has_room

    # --- events ---

    def append(self, batch: Batch) -> asyncio.Future[int]:
        check_shape(batch)
        return self._appends.submit(batch, self._clock())

    async def read(
        self, session_id: str, after: int, limit: int = 500, types: Collection[str] = (), through: int | None = None
    ) -> list[Event]:
        values = (session_id, after, max(limit, 0), _NO_END if through is None else through)
        more = (list(types),) if types else ()
        found = await self.reads.fetch(_READ_TYPES if types else _READ, *values, *more)
        return list(map(partial(rows.event_of, session_id), found))

    async def read_lines(self, session_id: str, after: int, size: int) -> tuple[bytes, int]:
        lines: list[bytes] = []
        while size > 0:
            found = await self.reads.fetch(_SIZED, session_id, after, size)
            portion, after = event_lines(map(partial(rows.event_of, session_id), found), after, size)
            lines.append(portion)
            size -= len(portion)
            if len(found) < _PORTION:
                break
        return b"".join(lines), after

    async def last(
        self, session_id: str, types: Collection[str], after: int = 0, through: int | None = None
    ) -> Event | None:
        end = _NO_END if through is None else through
        found = await self.reads.fetch(_LAST, session_id, after, list(types), end)
        return rows.event_of(session_id, found[0]) if found else None

    async def wait(self, session_id: str, after: int, timeout: float) -> bool:
        return await self.hints.wait(session_id, after, timeout)

    async def prune(self, lease: Lease, before_seq: int) -> int:
        values = (lease.session_id, lease.epoch, before_seq)
        found = await self.writes.repeat(rows.PRUNE, *values, timeout=_LONG_SECONDS)
        if not found:
            raise Fenced(f"{lease.session_id} is not held under epoch {lease.epoch} any more")
        await self.blobs.sweep()
        return found[0][0]

    # --- sessions and leases ---

    async def create(self, record: SessionRecord, owner: str, *, is_complete: bool = True) -> Lease:
        state = record.state if is_complete else INCOMPLETE
        values = rows.create_values(record, state, owner, new_id(), self._beat())
        ((is_ours,),) = await self.writes.repeat(rows.CREATE, *values)
        if not is_ours:
            raise LogError(f"{record.session_id} exists already")
        return Lease(record.session_id, 1, owner)

    async def get(self, session_id: str) -> SessionRecord | None:
        found = await self.reads.fetch(rows.GET, text(session_id))
        return rows.record_of(found[0]) if found else None

    async def incomplete(self) -> list[str]:
        return [session_id for (session_id,) in await self.reads.fetch(rows.INCOMPLETE_IDS)]

    async def newest(self, limit: int, root_path: str | None = None) -> list[SessionRecord]:
        return await self.find(SessionQuery(limit, root_path))

    async def find(self, query: SessionQuery) -> list[SessionRecord]:
        return list(map(rows.record_of, await self.reads.fetch(rows.FIND, *rows.find_values(query))))

    async def active(self) -> list[SessionRecord]:
        return list(map(rows.record_of, await self.reads.fetch(rows.ACTIVE)))

    async def usage_of(self, user: str, day: int) -> UserUsage:
        ((sessions, runs, cost),) = await self.reads.fetch(rows.USAGE, text(user), day)
        return UserUsage(sessions, runs, cost)

    async def cost_of(self, day: int) -> float:
        ((cost,),) = await self.reads.fetch(rows.COST, day)
        return cost

    async def interrupted(self) -> list[str]:
        """Active sessions whose owner has died."""
        found = await self.reads.fetch(rows.HOLDERS, self._beat())
        return [session_id for session_id, owner, seen, now in found if not (owner and is_alive(owner, seen, now))]

    async def delete(self, session_id: str, epoch: int | None = None) -> bool:
        existed = bool(await self.reads.fetch(rows.EXISTS, session_id))  # a repeated statement would find nothing
        if existed:
            await self.writes.repeat(rows.DELETE, session_id, epoch, timeout=_LONG_SECONDS)
            if epoch is not None and await self.reads.fetch(rows.EXISTS, session_id):
                raise Fenced(f"{session_id} is not held under epoch {epoch} any more")
            self.hints.deleted(session_id)
            await self.blobs.sweep()
        return existed

    async def acquire(self, session_id: str, owner: str) -> Lease | None:
        while True:
            found = await self.writes.repeat(rows.HOLDER, session_id, self._beat())
            if not found:
                raise no_session(session_id)
            epoch, holder, seen, now = found[0]
            if holder not in (None, owner) and is_alive(holder, seen, now):
                return None
            taken = await self.writes.repeat(rows.ACQUIRE, session_id, owner, epoch, self._beat())
            if taken:
                return Lease(session_id, taken[0][0], owner)

    async def release(self, lease: Lease) -> None:
        await self.writes.repeat(rows.RELEASE, lease.session_id, lease.epoch)

    async def renew(self, owner: str) -> None:
        await self.writes.repeat(rows.RENEW, owner, self._beat())

    # --- inbox, approvals, tokens ---

    async def put(self, session_id: str, key: str, kind: str, body: bytes, limit: int) -> int | None:
        while True:
            found = await self.writes.repeat(rows.PUT, session_id, text(key), text(kind), body, limit)
            if not found:
                raise no_session(session_id)
            waiting, is_queued, is_known, is_taken, is_free, place = found[0]
            if is_queued:
                self.hints.woken(session_id)
                return waiting + 1
            if is_free:
                await self.writes.repeat(rows.FREE, session_id, text(key))
                continue
            if is_known:
                return 0 if is_taken else place
            if waiting >= limit:
                return None

    async def waiting(self, session_id: str) -> list[InboxItem]:
        return list(map(rows.item_of, await self.reads.fetch(rows.WAITING, session_id)))

    async def approval(self, approval_id: str) -> ApprovalRecord | None:
        found = await self.reads.fetch(rows.APPROVAL, text(approval_id))
        return ApprovalRecord(*found[0]) if found else None

    async def decisions(
        self, limit: int, session_id: str | None = None, since: int = 0, user: str | None = None
    ) -> list[Event]:
        found = await self.reads.fetch(rows.DECISIONS, since, text(session_id), max(limit, 0), text(user))
        return [rows.event_of(session, row) for session, *row in reversed(found)]

    async def put_token(self, token: TokenRecord) -> bool:
        found = await self.writes.repeat(rows.MINT, *rows.token_values(token))
        if not found:
            raise no_session(token.session_id)
        return found[0][0]

    async def token(self, token_hash: str) -> TokenRecord | None:
        found = await self.reads.fetch(rows.BY_HASH, text(token_hash))
        return rows.token_of(found[0]) if found else None

    async def tokens(self, session_id: str) -> list[TokenRecord]:
        return list(map(rows.token_of, await self.reads.fetch(rows.OF_SESSION, session_id)))

    async def use_link(self, token_hash: str) -> bool:
        return bool(await self.writes.repeat(rows.USE_LINK, text(token_hash), new_id()))

    async def revoke(self, token_hash: str) -> list[str]:
        # Read first, as a lost answer must not hide what was revoked; and again until there is nothing, as a token may
        # have been minted meanwhile.
        found = await self.writes.repeat(rows.MINTED, [text(token_hash)])
        revoked = {hashed for (hashed,) in found}
        while gone := await self.writes.repeat(rows.REVOKE, [text(token_hash), *revoked]):
            revoked.update(hashed for (hashed,) in gone)
        return list(revoked)

    # --- blobs ---

    async def put_blob(self, content: bytes) -> str:
        return await self.blobs.put(content)

    async def has_blob(self, session_id: str, blob: str) -> bool:
        return bool(await self.reads.fetch(_HAS_BLOB, text(blob), session_id))

    async def hold_blob(self, session_id: str, blob: str) -> None:
        await self.writes.repeat(TOUCH, text(blob))
        if not await self.writes.repeat(HOLD, text(blob), session_id):
            raise no_session(session_id)

    async def sweep_blobs(self) -> None:
        await self.writes.repeat(EXPIRE)
        await self.blobs.sweep()

    async def read_blob(self, blob: str, offset: int = 0, limit: int | None = None) -> tuple[bytes, int] | None:
        return await self.blobs.read(blob, offset, limit)

    # --- documents ---

    async def read_document(self, name: str) -> tuple[str, int] | None:
        found = await self.reads.fetch(_DOCUMENT, name)
        return (found[0][0], found[0][1]) if found else None

    async def write_document(self, name: str, content: str, version: int) -> bool:
        if await self.writes.repeat(_WRITE_DOCUMENT, name, text(content), version):
            return True
        return await self.read_document(name) == (text(content), version + 1)  # the answer may have been lost

    def _beat(self) -> int | None:
        """The time of a heartbeat; None is the server's own clock."""
        return self._lease_clock() if self._lease_clock else None

"""The log in memory: for tests, simulations and sessions that need not outlive the process.

Invariants: it answers exactly as the SQLite log does (one suite runs over both); each method is synchronous inside, so
nothing interleaves.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection

import msgspec

from buddy.errors import Fenced, LogError, NotClaimed, SeqConflict, Undecidable
from buddy.log.batches import blobs_named, check_shape
from buddy.log.contract import (
    DECISIONS,
    ApprovalRecord,
    Batch,
    Claim,
    InboxItem,
    Lease,
    SessionQuery,
    SessionRecord,
    TokenRecord,
    UserUsage,
)
from buddy.log.owners import is_alive
from buddy.log.rows import no_session
from buddy.log.waiters import Waiters
from buddy.protocol.envelopes import Event, event_lines

_HELD_MS = 24 * 3600 * 1000


class _Session:
    """A session's rows. `events[0]` has the seq `record.first_seq`; `blobs` have the last seq that names each."""

    def __init__(self, record: SessionRecord, owner: str) -> None:
        self.record = record
        self.epoch = 1
        self.owner: str | None = owner
        self.events: list[Event] = []
        self.keys: dict[str, int] = {}
        self.claims: set[tuple[str, int]] = set()
        self.approvals: dict[str, ApprovalRecord] = {}
        self.inbox: dict[str, InboxItem] = {}
        self.blobs: dict[str, int] = {}
        self.held: set[str] = set()
        self.is_complete = True

    def awaits(self, blob: str) -> bool:
        """Whether a message that waits names it."""
        return any(blob.encode() in item.body for item in self.inbox.values())


class MemoryLog:
    """Satisfies `contract.Log`. Set `room` to False to simulate a full disk."""

    is_inbox_private = False

    def __init__(self, clock: Callable[[], int]) -> None:
        self.room = True
        self._clock = clock
        self._sessions: dict[str, _Session] = {}
        self._held_at: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._tokens: dict[str, TokenRecord] = {}
        self._blobs: dict[str, bytes] = {}
        self._spent: dict[tuple[str, int], float] = {}
        self._next_item = 1
        self._waiters = Waiters()

    async def close(self) -> None:
        self._waiters.wake_all()

    def has_room(self) -> bool:
        return self.room

    # --- events ---

    async def append(self, batch: Batch) -> int:
        check_shape(batch)
        session = self._sessions.get(batch.session_id)
        if session is None:
            raise Fenced(f"{batch.session_id} is no longer in the log")
        if batch.key is not None and batch.key in session.keys:
            return session.keys[batch.key]
        _check_head(session, batch)
        if batch.claim and _claim_key(batch.claim) in session.claims:
            raise NotClaimed(f"{batch.claim.call_id} was claimed before, attempt {batch.claim.attempt}")
        self._check_approvals(session, batch)
        _write(session, batch, self._clock())
        self._waiters.wake(batch.session_id)
        return session.record.last_seq

    async def read(
        self, session_id: str, after: int, limit: int = 500, types: Collection[str] = (), through: int | None = None
    ) -> list[Event]:
        session = self._sessions.get(session_id)
        if session is None:
            return []
        first_seq, limit = session.record.first_seq, max(limit, 0)
        start = max(after + 1 - first_seq, 0)
        end = len(session.events) if through is None else max(through + 1 - first_seq, 0)
        if not types:
            return session.events[start : min(start + limit, end)]
        return [event for event in session.events[start:end] if event.type in types][:limit]

    async def read_lines(self, session_id: str, after: int, size: int) -> tuple[bytes, int]:
        return event_lines(await self.read(session_id, after, self._last_seq(session_id)), after, size)

    async def last(
        self, session_id: str, types: Collection[str], after: int = 0, through: int | None = None
    ) -> Event | None:
        events = await self.read(session_id, after, self._last_seq(session_id), types, through)
        return events[-1] if events else None

    async def wait(self, session_id: str, after: int, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while self._last_seq(session_id) <= after:
            left = deadline - loop.time()
            if left <= 0:
                return False
            await self._waiters.wait_for_wake(session_id, left)
        return True

    async def prune(self, lease: Lease, before_seq: int) -> int:
        session = self._sessions.get(lease.session_id)
        if session is None or session.epoch != lease.epoch:
            raise Fenced(f"{lease.session_id} is not held under epoch {lease.epoch} any more")
        record = session.record
        first_seq = max(record.first_seq, min(before_seq, record.last_seq + 1))
        del session.events[: first_seq - record.first_seq]
        session.record = msgspec.structs.replace(record, first_seq=first_seq)
        run_id = next((event.run_id for event in session.events if event.run_id), None)
        session.claims = {claim for claim in session.claims if run_id is not None and claim[0] >= run_id}
        session.approvals = {
            known.approval_id: known
            for known in session.approvals.values()
            if known.state == "pending" or (run_id is not None and known.run_id >= run_id)
        }
        pruned = {blob for blob, last_seq in session.blobs.items() if last_seq < first_seq}
        session.blobs = {blob: seq for blob, seq in session.blobs.items() if blob not in pruned}
        session.held -= {blob for blob in pruned if not session.awaits(blob)}
        self._drop_blobs(pruned)
        return first_seq

    def _last_seq(self, session_id: str) -> int:
        session = self._sessions.get(session_id)
        return session.record.last_seq if session else 0

    def _check_approvals(self, session: _Session, batch: Batch) -> None:
        asked = batch.approval.approval_id if batch.approval else None
        if asked is not None:
            known = self._approval(asked)
            if known is not None:
                raise Undecidable(asked, known.state)
        if batch.decision and batch.decision.approval_id != asked:
            known = session.approvals.get(batch.decision.approval_id)
            if known is None or known.state != "pending":
                raise Undecidable(batch.decision.approval_id, known.state if known else "unknown")

    # --- sessions and leases ---

    async def create(self, record: SessionRecord, owner: str, *, is_complete: bool = True) -> Lease:
        if record.session_id in self._sessions:
            raise LogError(f"{record.session_id} exists already")
        record = msgspec.structs.replace(record, last_seq=record.first_seq - 1)
        self._sessions[record.session_id] = session = _Session(record, owner)
        session.is_complete = is_complete
        self._seen[owner] = self._clock()
        return Lease(record.session_id, 1, owner)

    async def get(self, session_id: str) -> SessionRecord | None:
        session = self._sessions.get(session_id)
        return session.record if session and session.is_complete else None

    async def incomplete(self) -> list[str]:
        return [session_id for session_id, session in self._sessions.items() if not session.is_complete]

    async def newest(self, limit: int, root_path: str | None = None) -> list[SessionRecord]:
        return await self.find(SessionQuery(limit, root_path))

    async def find(self, query: SessionQuery) -> list[SessionRecord]:
        records = [session.record for session in reversed(self._sessions.values()) if session.is_complete]
        found = sorted(filter(query.matches, records), key=lambda record: -record.updated_at)
        if query.after:
            used, session_id = query.after
            newer = list(self._sessions)
            at = newer.index(session_id) if session_id in self._sessions else -1
            place = {known: order for order, known in enumerate(newer)}
            found = [it for it in found if (it.updated_at, place[it.session_id]) < (used, at)]
        return found[: max(query.limit, 0)]

    async def active(self) -> list[SessionRecord]:
        records = [session.record for session in self._sessions.values() if session.is_complete]
        return [record for record in records if record.is_active]

    async def usage_of(self, user: str, day: int) -> UserUsage:
        records = [session.record for session in self._sessions.values() if session.record.user == user]
        runs = sum(record.is_active for record in records)
        costs = [record.facts.day_cost_usd for record in records if record.facts.day == day]
        return UserUsage(len(records), runs, sum(costs, self._spent.get((user, day), 0.0)))

    async def cost_of(self, day: int) -> float:
        facts = [session.record.facts for session in self._sessions.values()]
        gone = [cost for (_, at), cost in self._spent.items() if at == day]
        return sum(gone, sum(one.day_cost_usd for one in facts if one.day == day))

    async def delete(self, session_id: str, epoch: int | None = None) -> bool:
        session = self._sessions.get(session_id)
        if session is None:
            return False
        if epoch not in (None, session.epoch):
            raise Fenced(f"{session_id} is not held under epoch {epoch} any more")
        del self._sessions[session_id]
        user, facts = session.record.user or "", session.record.facts
        self._spent[user, facts.day] = self._spent.get((user, facts.day), 0.0) + facts.day_cost_usd
        self._tokens = {key: token for key, token in self._tokens.items() if token.session_id != session_id}
        self._drop_blobs(session.blobs.keys() | session.held)
        self._waiters.wake(session_id)
        return True

    async def acquire(self, session_id: str, owner: str) -> Lease | None:
        session = self._session(session_id)
        now = self._clock()
        if session.owner not in (None, owner) and is_alive(session.owner, self._seen.get(session.owner), now):
            return None
        session.epoch += 1
        session.owner = owner
        self._seen[owner] = now
        return Lease(session_id, session.epoch, owner)

    async def release(self, lease: Lease) -> None:
        session = self._sessions.get(lease.session_id)
        if session is not None and session.epoch == lease.epoch:
            session.owner = None

    async def renew(self, owner: str) -> None:
        self._seen[owner] = self._clock()

    # --- inbox, approvals, tokens ---

    async def put(self, session_id: str, key: str, kind: str, body: bytes, limit: int) -> int | None:
        session = self._session(session_id)
        if key in session.keys:
            return 0
        if key in session.inbox:
            return list(session.inbox).index(key) + 1
        if len(session.inbox) >= limit:
            return None
        session.inbox[key] = InboxItem(self._next_item, key, kind, body)
        self._next_item += 1
        return len(session.inbox)

    async def waiting(self, session_id: str) -> list[InboxItem]:
        session = self._sessions.get(session_id)
        return list(session.inbox.values()) if session else []

    async def approval(self, approval_id: str) -> ApprovalRecord | None:
        return self._approval(approval_id)

    async def decisions(
        self, limit: int, session_id: str | None = None, since: int = 0, user: str | None = None
    ) -> list[Event]:
        found = [
            (event.ts, order, event.seq, event)
            for order, (known, session) in enumerate(self._sessions.items())
            if session_id in (None, known) and user in (None, session.record.user)
            for event in session.events
            if event.type in DECISIONS and event.ts >= since
        ]
        return [event for *_, event in sorted(found, key=lambda row: row[:3])[max(0, len(found) - max(limit, 0)) :]]

    async def put_token(self, token: TokenRecord) -> bool:
        self._session(token.session_id)
        is_valid = token.minted_by is None or token.minted_by in self._tokens
        if is_valid:
            self._tokens[token.token_hash] = token
        return is_valid

    async def token(self, token_hash: str) -> TokenRecord | None:
        return self._tokens.get(token_hash)

    async def tokens(self, session_id: str) -> list[TokenRecord]:
        return [token for token in self._tokens.values() if token.session_id == session_id]

    async def use_link(self, token_hash: str) -> bool:
        token = self._tokens.get(token_hash)
        if token is None or token.kind != "link":
            return False
        self._tokens[token_hash] = msgspec.structs.replace(token, kind="used_link")
        return True

    async def revoke(self, token_hash: str) -> list[str]:
        revoked = [token_hash] if self._tokens.pop(token_hash, None) is not None else []
        minted = [token.token_hash for token in self._tokens.values() if token.minted_by == token_hash]
        for hashed in minted:
            revoked += await self.revoke(hashed)
        return revoked

    # --- blobs ---

    async def put_blob(self, content: bytes) -> str:
        blob = hashlib.sha256(content).hexdigest()
        self._blobs[blob] = content
        return blob

    async def has_blob(self, session_id: str, blob: str) -> bool:
        session = self._sessions.get(session_id)
        return session is not None and (blob in session.blobs or blob in session.held)

    async def hold_blob(self, session_id: str, blob: str) -> None:
        self._session(session_id).held.add(blob)
        self._held_at[blob] = self._clock()

    async def sweep_blobs(self) -> None:
        for session in self._sessions.values():
            old = {blob for blob in session.held if self._clock() - self._held_at[blob] >= _HELD_MS}
            old = {blob for blob in old if not session.awaits(blob)}
            session.held -= old
            self._drop_blobs(old)

    def _drop_blobs(self, blobs: set[str]) -> None:
        """Remove those that no session has."""
        kept = set[str]().union(*(other.blobs.keys() | other.held for other in self._sessions.values()))
        for blob in blobs - kept:
            self._blobs.pop(blob, None)

    async def read_blob(self, blob: str, offset: int = 0, limit: int | None = None) -> tuple[bytes, int] | None:
        content = self._blobs.get(blob)
        if content is None:
            return None
        start = max(offset, 0)
        end = None if limit is None else start + max(limit, 0)
        return content[start:end], len(content)

    def _session(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise no_session(session_id)
        return session

    def _approval(self, approval_id: str) -> ApprovalRecord | None:
        for session in self._sessions.values():
            if approval_id in session.approvals:
                return session.approvals[approval_id]
        return None


def _claim_key(claim: Claim) -> tuple[str, int]:
    return claim.call_id, claim.attempt


def _check_head(session: _Session, batch: Batch) -> None:
    if session.epoch != batch.epoch:
        raise Fenced(f"{batch.session_id} is at epoch {session.epoch}, this writer at {batch.epoch}")
    if session.record.last_seq != batch.expected_seq:
        raise SeqConflict(f"{batch.session_id} ends at {session.record.last_seq}, not at {batch.expected_seq}")


def _write(session: _Session, batch: Batch, now: int) -> None:
    session.events.extend(batch.events)
    session.is_complete = session.is_complete or batch.state is not None
    session.record = msgspec.structs.replace(
        session.record,
        last_seq=batch.expected_seq + len(batch.events),
        updated_at=now if batch.is_use else session.record.updated_at,
        state=batch.state or session.record.state,
        title=session.record.title if batch.title is None else batch.title,
        facts=batch.facts or session.record.facts,
    )
    if batch.key is not None:
        session.keys[batch.key] = session.record.last_seq
    if batch.claim:
        session.claims.add(_claim_key(batch.claim))
    if batch.approval:
        session.approvals[batch.approval.approval_id] = msgspec.structs.replace(batch.approval, state="pending")
    if decision := batch.decision:
        asked = session.approvals[decision.approval_id]
        session.approvals[decision.approval_id] = msgspec.structs.replace(asked, state=decision.state)
    session.inbox = {key: item for key, item in session.inbox.items() if item.item_id not in batch.taken}
    session.blobs.update({blob: event.seq for event in batch.events for blob in blobs_named(event)})

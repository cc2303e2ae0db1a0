"""What a session needs from its store: narrow interfaces, with one conformance suite for every implementation.

Invariants:
- an append is all or nothing, and names the epoch it was written under: a writer that lost its lease cannot write;
- `seq` starts at 1 per session, or where the part begins that was imported, and is gapless; what was appended is never
  changed;
- a lease gates writes, never reads;
- no order across sessions is promised.
"""

from collections.abc import Awaitable, Collection, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from buddy.protocol.codes import Role, SessionState, Verdict
from buddy.protocol.envelopes import Event
from buddy.protocol.events import events_where
from buddy.protocol.shapes import BootTime, ContextState, Repo


class RowFacts(Struct, frozen=True):
    """What the list of sessions shows besides state and title; written with the events that change it."""

    archived: bool = False
    cost_usd: float | None = None
    tokens: int = 0
    context: ContextState | None = None
    waiting: int = 0
    parent: str | None = None
    day: int = 0
    day_cost_usd: float = 0.0
    """What the session has cost on its latest day, counted from 1970 in UTC."""
    agent: str | None = None


class SessionRecord(Struct, frozen=True):
    """A session's row: what can be listed without reading its log. `state` is a cache of the log's fold."""

    session_id: str
    repo: Repo
    mode: str
    state: SessionState
    created_at: int
    updated_at: int
    first_seq: int
    last_seq: int
    title: str | None = None
    facts: RowFacts = RowFacts()
    user: str | None = None
    """Who owns it, where a daemon has several users; None is the daemon's own owner."""

    @property
    def is_active(self) -> bool:
        """Whether a run of it is not over."""
        return self.state in ("running", "awaiting_approval")


INCOMPLETE = "incomplete"
"""What the row of a session that is being copied or deleted has in place of its state."""


class UserUsage(Struct, frozen=True):
    """What counts against a user's limits: sessions, those of them with a run, and the cost of a day."""

    sessions: int = 0
    runs: int = 0
    cost_usd: float = 0.0


class SessionQuery(Struct, frozen=True):
    """Which sessions to list: each word of `query` occurs in the title, the directory, the branch or the id.

    `archived` and `user` are None for all. `after` is the row that ended the page before: when it was used, and its id.
    """

    limit: int
    root_path: str | None = None
    query: str = ""
    state: SessionState | None = None
    archived: bool | None = None
    after: tuple[int, str] | None = None
    user: str | None = None

    @property
    def words(self) -> list[str]:
        return self.query.casefold().split()

    def matches(self, record: SessionRecord) -> bool:
        """Whether a record belongs to the list; `limit` and `after` are not looked at."""
        repo = record.repo
        text = searched_text(record.title, repo.root_path, repo.current_branch, record.session_id)
        return (
            self.root_path in (None, repo.root_path)
            and self.state in (None, record.state)
            and self.archived in (None, record.facts.archived)
            and self.user in (None, record.user)
            and all(word in text for word in self.words)
        )


def searched_text(*parts: str | None) -> str:
    return "\n".join(part for part in parts if part).casefold()


class Lease(Struct, frozen=True):
    """The right to write one session's log, until a higher epoch exists."""

    session_id: str
    epoch: int
    owner: str


class Claim(Struct, frozen=True):
    """The record, committed before a tool starts, that it is about to start. Unique by (call_id, attempt)."""

    call_id: str
    attempt: int
    digest: str


class ApprovalRecord(Struct, frozen=True):
    approval_id: str
    run_id: str
    call_id: str
    digest: str
    expires_at: int
    state: Literal["pending", "approve", "deny", "expired"] = "pending"


class ApprovalDecision(Struct, frozen=True):
    """A compare-and-set from pending: to a verdict, or to expired."""

    approval_id: str
    state: Verdict | Literal["expired"]
    by: str


class InboxItem(Struct, frozen=True):
    """An item that waits for its turn in a session: `kind` says what it is, `body` is JSON text."""

    item_id: int
    key: str
    kind: str
    body: bytes


TokenKind = Literal["token", "link", "used_link", "login"]
"""A `link` can be used once, to log in, and is kept as a `used_link`: revoking it revokes the `login`, too."""


class TokenRecord(Struct, frozen=True):
    """An attach token at rest: its SHA-256, never itself. `minted_by` is the hash of the token it was minted with."""

    token_hash: str
    session_id: str
    role: Role
    expires_at: int | None = None
    expires_at_boot: BootTime | None = None
    minted_by: str | None = None
    kind: TokenKind = "token"


class Batch(Struct, frozen=True):
    """One append: events whose seqs follow `expected_seq`, and the rows that must change with them or not at all."""

    session_id: str
    epoch: int
    expected_seq: int
    events: Sequence[Event]
    durable: bool = False
    is_use: bool = True
    """Whether the session counts as used by it, in the order of the list."""
    key: str | None = None
    state: SessionState | None = None
    title: str | None = None
    facts: RowFacts | None = None
    claim: Claim | None = None
    approval: ApprovalRecord | None = None
    decision: ApprovalDecision | None = None
    taken: tuple[int, ...] = ()


EVENTS_PER_READ = 64
"""The number of events a log may read at a time without looking at their size."""


class EventLog(Protocol):
    def append(self, batch: Batch) -> Awaitable[int]:
        """Commit the batch; return the log's last seq after it.

        With a `key` that an earlier batch of this session had, nothing is written and its last seq is returned.
        Raises Fenced, SeqConflict, NotClaimed, Undecidable or StorageFull. `taken` inbox items are removed with it.
        `durable` batches survive power loss once this returns; others survive the death of the process.
        """
        ...

    async def read(
        self, session_id: str, after: int, limit: int = 500, types: Collection[str] = (), through: int | None = None
    ) -> list[Event]:
        """The next events after a seq, optionally only of certain types, and up to another seq."""
        ...

    async def read_lines(self, session_id: str, after: int, size: int) -> tuple[bytes, int]:
        """The next events after a seq as complete lines of the protocol, and the seq of the last.

        Stops at `size` bytes or at most `EVENTS_PER_READ` events later. If there are no more events, returns empty
        bytes and `after`.
        """
        ...

    async def last(
        self, session_id: str, types: Collection[str], after: int = 0, through: int | None = None
    ) -> Event | None:
        """The last event of these types after a seq, up to another."""
        ...

    async def wait(self, session_id: str, after: int, timeout: float) -> bool:
        """Wait until the log may have grown past `after`; a hint, the caller reads again. False on timeout."""
        ...

    async def prune(self, lease: Lease, before_seq: int) -> int:
        """Delete events below `before_seq`; return the first remaining seq.

        Also deletes the claims and the decided approvals of runs that have none left. No run may be active.
        """
        ...


class SessionRows(Protocol):
    async def create(self, record: SessionRecord, owner: str, *, is_complete: bool = True) -> Lease:
        """Create the row and its first lease, epoch 1. Its first event will have the seq `record.first_seq`.

        Unless it `is_complete`, neither `get` nor a list has it until a batch sets its state.
        """
        ...

    async def incomplete(self) -> list[str]:
        """Sessions whose creation or deletion has not ended, by whichever process it is done."""
        ...

    async def get(self, session_id: str) -> SessionRecord | None: ...

    async def newest(self, limit: int, root_path: str | None = None) -> list[SessionRecord]:
        """Most recently used first."""
        ...

    async def find(self, query: SessionQuery) -> list[SessionRecord]:
        """The sessions that match, most recently used first."""
        ...

    async def active(self) -> list[SessionRecord]:
        """Sessions in state running or awaiting_approval, on any node."""
        ...

    async def usage_of(self, user: str, day: int) -> UserUsage:
        """A user's sessions, and what they cost on a day; sessions that were deleted count in the cost."""
        ...

    async def cost_of(self, day: int) -> float:
        """What all sessions cost on a day; sessions that were deleted count, too."""
        ...

    async def delete(self, session_id: str, epoch: int | None = None) -> bool:
        """Remove a session; Fenced if an epoch is named and another process took the session since."""
        ...


class Leases(Protocol):
    async def acquire(self, session_id: str, owner: str) -> Lease | None:
        """Take the session, with a higher epoch; None while a living process holds it."""
        ...

    async def release(self, lease: Lease) -> None: ...

    async def renew(self, owner: str) -> None:
        """Record that the owner is alive; this renews all its leases."""
        ...


class InboxStore(Protocol):
    @property
    def is_inbox_private(self) -> bool:
        """Whether nobody but the process that holds a session puts items into its inbox."""
        ...

    async def put(self, session_id: str, key: str, kind: str, body: bytes, limit: int) -> int | None:
        """Queue an item once per key; return its position (1 = next), or None if `limit` items are already queued.

        0 for a key that a batch of this session had: nothing is queued. A batch that takes an item for a run has its
        key; without it the item was taken back, and may be queued again.
        """
        ...

    async def waiting(self, session_id: str) -> list[InboxItem]: ...


DECISIONS = events_where(lambda facts: facts.decides)


class ApprovalStore(Protocol):
    async def approval(self, approval_id: str) -> ApprovalRecord | None: ...

    async def decisions(
        self, limit: int, session_id: str | None = None, since: int = 0, user: str | None = None
    ) -> list[Event]:
        """The newest events of the `DECISIONS` types since a time, of one session, one user or all; newest last."""
        ...


class BlobStore(Protocol):
    """Content-addressed texts and bytes; a blob id is the SHA-256 of what it names."""

    async def put_blob(self, content: bytes) -> str: ...

    async def has_blob(self, session_id: str, blob: str) -> bool:
        """Whether an event of this session names it, or it was brought for this session."""
        ...

    async def hold_blob(self, session_id: str, blob: str) -> None:
        """It is brought for this session, by its id: it is kept for a day, and for as long as a message waits that
        names it, and from then on with the event that does."""
        ...

    async def sweep_blobs(self) -> None:
        """Remove what was brought long ago and what nothing names."""
        ...

    async def read_blob(self, blob: str, offset: int = 0, limit: int | None = None) -> tuple[bytes, int] | None:
        """A part, and the total size; None for an unknown blob."""
        ...


class TokenStore(Protocol):
    async def put_token(self, token: TokenRecord) -> bool:
        """Store a token; False, and nothing stored, if the one that minted it no longer exists."""
        ...

    async def token(self, token_hash: str) -> TokenRecord | None: ...

    async def tokens(self, session_id: str) -> list[TokenRecord]: ...

    async def use_link(self, token_hash: str) -> bool:
        """Turn a link into a used one; False if it is none, or was used before. Of several callers, one gets True."""
        ...

    async def revoke(self, token_hash: str) -> list[str]:
        """Remove a token and, in any session, those that it minted, directly or not; return what was removed."""
        ...


class Documents(Protocol):
    """Small texts that all daemons of a shared log have in common, each with a version that rises with every change."""

    async def read_document(self, name: str) -> tuple[str, int] | None:
        """The text and its version; None if there is none."""
        ...

    async def write_document(self, name: str, content: str, version: int) -> bool:
        """Replace the text of this version (0 for none); False, and nothing changed, if another one is stored."""
        ...


class Log(EventLog, SessionRows, Leases, InboxStore, ApprovalStore, BlobStore, TokenStore, Protocol):
    """The complete store. A log has more methods than other classes: it is composed of these interfaces."""

    def has_room(self) -> bool:
        """Whether the disk has room for the next side effect and its record."""
        ...

    async def close(self) -> None: ...

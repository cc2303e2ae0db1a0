"""Memory as the rest of Buddy sees it: it is notified of committed events, indexes them later, and recalls.

Invariants: it is off the hot path (a listener only notes which session has news); it is a cache that catches up from
the log with a cursor per session; its failures are logged and never reach a run; the embedder, which takes longer to
load than a run to start, is loaded a while after it was first missed, or when somebody waits for it: a search does, and
a recall, for a moment, if the words of the prompt found nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import apsw

from buddy.errors import BuddyError
from buddy.log.contract import Log, SessionRecord
from buddy.memory.access import IndexAccess
from buddy.memory.embedders import Embedder
from buddy.memory.hybrid import Weights
from buddy.memory.index import Index, IndexProgress, MemoryHit, MemoryScope, Page
from buddy.memory.recall import memory_block
from buddy.memory.schema import FILE
from buddy.memory.search import MemoryQuery, Search
from buddy.memory.sources import REMEMBERED, SessionText, project_of, text_in
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody, SessionCompacted

PAGE = 100
BATCH = 16
BACKLOG = 200
TOGETHER = 16
"""Sessions that are indexed in one transaction."""
RECALL_SECONDS = 2.0
EMBEDDER_SECONDS = 1.0
"""How long a recall that found nothing by words waits for the embedder and for missing vectors."""
CLOSE_SECONDS = 2.0
EMBEDDER_AFTER = 2.0
# A run does not recall its own messages, so nothing is lost by waiting for its end.
_PAUSES = frozenset({"run_complete", "session_compacted"})
_READ = REMEMBERED | {"session_compacted"}

log = logging.getLogger("buddy.memory")

ReadBody = Callable[[Event], Awaitable[EventBody | None]]
Recall = Callable[[str], Awaitable[str]]


class Memory:
    """`read_body` returns an event's body with its long texts restored; `embedder` is a factory, as it may be slow.

    `is_shared`: other daemons write to the same log, so what they recorded is indexed after each run of this one.
    """

    def __init__(
        self,
        state_dir: Path,
        store: Log,
        read_body: ReadBody,
        *,
        embedder: Callable[[], Embedder | None],
        weights: Weights | None = None,
        top_k: int = 8,
        is_shared: bool = False,
    ) -> None:
        self._access = IndexAccess(state_dir / FILE, weights or Weights())
        self._store = store
        self._read_body = read_body
        self._make_embedder = embedder
        self._top_k = top_k
        self._is_shared = is_shared
        self._news: dict[str, None] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._embedder: Embedder | None = None
        self._loading: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    # --- remembering ------------------------------------------------------------------------------------------------

    def observe(self, events: Sequence[Event]) -> None:
        """Note that a session has news; they are indexed when its run is over, not during it."""
        if self._closing:
            return
        for event in events:
            if event.type in _PAUSES:
                self._news[event.session_id] = None
                self._wake()

    async def catch_up(self) -> None:
        """Index what happened while nothing was listening, the latest sessions first; returns when that is done."""
        await self._wait_embedder()
        await self._catch_up()

    async def _catch_up(self) -> None:
        newest = await self._store.newest(BACKLOG)
        for start in range(0, len(newest), TOGETHER):
            if self._closing:
                return
            await self._read(newest[start : start + TOGETHER])
        await self._embed()

    async def forget(self, chunk: int) -> bool:
        index = (await self._access.wait_open())[0]
        return await self._access.write(partial(index.forget, chunk))

    async def forget_session(self, session_id: str, *, exists: bool = True) -> int:
        index = (await self._access.wait_open())[0]
        return await self._access.write(partial(index.forget_session, session_id, exists=exists))

    # --- recalling --------------------------------------------------------------------------------------------------

    async def search(self, text: str, scope: MemoryScope, limit: int | None = None) -> list[MemoryHit]:
        """Everything that matches, also by meaning if there is an embedder."""
        await self._wait_embedder()
        return (await self._find(text, scope, limit))[0]

    async def embedder_name(self) -> str | None:
        """The model of the search by meaning; None if the search is by words alone."""
        embedder = await self._wait_embedder()
        return embedder.name if embedder else None

    def recaller(self, session_id: str, project: str) -> Recall:
        """A function from a prompt of this session to its memory block, which may be empty.

        Until the embedder is loaded, the search is by words; only if that finds nothing does a run wait for it. The
        index is opened now, before anything waits for it.
        """
        self._access.open_soon()

        async def recall(prompt: str) -> str:
            scope = MemoryScope(project=project, unless=session_id)
            try:
                async with asyncio.timeout(RECALL_SECONDS):
                    found, may_find_more = await self._find(prompt, scope)
                    if not found and may_find_more:
                        found = await self._find_by_meaning(prompt, scope)
                    return memory_block(found)
            except (TimeoutError, apsw.Error, BuddyError, OSError, RuntimeError) as error:
                log.warning("nothing recalled: %s", str(error) or type(error).__name__)
                return ""

        return recall

    async def close(self) -> None:
        """Index the last news if that is quick; the rest waits in the log for the next start."""
        self._closing = True
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        if self._task is not None:
            self._changed.set()
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._access.close()

    # --- internals --------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._changed.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="memory")

    async def _work(self) -> None:
        is_behind = True
        while True:
            try:
                await self._index_news()
                if is_behind and not self._closing:
                    await self._catch_up()
                    is_behind = self._is_shared  # other daemons record sessions, too
            except (apsw.Error, BuddyError, OSError, RuntimeError) as error:
                log.warning("indexing failed, retrying with the next event: %s", error)
            if self._closing and not self._news:
                return
            await self._changed.wait()

    async def _index_news(self) -> None:
        self._changed.clear()
        while self._news:
            session_ids = list(islice(self._news, TOGETHER))
            for session_id in session_ids:
                del self._news[session_id]
            try:
                found = [await self._store.get(session_id) for session_id in session_ids]
                await self._read([record for record in found if record is not None])
            except BaseException:
                self._news |= dict.fromkeys(session_ids)
                raise
        if not self._closing:
            await self._embed()

    async def _read(self, records: Sequence[SessionRecord]) -> None:
        """Index these sessions, a page of each at a time: each hop to the index's thread covers all of them."""
        index = (await self._access.wait_open())[0]
        known = await self._access.write(partial(index.progress_of, [record.session_id for record in records]))
        unread = _unread(zip(records, known, strict=True))
        while unread:
            read = [(record, await _read_page(self._store, self._read_body, record, known)) for record, known in unread]
            pages = [page for _, page in read if page is not None]
            await self._access.write(partial(index.add, *pages))
            unread = _unread((record, page.read) for record, page in read if page is not None)

    async def _embed(self) -> None:
        """Compute missing vectors, a few at a time, so that news and `close` are noticed in between."""
        index, search = await self._access.wait_open()
        self._load_soon(index, search)
        embedder = self._embedder
        while embedder is not None and not self._closing and not self._news:
            if not await self._access.write(partial(_embed_some, index, embedder)):
                return

    async def _find(self, text: str, scope: MemoryScope, limit: int | None = None) -> tuple[list[MemoryHit], bool]:
        """What was found, and whether there is anything in scope that could be found."""
        index, search = await self._access.wait_open()
        self._load_soon(index, search)
        question = MemoryQuery(text, scope, limit or self._top_k)
        found, is_anything = await self._access.read(partial(_search, search, question))
        while self._is_shared and (gone := await _deleted(self._store, {hit.session for hit in found})):
            for session_id in gone:
                await self.forget_session(session_id)
            found, is_anything = await self._access.read(partial(_search, search, question))
        return found, is_anything

    async def _find_by_meaning(self, text: str, scope: MemoryScope) -> list[MemoryHit]:
        """Search again once the embedder is loaded, unless it was."""
        if self._embedder is not None:
            return []
        with suppress(TimeoutError):
            async with asyncio.timeout(EMBEDDER_SECONDS):
                await self._wait_embedder()
                await self._embed()
        return (await self._find(text, scope))[0] if self._embedder is not None else []

    async def _wait_embedder(self) -> Embedder | None:
        """Load the embedder now if it is not loaded yet, and return it."""
        self._wanted.set()
        self._load_soon(*await self._access.wait_open())
        if self._loading is not None:
            await asyncio.shield(self._loading)
        return self._embedder

    def _load_soon(self, index: Index, search: Search) -> None:
        if self._loading is None and not self._closing:
            self._loading = asyncio.get_running_loop().create_task(self._load(index, search))

    async def _load(self, index: Index, search: Search) -> None:
        def make() -> Embedder | None:
            embedder = self._make_embedder()
            if embedder is not None:
                index.use_model(embedder.name)
            return embedder

        with suppress(TimeoutError):
            async with asyncio.timeout(EMBEDDER_AFTER):
                await self._wanted.wait()
        try:
            self._embedder = search.embedder = await self._access.write(make)
        except (apsw.Error, BuddyError, OSError, RuntimeError) as error:
            log.warning("can't load the embedder, searching by words alone: %s", error)
        if self._embedder is not None:
            self._wake()


def _search(search: Search, question: MemoryQuery) -> tuple[list[MemoryHit], bool]:
    found = search.find(question)
    return found, bool(found) or search.has_chunks(question.scope)


def _embed_some(index: Index, embedder: Embedder) -> bool:
    waiting = index.unembedded(BATCH)
    if waiting:
        rows = embedder.embed([text for _, text in waiting])
        index.put_vectors([(chunk, row.tobytes()) for (chunk, _), row in zip(waiting, rows, strict=True)])
    return bool(waiting)


def _unread(
    sessions: Iterable[tuple[SessionRecord, IndexProgress]],
) -> list[tuple[SessionRecord, IndexProgress]]:
    """Those that have more to read."""
    return [(record, known) for record, known in sessions if not known.is_forgotten and known.seq < record.last_seq]


async def _read_page(store: Log, read_body: ReadBody, record: SessionRecord, progress: IndexProgress) -> Page | None:
    """What a session said after what is indexed, up to a page; None if it cannot be read, which others do not suffer
    from."""
    try:
        events = await store.read(record.session_id, progress.seq, PAGE, _READ, record.last_seq)
        said, compacted = await _texts_in(events, read_body)
    except (apsw.Error, BuddyError, OSError, RuntimeError) as error:
        log.warning("%s cannot be indexed: %s", record.session_id, error)
        return None
    last_seq = events[-1].seq if len(events) == PAGE else record.last_seq
    read = IndexProgress(last_seq, compacted or progress.compacted)
    return Page(record.session_id, project_of(record.repo.root_path, record.user), said, progress.seq, read)


async def _texts_in(events: Sequence[Event], read_body: ReadBody) -> tuple[list[SessionText], int]:
    said: list[SessionText] = []
    compacted = 0
    for event in events:
        body = await read_body(event)
        if isinstance(body, SessionCompacted):
            compacted = body.through_seq
        found = text_in(event.seq, event.ts, body) if body is not None else None
        if found is not None:
            said.append(found)
    return said, compacted


async def _deleted(store: Log, session_ids: set[str]) -> list[str]:
    """Those that are no longer in the log: another daemon deleted them, and its hint was lost."""
    return [session_id for session_id in session_ids if await store.get(session_id) is None]

"""Memory as the rest of Buddy sees it: it hears of what was committed, reads it up in its own time, and recalls.

What always holds: it is beside the hot path (a listener only notes which session has news); it is a cache that catches
up from the log by a cursor per session; whatever fails in it is logged once and never reaches a run; the embedder,
which takes longer to load than a run to start, is loaded a while after it was first missed, or when it is waited for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from buddy.errors import BuddyError
from buddy.log.contract import Log, SessionRecord
from buddy.memory.embedders import Embedder
from buddy.memory.hybrid import Weights
from buddy.memory.index import Found, Index, Progress, Scope
from buddy.memory.recall import block_of
from buddy.memory.schema import FILE
from buddy.memory.search import Question, Search
from buddy.memory.sources import REMEMBERED, Said, said_in
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody, SessionCompacted

PAGE = 500
BATCH = 16
BACKLOG = 200
RECALL_SECONDS = 2.0
CLOSE_SECONDS = 2.0
EMBEDDER_AFTER = 2.0
# A run does not recall what it said itself, so nothing is lost by waiting for its end.
_PAUSES = frozenset({"run_complete", "session_compacted"})

log = logging.getLogger("buddy.memory")

Whole = Callable[[Event], Awaitable[EventBody | None]]
Recall = Callable[[str], Awaitable[str]]
Result = TypeVar("Result")


class Memory:
    """`whole` gives an event's body with its long texts put back; `embedder` may be slow to make, so it is a maker."""

    def __init__(
        self,
        state_dir: Path,
        store: Log,
        whole: Whole,
        *,
        embedder: Callable[[], Embedder | None],
        weights: Weights | None = None,
        top_k: int = 8,
    ) -> None:
        self._path = state_dir / FILE
        self._store = store
        self._whole = whole
        self._make_embedder = embedder
        self._weights = weights or Weights()
        self._top_k = top_k
        self._news: dict[str, None] = {}
        self._heard = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._index: Index | None = None
        self._search: Search | None = None
        self._embedder: Embedder | None = None
        # One thread for each connection: a search does not wait for what is being indexed.
        self._writer = ThreadPoolExecutor(1, "memory-write")
        self._reader = ThreadPoolExecutor(1, "memory-read")
        self._opening: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    # --- what is remembered -----------------------------------------------------------------------------------------

    def heard(self, events: Sequence[Event]) -> None:
        """Note that a session has news; they are read up when its run is over, not beside it."""
        if self._closing:
            return
        for event in events:
            if event.type in REMEMBERED or event.type in _PAUSES:
                self._news[event.session_id] = None
            if event.type in _PAUSES:
                self._wake()

    async def catch_up(self) -> None:
        """Read what was said while nobody listened, the latest sessions first; returns when that is done."""
        await self._loaded()
        await self._catch_up()

    async def _catch_up(self) -> None:
        for record in await self._store.newest(BACKLOG):
            if self._closing:
                return
            await self._read(record)
        await self._embed()

    async def forget(self, chunk: int) -> bool:
        index = (await self._opened())[0]
        return await self._write(partial(index.forget, chunk))

    async def forget_session(self, session_id: str) -> int:
        index = (await self._opened())[0]
        return await self._write(partial(index.forget_session, session_id))

    # --- what is recalled -------------------------------------------------------------------------------------------

    async def search(self, text: str, scope: Scope, limit: int | None = None) -> list[Found]:
        """Everything that is found, also by meaning where there is an embedder."""
        await self._loaded()
        return await self._find(text, scope, limit)

    async def embedder_name(self) -> str | None:
        """The model behind the search by meaning; None where the search is by words alone."""
        embedder = await self._loaded()
        return embedder.name if embedder else None

    def recaller(self, session_id: str, project: str) -> Recall:
        """What a prompt is given for one session: the block of what is worth recalling, or nothing.

        A run does not wait for the embedder: until it is there, what is recalled is found by words. The index is opened
        now, while there is nothing to wait for yet.
        """
        self._open_soon()

        async def recall(prompt: str) -> str:
            scope = Scope(project=project, unless=session_id)
            try:
                async with asyncio.timeout(RECALL_SECONDS):
                    return block_of(await self._find(prompt, scope))
            except (TimeoutError, apsw.Error, BuddyError, OSError, RuntimeError) as error:
                log.warning("nothing recalled: %s", str(error) or type(error).__name__)
                return ""

        return recall

    async def close(self) -> None:
        """Take up the last news where that is quick; the rest waits in the log for the next start."""
        self._closing = True
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        if self._task is not None:
            self._heard.set()
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._opening is not None:
            await asyncio.wait([self._opening])
        for end in (self._index, self._search):
            if end is not None:
                executor = self._writer if end is self._index else self._reader
                await asyncio.get_running_loop().run_in_executor(executor, end.close)
        self._writer.shutdown(wait=False)
        self._reader.shutdown(wait=False)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._heard.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="memory")

    async def _work(self) -> None:
        is_behind = True
        while True:
            try:
                await self._take_up()
                if is_behind and not self._closing:
                    await self._catch_up()
                    is_behind = False
            except (apsw.Error, BuddyError, OSError, RuntimeError) as error:
                log.warning("memory waits for the next news: %s", error)
            if self._closing and not self._news:
                return
            await self._heard.wait()

    async def _take_up(self) -> None:
        self._heard.clear()
        while self._news:
            session_id = next(iter(self._news))
            del self._news[session_id]
            record = await self._store.get(session_id)
            if record is not None:
                await self._read(record)
        if not self._closing:
            await self._embed()

    async def _read(self, record: SessionRecord) -> None:
        index = (await self._opened())[0]
        progress = await self._write(partial(index.progress, record.session_id))
        while not progress.is_forgotten and progress.seq < record.last_seq:
            events = await self._store.read(record.session_id, progress.seq, PAGE)
            if not events:
                return
            said, compacted = await self._said_in(events)
            read = Progress(events[-1].seq, compacted or progress.compacted)
            await self._write(partial(index.add, record.session_id, record.repo.root_path, said, progress.seq, read))
            progress = read

    async def _said_in(self, events: Sequence[Event]) -> tuple[list[Said], int]:
        said: list[Said] = []
        compacted = 0
        for event in events:
            if event.type not in REMEMBERED and event.type != "session_compacted":
                continue
            body = await self._whole(event)
            if isinstance(body, SessionCompacted):
                compacted = body.through_seq
            found = said_in(event.seq, event.ts, body) if body is not None else None
            if found is not None:
                said.append(found)
        return said, compacted

    async def _embed(self) -> None:
        """Vectors for what has none, a few at a time, so that news and an end are seen between them."""
        index, search = await self._opened()
        self._load_soon(index, search)
        embedder = self._embedder
        while embedder is not None and not self._closing and not self._news:
            if not await self._write(partial(_embed_some, index, embedder)):
                return

    async def _find(self, text: str, scope: Scope, limit: int | None = None) -> list[Found]:
        index, search = await self._opened()
        self._load_soon(index, search)
        question = Question(text, scope, limit or self._top_k)
        return await asyncio.get_running_loop().run_in_executor(self._reader, search.find, question)

    async def _opened(self) -> tuple[Index, Search]:
        await asyncio.shield(self._open_soon())
        if self._index is None or self._search is None:
            raise BuddyError("the memory index is not open")
        return self._index, self._search

    def _open_soon(self) -> "asyncio.Task[None]":
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
            # Whoever waits for it is told; where nobody does, it is nobody's business.
            self._opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._opening

    async def _open(self) -> None:
        self._index = await self._write(partial(Index, self._path))
        self._search = await asyncio.get_running_loop().run_in_executor(
            self._reader, Search, self._path, None, self._weights
        )

    async def _loaded(self) -> Embedder | None:
        """The embedder, loaded now where it was not."""
        self._wanted.set()
        self._load_soon(*await self._opened())
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
            self._embedder = search.embedder = await self._write(make)
        except (apsw.Error, BuddyError, OSError, RuntimeError) as error:
            log.warning("the search is by words alone: %s", error)
        if self._embedder is not None:
            self._wake()

    async def _write(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)


def _embed_some(index: Index, embedder: Embedder) -> bool:
    waiting = index.unembedded(BATCH)
    if waiting:
        rows = embedder.embed([text for _, text in waiting])
        index.put_vectors([(chunk, row.tobytes()) for (chunk, _), row in zip(waiting, rows, strict=True)])
    return bool(waiting)

"""The index in one file: chunks by words and by vectors, and how far each session was read.

Invariants: a text is stored once per project, under its latest occurrence; reading a session twice adds nothing; what
was forgotten stays forgotten as long as the file exists. Everything here blocks: it runs in a thread.
"""

import hashlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
from msgspec import Struct
from msgspec.structs import replace

from buddy.log.database import Database, Value
from buddy.memory.chunks import split_chunks
from buddy.memory.schema import open_index
from buddy.memory.sources import SessionText


class MemoryScope(Struct, frozen=True):
    """Where to search: everywhere, in a project, or in a session; not in what `unless` still has in its context."""

    project: str | None = None
    session: str | None = None
    unless: str | None = None


class MemoryHit(Struct, frozen=True):
    """A chunk and its latest occurrence."""

    chunk: int
    session: str
    seq: int
    ts: int
    role: str
    text: str
    project: str
    score: float = 0.0


class IndexProgress(Struct, frozen=True):
    """How far a session was read; up to `compacted`, its own context no longer has the exact words."""

    seq: int
    compacted: int = 0
    is_forgotten: bool = False


class Page(Struct, frozen=True):
    """What a session said after the seq `before`, and the progress that it makes."""

    session: str
    project: str
    said: Sequence[SessionText]
    before: int
    read: IndexProgress


class Index:
    def __init__(self, path: Path) -> None:
        self._db: Database = open_index(path)
        self._must_erase = False

    def close(self) -> None:
        self._db.close()

    def progress_of(self, sessions: Iterable[str]) -> list[IndexProgress]:
        return [self.progress(session) for session in sessions]

    def progress(self, session: str) -> IndexProgress:
        found = self._db.execute("SELECT seq, compacted, forgotten FROM sessions WHERE session = ?", (session,)).get
        return IndexProgress(found[0], found[1], bool(found[2])) if found else IndexProgress(0)

    def add(self, *pages: Page) -> None:
        """Add what sessions said, all of it at once; nothing of a page that another process has read meanwhile."""
        chunks = [_latest_chunks(page.said) for page in pages]
        with self._writing():
            for page, said in zip(pages, chunks, strict=True):
                now = self.progress(page.session)
                if now.seq == page.before and not now.is_forgotten:
                    self._add_page(page, said)

    def _add_page(self, page: Page, said: Mapping[str, SessionText]) -> None:
        for chunk, text in said.items():
            self._add_chunk(page.session, page.project, text, chunk)
        self._db.execute(
            "INSERT INTO sessions (session, project, seq, compacted) VALUES (?, ?, ?, ?) ON CONFLICT (session) "
            "DO UPDATE SET seq = excluded.seq, compacted = excluded.compacted",
            (page.session, page.project, page.read.seq, page.read.compacted),
        )

    def forget(self, chunk: int) -> bool:
        """Remove a chunk for good."""
        found = self._db.execute("SELECT project, hash FROM chunks WHERE id = ?", (chunk,)).get
        if found is None:
            return False
        with self._writing():
            self._db.execute("INSERT OR IGNORE INTO forgotten VALUES (?, ?)", found)
            self._remove([chunk])
        self._erase_log()
        return True

    def forget_session(self, session: str, *, exists: bool = True) -> int:
        """Remove what was last said in this session, and do not read it again; returns the number of chunks.

        Of one that does not exist, nothing is noted.
        """
        with self._writing():
            chunks = _list(self._db.execute("SELECT id FROM chunks WHERE session = ?", (session,)).get)
            self._remove(chunks)
            if chunks or exists:
                self._db.execute(
                    "INSERT INTO sessions (session, project, forgotten) VALUES (?, '', 1) ON CONFLICT (session) "
                    "DO UPDATE SET forgotten = 1",
                    (session,),
                )
        if chunks:
            self._erase_log()
        return len(chunks)

    # --- vectors ---

    def use_model(self, name: str) -> None:
        """Vectors of different models can't be compared: those of another model are recomputed."""
        known = self._db.execute("SELECT value FROM facts WHERE name = 'model'").get
        if known == name:
            return
        with self._writing():
            self._db.execute("DELETE FROM vectors")
            self._db.execute("INSERT OR IGNORE INTO unembedded SELECT id FROM chunks")
            self._db.execute("INSERT OR REPLACE INTO facts VALUES ('model', ?)", (name,))

    def unembedded(self, limit: int) -> list[tuple[int, str]]:
        """Chunks without a vector, the newest first."""
        found = self._db.execute(
            "SELECT chunks.id, text FROM unembedded JOIN chunks ON chunks.id = unembedded.chunk "
            "ORDER BY unembedded.chunk DESC LIMIT ?",
            (limit,),
        )
        return list(found)

    def put_vectors(self, vectors: Sequence[tuple[int, bytes]]) -> None:
        with self._writing():
            # Only for existing chunks: one may have been forgotten while its vector was computed.
            self._db.executemany(
                "INSERT OR REPLACE INTO vectors (chunk, vector) SELECT id, ?2 FROM chunks WHERE id = ?1", list(vectors)
            )
            self._db.executemany("DELETE FROM unembedded WHERE chunk = ?", [(chunk,) for chunk, _ in vectors])

    # --- internals ---

    def _erase_log(self) -> None:
        """Empty the write-ahead log, in which forgotten texts could still be read; after the next write, if a reader
        of another process needs it now."""
        self._must_erase = True
        with suppress(apsw.Error):
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._must_erase = False

    @contextmanager
    def _writing(self) -> Generator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        if self._must_erase:
            self._erase_log()

    def _add_chunk(self, session: str, project: str, said: SessionText, chunk: str) -> None:
        digest = hashlib.sha256(chunk.encode(errors="replace")).digest()[:16]
        if self._db.execute("SELECT 1 FROM forgotten WHERE project = ? AND hash = ?", (project, digest)).get:
            return
        known = self._db.execute("SELECT id FROM chunks WHERE project = ? AND hash = ?", (project, digest)).get
        if known is not None:
            moved: tuple[Value, ...] = (session, said.seq, said.ts, known)
            self._db.execute("UPDATE chunks SET session = ?, seq = ?, ts = ? WHERE id = ?", moved)
            return
        added: tuple[Value, ...] = (project, session, said.seq, said.ts, said.role, digest, chunk)
        new = self._db.execute(
            "INSERT INTO chunks (project, session, seq, ts, role, hash, text) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "RETURNING id",
            added,
        ).get
        self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (new, chunk))
        self._db.execute("INSERT INTO unembedded VALUES (?)", (new,))

    def _remove(self, chunks: Sequence[int]) -> None:
        for chunk in chunks:
            self._db.execute(
                "INSERT INTO words (words, rowid, text) SELECT 'delete', id, text FROM chunks WHERE id = ?", (chunk,)
            )
            for table, column in (("chunks", "id"), ("vectors", "chunk"), ("unembedded", "chunk")):
                self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (chunk,))  # noqa: S608 - our own names


def _latest_chunks(said: Iterable[SessionText]) -> dict[str, SessionText]:
    """The chunks of the texts, each once: under its latest occurrence, in the role of its first."""
    found: dict[str, SessionText] = {}
    for text in said:
        for chunk in split_chunks(text.text):
            first = found.get(chunk)
            found[chunk] = text if first is None else replace(text, role=first.role)
    return found


def _list(found: "int | list[int] | None") -> list[int]:
    """apsw returns a single value without a list."""
    if found is None:
        return []
    return [found] if isinstance(found, int) else found

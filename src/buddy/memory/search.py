"""Searches the index: by words, by meaning if there is an embedder, and both merged.

Invariants: it only reads, on a connection of its own, so that it never waits for indexing.
Everything here blocks: it runs in a thread.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from buddy.log.database import Database, Value
from buddy.memory.embedders import Embedder
from buddy.memory.hybrid import Weights, merge_scores, rank
from buddy.memory.index import MemoryHit, MemoryScope
from buddy.memory.schema import open_index_reader
from buddy.memory.words import WordCount, all_of, any_of, are_common, count_words

if TYPE_CHECKING:
    from buddy.memory.vectors import VectorTables

CANDIDATES = 4
MOST_SCANNED = 20_000
"""The newest occurrences of common words that are looked at, in the project or not."""

_IN_SCOPE = (
    "(?2 IS NULL OR chunks.project = ?2) AND (?3 IS NULL OR chunks.session = ?3) AND (?4 IS NULL OR chunks.session <> "
    "?4 OR chunks.seq <= coalesce((SELECT compacted FROM sessions WHERE session = ?4), 0))"
)
_ANY = f"SELECT 1 FROM chunks WHERE project = ?1 AND {_IN_SCOPE} LIMIT 1"  # noqa: S608 - our own text
_BY_WORDS = f"""
SELECT chunks.id, -bm25(words) FROM words JOIN chunks ON chunks.id = words.rowid
WHERE words MATCH ?1 AND {_IN_SCOPE} ORDER BY bm25(words) LIMIT ?5
"""  # noqa: S608 - our own text
_NEWEST = f"""
SELECT found.id FROM (
  SELECT rowid AS id FROM words WHERE words MATCH ?1
  AND rowid BETWEEN (SELECT min(id) FROM chunks WHERE %s) AND (SELECT max(id) FROM chunks WHERE %s)
  ORDER BY rowid DESC LIMIT ?6
) AS found CROSS JOIN chunks ON chunks.id = found.id WHERE {_IN_SCOPE} LIMIT ?5
"""  # noqa: S608 - our own text
_FOUND = f"""
SELECT id, session, seq, ts, role, text, project FROM chunks
WHERE id IN (SELECT value FROM json_each(?1)) AND {_IN_SCOPE}
"""  # noqa: S608 - our own text


class MemoryQuery(Struct, frozen=True):
    text: str
    scope: MemoryScope
    limit: int = 8


class Search:
    """Searches by words alone until `embedder` is set."""

    def __init__(self, path: Path, embedder: Embedder | None, weights: Weights) -> None:
        self._db: Database = open_index_reader(path)
        self.embedder = embedder
        self._weights = weights
        self._tables: VectorTables | None = None

    def close(self) -> None:
        self._db.close()

    def find(self, question: MemoryQuery) -> list[MemoryHit]:
        """The best matches, best first; ties by recency."""
        if not self.has_chunks(question.scope):
            return []
        wanted = question.limit * CANDIDATES
        by_words = self._by_words(question, wanted)
        by_meaning = self._by_meaning(question, wanted)
        known = self._load_hits({**by_words, **by_meaning}, question.scope)
        scores = merge_scores(
            {chunk: score for chunk, score in by_meaning.items() if chunk in known},
            {chunk: score for chunk, score in by_words.items() if chunk in known},
            self._weights,
        )
        best = rank(scores, {chunk: (found.ts, found.seq) for chunk, found in known.items()})
        return [replace(known[chunk], score=round(scores[chunk], 4)) for chunk in best[: question.limit]]

    def has_chunks(self, scope: MemoryScope) -> bool:
        """Whether anything of the project is in scope: cheaper to check than to search. Without a project, True."""
        if scope.project is None:
            return True
        return self._db.execute(_ANY, (scope.project, *_bindings(scope))).get is not None

    def _by_words(self, question: MemoryQuery, wanted: int) -> dict[int, float]:
        words = count_words(question.text, self._rows_with)
        if are_common(words):
            return self._newest(words, question.scope, wanted)
        query = any_of(words)
        return dict(self._db.execute(_BY_WORDS, (query, *_bindings(question.scope), wanted))) if query else {}

    def _newest(self, words: Sequence[WordCount], scope: MemoryScope, wanted: int) -> dict[int, float]:
        """The newest chunks that have all of these words, before those that have only the rarest."""
        own = "session = ?3" if scope.session else "project = ?2" if scope.project else "1"
        found: dict[int, float] = {}
        for score, part in ((2.0, words), (1.0, words[:1])) if len(words) > 1 else ((1.0, words),):
            bindings = (all_of(part), *_bindings(scope), wanted, MOST_SCANNED)
            rows = self._db.execute(_NEWEST.replace("%s", own), bindings)
            found = {**{chunk: score for (chunk,) in rows}, **found}
        return found

    def _rows_with(self, stem: str) -> int:
        return self._db.execute("SELECT doc FROM vocabulary WHERE term = ?", (stem,)).get or 0

    def _by_meaning(self, question: MemoryQuery, wanted: int) -> dict[int, float]:
        embedder, scope = self.embedder, question.scope
        if embedder is None or self._db.execute("SELECT value FROM facts WHERE name = 'model'").get != embedder.name:
            return {}
        vector = embedder.embed([question.text])[0]
        # Chunks that are still in the session's own context are found here too, so there must be room for them.
        wanted += int(self._db.execute("SELECT count(*) FROM chunks WHERE session = ?", (scope.unless,)).get)
        place = scope.project, scope.session
        found = self._vector_tables().nearest(self._db, place, vector, wanted, model=embedder.name)
        return {chunk: score for chunk, score in found.items() if score >= embedder.floor}

    def _vector_tables(self) -> "VectorTables":
        if self._tables is None:
            from buddy.memory.vectors import VectorTables

            self._tables = VectorTables()
        return self._tables

    def _load_hits(self, chunks: dict[int, float], scope: MemoryScope) -> dict[int, MemoryHit]:
        listed = "[" + ",".join(map(str, chunks)) + "]"
        rows = self._db.execute(_FOUND, (listed, *_bindings(scope)))
        return {row[0]: MemoryHit(*row) for row in rows}


def _bindings(scope: MemoryScope) -> tuple[Value, ...]:
    return scope.project, scope.session, scope.unless

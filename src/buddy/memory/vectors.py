"""Vectors in memory for search, by project. Needs numpy, which comes with the `[memory]` extra.

Invariants: a table follows the file (new vectors are read before each search) and is bounded, the newest vectors first;
so are all tables together, the least recently used dropped first.
"""

from collections import OrderedDict

from numpy.typing import NDArray

from buddy.log.database import Database
from buddy.memory.arrays import np

Vectors = NDArray[np.float32]

MOST_ROWS = 200_000
MOST_BYTES = 512 * 1024 * 1024

_NEWER = """
SELECT vectors.number, vectors.chunk, vectors.vector FROM vectors JOIN chunks ON chunks.id = vectors.chunk
WHERE vectors.number > ?1 AND (?2 IS NULL OR chunks.project = ?2) AND (?3 IS NULL OR chunks.session = ?3)
ORDER BY vectors.number DESC LIMIT ?4
"""

Place = tuple[str | None, str | None]


def normalise(vectors: Vectors) -> Vectors:
    """Each row at length 1, so that the product of two is their cosine."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)


class VectorTables:
    def __init__(self) -> None:
        self._model = ""
        self._tables: OrderedDict[Place, _VectorTable] = OrderedDict()

    def nearest(self, db: Database, place: Place, question: Vectors, count: int, *, model: str) -> dict[int, float]:
        """The chunks of a project, of a session, or of all, whose vectors are nearest, with their cosine."""
        if model != self._model:
            self._model = model
            self._tables.clear()
        table = self._tables.setdefault(place, _VectorTable(len(question)))
        self._tables.move_to_end(place)
        table.follow(db, place)
        while len(self._tables) > 1 and sum(each.size for each in self._tables.values()) > MOST_BYTES:
            self._tables.popitem(last=False)
        return table.nearest(question, count)


class _VectorTable:
    def __init__(self, width: int) -> None:
        self._width = width
        self._count = 0
        self._last = 0
        self._chunks = np.zeros(0, np.int64)
        self._rows: Vectors = np.zeros((0, width), np.float32)

    @property
    def size(self) -> int:
        return self._rows.nbytes

    def follow(self, db: Database, place: Place) -> None:
        fresh = [
            (number, chunk, blob)
            for number, chunk, blob in db.execute(_NEWER, (self._last, *place, MOST_ROWS))
            if len(blob) == self._width * 4
        ]
        if not fresh:
            return
        self._last = fresh[0][0]
        self._make_room(len(fresh))
        end = self._count + len(fresh)
        self._chunks[self._count : end] = [chunk for _, chunk, _ in fresh]
        joined = b"".join(blob for _, _, blob in fresh)
        self._rows[self._count : end] = np.frombuffer(joined, np.float32).reshape(-1, self._width)
        self._count = end

    def nearest(self, question: Vectors, count: int) -> dict[int, float]:
        scores = self._rows[: self._count] @ question
        best = np.argpartition(-scores, count)[:count] if len(scores) > count else np.arange(len(scores))
        return {int(self._chunks[row]): float(scores[row]) for row in best}

    def _make_room(self, more: int) -> None:
        """Grow by half, so that adding one by one copies little; beyond the limit, the oldest are dropped."""
        surplus = max(0, self._count + more - MOST_ROWS)
        kept = slice(min(surplus, self._count), self._count)
        needed = self._count - kept.start + more
        if surplus or needed > len(self._chunks):
            room = min(needed + needed // 2, max(MOST_ROWS, needed))
            chunks, rows = np.zeros(room, np.int64), np.zeros((room, self._width), np.float32)
            self._count -= kept.start
            chunks[: self._count], rows[: self._count] = self._chunks[kept], self._rows[kept]
            self._chunks, self._rows = chunks, rows

"""Chunks of memory: a recall, by words and by meaning, whether there is anything to recall, and adding a message.

The floor is the same with a hundred chunks.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import apsw

from bench.growing.cpu import least_cpu
from bench.growing.figures import Figure, Part
from bench.setup import Setup
from buddy.log.database import connect
from buddy.memory.hybrid import Weights
from buddy.memory.index import Index, IndexProgress, MemoryScope, Page
from buddy.memory.schema import FILE
from buddy.memory.search import MemoryQuery, Search
from buddy.memory.sources import SessionText

SIZES = (10_000, 100_000, 1_000_000)
FEW = 100
PROJECTS = 20
WORDS = 20_000
QUERIES = 20
# Common words are in most chunks, rare ones in a few: as in what people write.
_CHUNK = "SELECT i, 'project' || (i % ?2), 'sess_' || (i / 50), i, i, 'user', randomblob(16), word(i) FROM n"
_FILL = f"""
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) INSERT INTO chunks
{_CHUNK};
INSERT INTO words (words) VALUES ('rebuild');
"""  # noqa: S608 - constants only


def measure(setup: Setup, count: int) -> Iterator[Figure]:
    floors = list(_take(setup.new_folder("memory") / FILE, FEW))
    for at, (work, value) in enumerate(_take(setup.new_folder("memory") / FILE, count)):
        yield Figure(work, "ms", value, floors[at][1])


def _take(path: Path, count: int) -> Iterator[tuple[str, float]]:
    fill(path, count)
    search, index = Search(path, None, Weights()), Index(path)
    chance = random.Random(1)  # noqa: S311 - made-up text
    questions = [" ".join(_words(chance, 8)) for _ in range(QUERIES)]
    common = MemoryQuery("the word0 of word1", MemoryScope(project="project1"))
    places = (("recall in a project", MemoryScope(project="project1")), ("recall everywhere", MemoryScope()))
    for work, scope in places:
        asked = [MemoryQuery(question, scope) for question in questions]
        yield work, least_cpu(lambda asked=asked: [search.find(one) for one in asked], 3) / QUERIES
    yield "recall by words that most chunks have", least_cpu(lambda: search.find(common))
    yield "whether a project has any", least_cpu(lambda: search.has_chunks(common.scope), times=100)
    texts = iter(range(1, 1000))
    yield "add a message", least_cpu(lambda: _add(index, next(texts)), times=10)
    search.close()
    index.close()


def fill(path: Path, count: int) -> None:
    """Build an index of `count` chunks, straight in its tables."""
    Index(path).close()
    chance = random.Random(2)  # noqa: S311 - made-up text
    texts = [" ".join(_words(chance, 12)) for _ in range(2_000)]

    def text_of(number: int) -> str:
        return f"{texts[number % len(texts)]} word{number % WORDS} only{number}"

    db = connect(path, apsw.SQLITE_OPEN_READWRITE)
    db.create_scalar_function("word", text_of, 1, deterministic=True)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("BEGIN")
    db.execute(_FILL, (count, PROJECTS))
    db.execute("COMMIT")
    db.close()


def _words(chance: random.Random, count: int) -> list[str]:
    return [f"word{int(WORDS * chance.random() ** 3)}" for _ in range(count)]


def _add(index: Index, number: int) -> None:
    said = [SessionText(number, number, "user", f"message {number} about word{number}")]
    index.add(Page(f"sess_new{number}", "project1", said, 0, IndexProgress(1)))


PART = Part("memory", "chunks of memory", SIZES, measure)

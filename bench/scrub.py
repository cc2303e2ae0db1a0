"""Measures the figures of docs/redaction.md on this machine: `python -m bench.scrub [POSITIVES]`.

POSITIVES is a JSON file with a list of texts that each contain a secret (the positives of a public rule set, say): the
share that is redacted is printed too. Throughput is by CPU time; the time for a chunk is by the clock.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Replaces this folder, whose `scrub` is this file.
from tests.scrub import corpora, figures

CHUNK = 16 * 1024
PROSE = ("the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog,", "and", "goes", "on\n")


def main() -> None:
    print(f"leaks of registered values  {figures.leaks(figures.made_up_secrets(100), cuts=20)}")
    show_recall("recall on known formats", figures.recall_of_formats(per_format=20))
    if len(sys.argv) > 1:
        positives: list[str] = json.loads(Path(sys.argv[1]).read_text())
        show_recall(f"recall on {sys.argv[1]}", figures.recall_of_lines(positives))
    scrubber = figures.knowing(figures.made_up_secrets(30))
    kinds = {**corpora.ORDINARY, "lockfile": corpora.lockfile, "hashes and UUIDs": corpora.hashes}
    for name, make in kinds.items():
        text = make()
        rate = figures.megabytes_per_second(scrubber, text)
        print(f"{name:28}{figures.false_hits(text) / len(text) * 1e6:6.1f} false/MB {rate:7.1f} MB/s")
    text = corpora.source()
    pieces = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
    chunks = sorted(time_of(lambda piece=piece: scrubber.text(piece)) for piece in pieces)
    print(f"16 KiB chunk, p99           {chunks[int(len(chunks) * 0.99)] * 1e3:6.2f} ms")
    stream = scrubber.stream()
    words = [
        word + " "
        for word in ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "goes", "on"] * 2000
    ]
    spent = time_of(lambda: [stream.feed(word) for word in words])
    print(f"a word into a stream        {spent / len(words) * 1e6:6.2f} µs")
    show_growth()


def show_growth() -> None:
    """How much longer four times a hostile text takes: about 4 if the time is linear, 16 if it is quadratic."""
    scrubber = figures.knowing(["hunter2hunter2", "aaaaaaaaaa"])
    growth: dict[str, float] = {}
    for name, make in corpora.HOSTILE.items():
        few, many = (figures.megabytes_per_second(scrubber, make(size)) for size in (100_000, 400_000))
        growth[name] = 4 * few / many
    worst = max(growth, key=lambda name: growth[name])
    print(f"4 times a hostile text      {growth[worst]:6.1f} times the time at worst ({worst})")


def show_recall(name: str, recall: figures.Recall) -> None:
    low, high = recall.interval
    print(f"{name:28}{recall.value:.4f} ({recall.found}/{recall.total}; {low:.3f} to {high:.3f})")


def time_of(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()

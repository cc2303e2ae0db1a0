"""Fuzzers: each runs for FUZZ_SECONDS (a minute unless told otherwise) and prints what makes its randomness again."""

import os
import random
import sys
import time
from collections.abc import Iterator

import pytest


class Budget:
    """How long a fuzzer goes on, and its source of randomness. Iterating yields the number of the attempt."""

    def __init__(self, seconds: float, seed: int):
        self.seconds = seconds
        self.seed = seed
        self.random = random.Random(seed)  # noqa: S311 - test input, not secrets

    def __iter__(self) -> Iterator[int]:
        end = time.monotonic() + self.seconds
        attempt = 0
        while attempt == 0 or time.monotonic() < end:
            yield attempt
            attempt += 1


@pytest.fixture
def fuzz() -> Budget:
    """FUZZ_SEED repeats a run that failed."""
    seed = int(os.environ.get("FUZZ_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    budget = Budget(float(os.environ.get("FUZZ_SECONDS", "60")), seed)
    sys.stderr.write(f"FUZZ_SEED={seed}\n")  # pytest shows it with a failure
    return budget

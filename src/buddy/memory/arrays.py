"""numpy limited to one thread: a search takes a few milliseconds, and waking threads for it takes longer."""

import os

_NAME = "OPENBLAS_NUM_THREADS"
_before = os.environ.get(_NAME)
os.environ.setdefault(_NAME, "1")

import numpy as np  # noqa: E402 - it reads the variable at import

if _before is None:
    del os.environ[_NAME]  # child processes decide for themselves

__all__ = ["np"]

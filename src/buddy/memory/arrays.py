"""numpy, told to use one thread: a search is a few milliseconds of work, and waking threads for it takes longer."""

import os

_NAME = "OPENBLAS_NUM_THREADS"
_before = os.environ.get(_NAME)
os.environ.setdefault(_NAME, "1")

import numpy as np  # noqa: E402 - it reads the variable while it is loaded

if _before is None:
    del os.environ[_NAME]  # what we start later is none of our business

__all__ = ["np"]

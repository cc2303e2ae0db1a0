"""The boot clock of this machine: it counts sleep, and nobody can set it."""

import functools
import hashlib
import os
import sys
import time

from buddy.log.owners import boot_id
from buddy.protocol.shapes import BootTime

# Elsewhere the monotonic clock, which may stop while the machine sleeps; the wall clock is compared besides.
_CLOCK = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


def boot_time() -> BootTime:
    return BootTime(_this_boot(), time.clock_gettime_ns(_CLOCK) // 1_000_000)


@functools.cache
def _this_boot() -> str:
    """A name for this boot that does not give away the machine's own id; one for this process if there is none."""
    known = boot_id()
    return hashlib.sha256(known.encode()).hexdigest()[:16] if known else os.urandom(8).hex()

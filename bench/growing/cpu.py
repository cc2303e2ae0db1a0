"""CPU time, of this process or of another one, to the nanosecond: what counts on a machine that others use, too."""

import time
from collections.abc import Awaitable, Callable

TAKES = 5


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far, in all its threads, including those that have ended."""
    # The kernel's number for the CPU clock of a process, as `clock_getcpuclockid` returns it.
    return time.clock_gettime((~pid << 3) | 2)


def least_cpu(work: Callable[[], object], takes: int = TAKES, times: int = 1) -> float:
    """Milliseconds of CPU time of this process for the work: the least of several takes of `times` each."""
    found: list[float] = []
    for _ in range(takes):
        before = time.process_time()
        for _ in range(times):
            work()
        found.append((time.process_time() - before) * 1000 / times)
    return min(found)


async def least_cpu_of(pid: int, work: Callable[[], Awaitable[object]], takes: int = TAKES, times: int = 1) -> float:
    """The same of another process, for which this one asks."""
    found: list[float] = []
    for _ in range(takes):
        before = cpu_of(pid)
        for _ in range(times):
            await work()
        found.append((cpu_of(pid) - before) * 1000 / times)
    return min(found)

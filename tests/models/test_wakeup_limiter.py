"""Responses that arrive together are processed a few at a time, with other tasks in between."""

import asyncio

from buddy.models.http.wakeup_limiter import AT_ONCE, WakeupLimiter


async def test_few_waiters_wake_per_iteration_and_other_tasks_run_between_them() -> None:
    limiter, woken = WakeupLimiter(), list[str]()

    async def wait(name: str, waiter: asyncio.Future[bool]) -> None:
        await waiter
        woken.append(name)

    names = "abcdefghijkl"
    waiters = {name: asyncio.get_running_loop().create_future() for name in names}
    tasks = [asyncio.create_task(wait(name, waiter)) for name, waiter in waiters.items()]
    await asyncio.sleep(0)
    for waiter in waiters.values():
        limiter.wake(waiter)
    while not all(task.done() for task in tasks):
        woken.append("-")
        await asyncio.sleep(0)
    together = "".join(woken).strip("-").split("-")
    assert "".join(together) == names
    assert max(map(len, together)) == AT_ONCE


async def test_a_cancelled_waiter_does_not_block_the_next() -> None:
    limiter = WakeupLimiter()
    first, gone, last = (asyncio.get_running_loop().create_future() for _ in range(3))
    for waiter in (first, gone, last):
        limiter.wake(waiter)
    gone.cancel()
    assert await first and await last


async def test_the_limit_resets_after_a_pause() -> None:
    limiter = WakeupLimiter()
    for _ in range(3):
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        limiter.wake(waiter)
        assert waiter.done()
        await asyncio.sleep(0)

"""Answers that come together are taken up a few at a time, with everybody else heard in between."""

import asyncio

from buddy.models.http.wakeup_limiter import AT_ONCE, WakeupLimiter


async def test_few_go_on_in_each_turn_and_others_are_heard_between_them() -> None:
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


async def test_one_that_gave_up_does_not_keep_the_next_waiting() -> None:
    limiter = WakeupLimiter()
    first, gone, last = (asyncio.get_running_loop().create_future() for _ in range(3))
    for waiter in (first, gone, last):
        limiter.wake(waiter)
    gone.cancel()
    assert await first and await last


async def test_it_is_free_again_after_a_rest() -> None:
    limiter = WakeupLimiter()
    for _ in range(3):
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        limiter.wake(waiter)
        assert waiter.done()
        await asyncio.sleep(0)

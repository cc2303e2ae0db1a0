"""Answers that come together are taken up a few at a time, with everybody else heard in between."""

import asyncio

from buddy.models.turnstile import AT_ONCE, Turnstile


async def test_few_go_on_in_each_turn_and_others_are_heard_between_them() -> None:
    turnstile, told = Turnstile(), list[str]()

    async def wait(name: str, waiter: asyncio.Future[bool]) -> None:
        await waiter
        told.append(name)

    names = "abcdefghijkl"
    waiters = {name: asyncio.get_running_loop().create_future() for name in names}
    tasks = [asyncio.create_task(wait(name, waiter)) for name, waiter in waiters.items()]
    await asyncio.sleep(0)
    for waiter in waiters.values():
        turnstile.wake(waiter)
    while not all(task.done() for task in tasks):
        told.append("-")
        await asyncio.sleep(0)
    together = "".join(told).strip("-").split("-")
    assert "".join(together) == names
    assert max(map(len, together)) == AT_ONCE


async def test_one_that_gave_up_does_not_keep_the_next_waiting() -> None:
    turnstile = Turnstile()
    first, gone, last = (asyncio.get_running_loop().create_future() for _ in range(3))
    for waiter in (first, gone, last):
        turnstile.wake(waiter)
    gone.cancel()
    assert await first and await last


async def test_it_is_free_again_after_a_rest() -> None:
    turnstile = Turnstile()
    for _ in range(3):
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        turnstile.wake(waiter)
        assert waiter.done()
        await asyncio.sleep(0)

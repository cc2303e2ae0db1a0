"""Answers that come together are taken up one after the other, with everybody else heard in between."""

import asyncio

from buddy.models.turnstile import Turnstile


async def test_each_goes_on_in_a_turn_of_its_own_and_others_are_heard_between_them() -> None:
    turnstile, told = Turnstile(), list[str]()

    async def wait(name: str, waiter: asyncio.Future[bool]) -> None:
        await waiter
        told.append(name)

    waiters = {name: asyncio.get_running_loop().create_future() for name in "abc"}
    tasks = [asyncio.create_task(wait(name, waiter)) for name, waiter in waiters.items()]
    await asyncio.sleep(0)
    for waiter in waiters.values():
        turnstile.wake(waiter)
    while not all(task.done() for task in tasks):
        told.append("-")
        await asyncio.sleep(0)
    assert "".join(told).strip("-") == "a-b-c"


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

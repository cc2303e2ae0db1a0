"""Finish work that must not be left half done, even if its caller is cancelled meanwhile."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

Result = TypeVar("Result")


async def finish_despite_cancel(work: Coroutine[object, object, Result]) -> Result:
    """Await `work` to its end; a cancellation that arrives meanwhile is raised afterwards, not instead."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # retrieved, so that asyncio does not report it as lost
        raise cancelled
    return task.result()

"""Seeing work through that must not be left half done, even when its caller is cancelled meanwhile."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

Result = TypeVar("Result")


async def finish_despite_cancel(work: Coroutine[object, object, Result]) -> Result:
    """Await `work` to its end; a cancellation that came meanwhile is raised after it, not instead of it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # looked at, so that it is not reported as lost
        raise cancelled
    return task.result()

"""An event loop whose time only passes when nothing else is left to do.

Invariants: the same program does the same in the same order; waiting costs nothing; work for a thread is done at once,
so no timer can overtake it. Waiting for something that will never come raises `Stalled`.
"""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Stalled(Exception):
    """Nothing is left that could happen."""


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self._pass))

    def time(self) -> float:
        return self._now

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[*Arguments], Result],
        *args: *Arguments,
    ) -> asyncio.Future[Result]:
        del executor
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whatever it was, it belongs to the awaiting code
            done.set_exception(error)
        return done

    def _pass(self, seconds: float) -> None:
        self._now += seconds


class _Selector(selectors.SelectSelector):
    """Where the loop would sleep, its time passes instead."""

    def __init__(self, pass_time: Callable[[float], None]) -> None:
        super().__init__()
        self._pass_time = pass_time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Stalled
        self._pass_time(timeout)
        return []

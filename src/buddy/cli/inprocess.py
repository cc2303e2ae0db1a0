"""What moves the steps of a command without a daemon: lines over memory to a runtime in this process.

What always holds: the same as over a socket (`driving.py`); the runtime is closed cleanly, whatever happened.
"""

import argparse
import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from buddy.cli.ahead import expect_model
from buddy.cli.driving import STOPS, Errand, caught, let_go
from buddy.cli.first_run import prepare
from buddy.config.load import load_config
from buddy.config.places import find_places

if TYPE_CHECKING:
    from types import FrameType

    from buddy.cli.driving import Handler
    from buddy.daemon.link import MemoryLink

INTERRUPTED = 130


def run_here(options: argparse.Namespace, begin: Callable[[], Errand]) -> int:
    """Do the errand with a runtime of our own; gives the exit code."""
    prepare(options)
    try:
        return asyncio.run(_work(options, begin))
    except asyncio.CancelledError:
        return INTERRUPTED


async def _work(options: argparse.Namespace, begin: Callable[[], Errand]) -> int:
    places = find_places(os.environ, options.state_dir, options.socket)
    config = load_config(os.environ, Path(options.config) if options.config else None, places)
    expect_model(config, os.environ, getattr(options, "profile", None))
    from buddy.daemon.runtime import Runtime

    runtime = Runtime(config, places, os.environ)
    try:
        return await _Conversation(runtime.connect(), begin()).run()
    finally:
        await runtime.close()


class _Conversation:
    def __init__(self, link: "MemoryLink", errand: Errand) -> None:
        self._link = link
        self._errand = errand
        self._loop = asyncio.get_running_loop()
        self._me = asyncio.current_task()
        self._sending: set[asyncio.Task[None]] = set()
        self._caught: dict[int, Handler] = {}
        self._is_listening = False

    async def run(self) -> int:
        try:
            while self._errand.code is None:
                self._go_on()
                self._catch_once_there_is_a_run()
                self._errand.feed(await self._link.read_line())
        finally:
            let_go(self._caught)
            self._loop.remove_reader(0)
        return self._errand.code

    def _go_on(self) -> None:
        """Send what there is to send, and listen for what a person may have to say now."""
        outgoing = self._errand.talk.outgoing
        if outgoing:
            task = self._loop.create_task(self._link.write(bytes(outgoing)))
            outgoing.clear()
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        if self._errand.is_asking == self._is_listening:
            return
        self._is_listening = self._errand.is_asking
        if self._is_listening:
            self._loop.add_reader(0, self._answer)
        else:
            self._loop.remove_reader(0)

    def _answer(self) -> None:
        self._errand.read_answer()
        self._go_on()

    def _catch_once_there_is_a_run(self) -> None:
        if self._caught or self._errand.following.run_id is None:
            return
        self._caught = caught(self._hear)

    def _hear(self, number: int, _: "FrameType | None") -> None:
        self._loop.call_soon_threadsafe(self._stop, STOPS[number])

    def _stop(self, reason: str) -> None:
        try:
            self._errand.stop(reason)
        except KeyboardInterrupt:
            if self._me is not None:
                self._me.cancel()
        self._go_on()

"""Ends a process that has stopped and does not end, and says in its log what kept it."""

import asyncio
import faulthandler
import os
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TextIO


def end_after(seconds: float, logfile: Path, exit_code: int = 1) -> None:
    """End the process even if something that is left does not let itself be cancelled; call it in the event loop."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        with suppress(Exception), logfile.open("a", encoding="utf-8") as file:
            _describe(loop, seconds, file)
        os._exit(exit_code)

    watchdog = threading.Timer(seconds, end)
    watchdog.daemon = True
    watchdog.start()


def _describe(loop: asyncio.AbstractEventLoop, seconds: float, file: TextIO) -> None:
    """The tasks and threads that are left. The logging handlers may be closed, so this is plain text."""
    print(f"ended by force: still here {seconds:g} s after the stop", file=file)
    for task in asyncio.all_tasks(loop):
        print(f"task {task.get_name()}: {_where(task)}", file=file)
    file.flush()
    faulthandler.dump_traceback(file, all_threads=True)


def _where(task: "asyncio.Task[object]") -> str:
    """The calls that a task is in, the outermost first."""
    calls: list[str] = []
    waits: object = task.get_coro()
    while waits is not None:
        frame = getattr(waits, "cr_frame", None) or getattr(waits, "ag_frame", None) or getattr(waits, "gi_frame", None)
        if frame is not None:
            calls += [f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in traceback.extract_stack(frame, 1)]
        waits = (
            getattr(waits, "cr_await", None) or getattr(waits, "ag_await", None) or getattr(waits, "gi_yieldfrom", None)
        )
    return " > ".join(calls) or "ended"

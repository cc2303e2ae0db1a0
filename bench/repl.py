"""How responsive the REPL is: from its start to the prompt, and from a key to its echo while an answer streams in.

`python -m bench.repl`. A real program on a pseudo-terminal, with a daemon that runs already and a scripted model that
says 1,000 words per second. Beside the start its floor: an interpreter that only loads the editor. Printed, not
asserted; the machine decides.
"""

import os
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.harness.home import Home
from tests.harness.pseudo_terminal import PseudoTerminal

STARTS = 10
KEYS = 60
WORDS = 20_000


def wait_for(terminal: PseudoTerminal, wanted: bytes, start: int) -> float:
    """When the text appeared on the terminal after `start`."""
    while wanted not in terminal.shown[start:]:
        with selectors.DefaultSelector() as selector:
            selector.register(terminal.master, selectors.EVENT_READ)
            assert selector.select(20), terminal.shown[-500:]
        terminal.shown += os.read(terminal.master, 65536)
    return time.perf_counter()


def floor() -> float:
    """An interpreter that only loads the editor."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import prompt_toolkit"], check=True)
    return time.perf_counter() - began


def cold_start(home: Home) -> float:
    began = time.perf_counter()
    with home.terminal() as terminal:
        took = wait_for(terminal, b"(shift-tab)", 0) - began
        terminal.type("\x04")
        terminal.finish()
    return took


def echoes(home: Home) -> list[float]:
    took: list[float] = []
    with home.terminal() as terminal:
        wait_for(terminal, b"(shift-tab)", 0)
        terminal.type("go\r")
        wait_for(terminal, b"esc interrupts", 0)
        for number in range(KEYS):
            key = chr(ord("A") + number % 26)
            start = len(terminal.shown)
            began = time.perf_counter()
            terminal.type(key)
            took.append(wait_for(terminal, key.encode(), start) - began)
            wait_for(terminal, b"fox", len(terminal.shown))
    return took


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        home.script({"text": "the quick brown fox jumps over the lazy dog.\n\n" * (WORDS // 9), "delay": 0.001})
        home.run("daemon", "start")
        try:
            floors: list[float] = []
            starts: list[float] = []
            for _ in range(STARTS):  # alternating: a busy machine slows both
                floors.append(floor())
                starts.append(cold_start(home))
            keys = echoes(home)
        finally:
            home.run("daemon", "stop")
    print(f"start to prompt   median {statistics.median(starts) * 1000:6.0f} ms   best {min(starts) * 1000:6.0f} ms")
    print(f"  floor           median {statistics.median(floors) * 1000:6.0f} ms   best {min(floors) * 1000:6.0f} ms")
    worst = sorted(keys)[int(len(keys) * 0.95)]
    print(f"key to echo       median {statistics.median(keys) * 1000:6.1f} ms   95 % {worst * 1000:6.1f} ms")


if __name__ == "__main__":
    main()

"""A real Temporal server for tests, on a port of its own; what it knows survives a restart, but not the test."""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.processes import free_port

START_SECONDS = 60.0
PROGRAM = Path(sys.executable).with_name("temporal")


class Temporal:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="temporal-"))
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        flags = ("--headless", "--ip", "127.0.0.1", "--port", str(self.port), "--log-level", "error")
        with (self.folder / "log").open("ab") as output:
            self.process = subprocess.Popen(
                [str(PROGRAM), "server", "start-dev", *flags, "--db-filename", str(self.folder / "db")],
                env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + START_SECONDS
        while "SERVING" not in self.run("operator", "cluster", "health"):
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def run(self, *words: str) -> str:
        """A command of its own client; returns what it prints."""
        command = [str(PROGRAM), *words, "--address", self.address]
        done = subprocess.run(
            command, env={"HOME": str(self.folder)}, capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
        return done.stdout + done.stderr

"""A real Temporal server for tests, on a port of its own; what it knows survives a restart, but not the test."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.processes import free_port

START_SECONDS = 60.0
PROGRAM = Path(sys.executable).with_name("temporal")


class Temporal:
    """Use it as `with Temporal() as server`.

    `prefix` is written before its commands, to run it on another host, whose address is `host`. `ip` is where it
    listens; the parts of a server reach each other by 127.0.0.1 alone.
    """

    def __init__(self, host: str = "127.0.0.1", prefix: Sequence[str] = (), ip: str = "127.0.0.1") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="temporal-"))
        self.ip = ip
        self.port = free_port()
        self.address = f"{host}:{self.port}"
        self._prefix = prefix
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
        flags = ("--headless", "--ip", self.ip, "--port", str(self.port), "--log-level", "error")
        with (self.folder / "log").open("ab") as output:
            self.process = subprocess.Popen(
                [*self._prefix, str(PROGRAM), "server", "start-dev", *flags, "--db-filename", str(self.folder / "db")],
                env={"HOME": str(self.folder), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
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

    def pause(self) -> None:
        """Stop it without its clients noticing: connections stay open, and nothing is answered."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def run(self, *words: str) -> str:
        """A command of its own client; returns what it prints."""
        command = [*self._prefix, str(PROGRAM), *words, "--address", self.address]
        done = subprocess.run(
            command,
            env={"HOME": str(self.folder), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        return done.stdout + done.stderr


def settings(server: Temporal) -> str:
    """What is added to [cluster], with a task queue of its own."""
    place = f'address = "{server.address}"\ntask_queue = "buddy-{uuid.uuid4().hex[:8]}"\n'
    return f'placement = "temporal"\n[cluster.temporal]\n{place}'

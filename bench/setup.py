"""The setup of a measurement: a folder, the measuring model in its own process, and timed programs.

Invariants: all times are of the machine's monotonic clock, which the model and the programs share; everything
started here is ended here, by its pid.
"""

import contextlib
import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import NamedTuple, Self

from msgspec import Struct

from bench.model import Script

ROOT = Path(__file__).parent.parent
BUDDY = str(Path(sysconfig.get_path("scripts")) / "buddy")
PATIENCE = 300.0
_keys = itertools.count(1)
_flames = itertools.count(1)
_SPY = ("py-spy", "record", "--rate", "500", "--threads")


class BenchmarkError(Exception):
    """A measured program did not do its work."""


class Finished(Struct, frozen=True):
    """A finished program: start and end in nanoseconds, CPU seconds including its children, peak bytes of memory."""

    started: int
    ended: int
    cpu: float
    resident: int
    output: bytes


class Request(NamedTuple):
    """When the model had received the complete request, and when it sent the last byte of its reply."""

    received: int
    sent: int


class Setup:
    """Use it as `with Setup() as setup`."""

    def __init__(self, *, quick: bool = False, peers: Collection[str] = (), flames: Path | None = None) -> None:
        self.quick = quick
        self.peers = peers
        self._flames = flames
        self.cleanup = ExitStack()
        self._folders = itertools.count(1)
        self._errors: dict[int, Path] = {}

    def __enter__(self) -> Self:
        self.folder = Path(self.cleanup.enter_context(tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR"))))
        self.env = clean_environment(HOME=str(self.folder))
        self._model = self.start([sys.executable, "-m", "bench.model"], cwd=ROOT, stdin=subprocess.PIPE)
        assert self._model.stdout is not None
        self.port = int(self._model.stdout.readline())
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup.close()

    def flame_prefix(self, name: str) -> list[str]:
        """The prefix of a command that records its flame graph; empty without `--flame`."""
        return [*_SPY, "-o", str(self._flame(name)), "--"] if self._flames else []

    def record_process(self, name: str, pid: int) -> None:
        """Record the flame graph of a running process until it ends."""
        if self._flames:
            spy = self.start([*_SPY, "-o", str(self._flame(name)), "--pid", str(pid)])
            # Callbacks run in reverse: end the process, wait for the recorder to write its file, then clean up.
            self.cleanup.callback(spy.wait, PATIENCE)
            self.cleanup.callback(_terminate, pid)

    def _flame(self, name: str) -> Path:
        assert self._flames
        return self._flames / f"{name}-{next(_flames)}.svg"

    def new_folder(self, name: str) -> Path:
        """A new folder that only has the file for read tools."""
        folder = self.folder / f"{name}-{next(self._folders)}"
        folder.mkdir()
        (folder / "a.txt").write_text("".join(f"line {number} of a small file\n" for number in range(1, 11)))
        return folder

    def script(self, **fields: object) -> Script:
        """A script with a unique key."""
        return Script(f"k{os.getpid()}x{next(_keys)}")._replace(**fields)

    def requests(self, script: Script) -> list[Request]:
        """The requests of this conversation."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", f"/bench/{script.key}")
        found: list[tuple[int, int]] = json.loads(connection.getresponse().read())
        connection.close()
        return [Request(*one) for one in found]

    def start(
        self, command: Sequence[str], *, cwd: Path | None = None, stdin: int = subprocess.DEVNULL
    ) -> "subprocess.Popen[bytes]":
        """Start a program that runs until the setup is closed; its stderr goes to a file."""
        path = self.folder / f"errors-{next(self._folders)}"
        with path.open("wb") as errors:
            process = subprocess.Popen(
                command,
                env=self.env,
                cwd=cwd or self.folder,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._errors[process.pid] = path
        self.cleanup.callback(end, process)
        return process

    def wait_for_socket(self, path: Path, process: "subprocess.Popen[bytes]") -> int:
        """Wait until the program listens there; returns when it did."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(path)) == 0:
                    return perf_counter_ns()
            time.sleep(0.001)
        words = self._errors[process.pid].read_text(errors="replace").strip()[-600:]
        raise BenchmarkError(f"nothing listens on {path}: {words}")

    def run(self, command: Sequence[str], *, cwd: Path | None = None) -> Finished:
        """Run a program to its end; BenchmarkError with its last output if it fails."""
        folder = cwd or self.folder
        with tempfile.TemporaryFile(dir=self.folder) as output, tempfile.TemporaryFile(dir=self.folder) as errors:
            started = perf_counter_ns()
            process = subprocess.Popen(
                command,
                # Some programs take the folder from PWD.
                env={**self.env, "PWD": str(folder)},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
            # Not `wait`: only `wait4` returns the CPU time of this program alone.
            limit = threading.Timer(PATIENCE, process.kill)
            limit.start()
            _, status, usage = os.wait4(process.pid, 0)
            ended = perf_counter_ns()
            limit.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            said = output.read()
            if process.returncode != 0:
                errors.seek(0)
                words = (errors.read() or said).decode(errors="replace").strip()[-600:]
                raise BenchmarkError(f"{Path(command[0]).name} exited with code {process.returncode}: {words}")
            return Finished(started, ended, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, said)


def gaps(requests: Sequence[Request]) -> list[float]:
    """Milliseconds from the last byte of each reply to the next request."""
    return [(after.received - before.sent) / 1e6 for before, after in itertools.pairwise(requests)]


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used so far, in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _terminate(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def end(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def clean_environment(**more: str) -> dict[str, str]:
    """Without the caller's settings for the measured programs; bytecode is cached, as on a user's machine."""
    dropped = ("BUDDY_", "AGENT_", "XDG_", "OTEL_", "OPENAI_", "PYTHON", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", **more}

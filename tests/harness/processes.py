"""The real `buddy` command in a process of its own: its environment, how it ended, and waiting for it.

Invariants: none of the caller's own settings reach a child; every wait ends after `PATIENCE`, so a hang is a failure.
"""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from buddy import errors
from buddy.protocol.envelopes import Event, parse_incoming

ROOT = Path(__file__).parents[2]
SOURCES = Path(errors.__file__).parent.parent
BUDDY = (sys.executable, "-m", "buddy")
CANARY = "canary-0b52f6c19d7e4a83"
# Far longer than any step takes, even on a machine whose cores are all busy: it only bounds a hang.
PATIENCE = 120.0
POLL_SECONDS = 0.01

# The size too: a worker of xdist has one of its own, and programs believe it rather than their terminal.
_CALLERS_OWN = ("BUDDY_", "AGENT_", "XDG_", "NO_COLOR", "PYTHON", "OTEL_", "TMUX", "COLUMNS", "LINES")


def clean_environment(**more: str) -> dict[str, str]:
    """For processes that a test starts: the same sources, and a secret that must not appear anywhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_CALLERS_OWN)}
    return {**kept, "PYTHONPATH": str(SOURCES), "CANARY_API_KEY": CANARY, **more}


def program_environment(**more: str) -> dict[str, str]:
    """For programs that are modules below `tests`."""
    return clean_environment(PYTHONPATH=os.pathsep.join((str(SOURCES), str(ROOT))), **more)


class Finished(Struct, frozen=True):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[Event]:
        return [parse_event(line) for line in self.out.splitlines()]


def parse_event(line: str | bytes) -> Event:
    parsed = parse_incoming(line.encode() if isinstance(line, str) else line.rstrip(b"\n"))
    assert isinstance(parsed, Event)
    return parsed


def run(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str = "") -> Finished:
    """Run a command to its end, with pipes."""
    done = subprocess.run(
        command, cwd=cwd, env=env, input=stdin.encode(), capture_output=True, timeout=PATIENCE, check=False
    )
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


class RunningCommand:
    """A command that is running. Its events can be read one by one; it is killed when the block is left."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: int = subprocess.PIPE
    ) -> None:
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)

    def read_line(self) -> bytes:
        """The next line of its output; empty once it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def wait_for(self, kind: str) -> Event:
        """Read events up to the first one of a kind."""
        while line := self.read_line():
            event = parse_event(line)
            if event.type == kind:
                return event
        raise AssertionError(f"it ended without {kind}")

    def feed(self, content: bytes) -> None:
        """Write to its stdin, and wait until it has read all of that and sleeps because it wants more."""
        pipe = self.process.stdin
        assert pipe is not None
        pipe.write(content)
        pipe.flush()
        wait_until(lambda: not _unread(pipe.fileno()) and _is_asleep(self.process.pid), "the command to read its input")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self) -> Finished:
        out, err = self.process.communicate(timeout=PATIENCE)
        return Finished(self.process.returncode, out.decode(), err.decode())


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Poll a condition that nothing announces: a process, a file."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(POLL_SECONDS)


def is_answering(path: Path) -> bool:
    """Whether the daemon on this socket answers a ping."""
    ping = b'{"v":"push.runtime.v1","kind":"request","requestId":"req_1","type":"ping","payload":{}}\n'
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PATIENCE)
        try:
            probe.connect(str(path))
            probe.sendall(ping)
            return b'"pong":true' in probe.recv(4096)
        except OSError:
            return False


def _unread(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def _is_asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "S"


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

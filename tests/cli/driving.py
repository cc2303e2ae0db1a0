"""Driving the real command: `python -m buddy` in a home of its own, through pipes or on a terminal.

Invariants: nothing of the user's own settings gets in; every wait ends after `PATIENCE`, so a hang is a failure.
"""

import fcntl
import os
import pty
import selectors
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct

from buddy.protocol.envelopes import Event, parse_incoming

PATIENCE = 60.0
SOURCE = Path(__file__).parents[2] / "src"
BUDDY = (sys.executable, "-m", "buddy")

Reply = dict[str, Any]


class Done(Struct, frozen=True):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[Event]:
        return [event_of(line) for line in self.out.splitlines()]


def event_of(line: str | bytes) -> Event:
    found = parse_incoming(line.encode() if isinstance(line, str) else line.rstrip(b"\n"))
    assert isinstance(found, Event)
    return found


def shell(command: str, text: str = "") -> Reply:
    """A reply that runs a command."""
    return {"text": text, "calls": [{"name": "run_shell", "args": {"command": command}}]}


class Home:
    """A user: a home directory, a workspace, a state directory, and what the environment says."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.work = directory / "work"
        self.state = directory / "state"
        self.work.mkdir(parents=True)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        self.env |= {"HOME": str(directory), "BUDDY_STATE_DIR": str(self.state), "PYTHONPATH": str(SOURCE)}
        self.env |= {"TERM": "xterm", "TMPDIR": str(directory), "TMUX_TMPDIR": str(directory)}

    def script(self, *replies: Reply) -> Self:
        """Have the model say this, and nothing else be configured."""
        (self.directory / "script.json").write_bytes(msgspec.json.encode(replies))
        config = self.directory / ".config" / "buddy" / "buddy.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(
            f'[agent]\nmodel = "played"\n[models.played]\napi = "scripted"\nscript = "{self.directory}/script.json"\n',
            encoding="utf-8",
        )
        return self

    def run(self, *arguments: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Done:
        """Run a command to its end, with pipes."""
        done = subprocess.run(
            [*BUDDY, *arguments],
            cwd=self.work,
            env={**self.env, **(env or {})},
            input=(stdin or "").encode(),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def sh(self, command: str) -> Done:
        """Run a pipeline in which `buddy` is the command."""
        line = f'buddy() {{ {" ".join(BUDDY)} "$@"; }}; {command}'
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.work, env=self.env, capture_output=True, timeout=PATIENCE, check=False
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *arguments: str, under: Sequence[str] = ()) -> "Running":
        """Start a command; `under` is a program that starts it in turn."""
        return Running(self, [*under, *BUDDY, *arguments])

    def terminal(self, *arguments: str, typed: str = "") -> "Terminal":
        return Terminal(self, arguments, typed)

    def everything(self) -> bytes:
        """All bytes that are kept in the state directory."""
        return b"".join(path.read_bytes() for path in sorted(self.state.rglob("*")) if path.is_file())


_FOREIGN = ("BUDDY_", "AGENT_", "XDG_", "NO_COLOR", "PYTHON", "OTEL_")


class Running:
    """A command under way. Its events can be read one by one; it is gone when the block is left."""

    def __init__(self, home: Home, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=home.work,
            env=home.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)

    def until(self, kind: str) -> Event:
        """Read events up to the first one of a kind."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = event_of(line)
            if event.type == kind:
                return event
        raise AssertionError(f"it ended without {kind}")

    def feed(self, content: bytes) -> None:
        """Write to its stdin, and wait until it has read all of that and sleeps because it wants more."""
        pipe = self.process.stdin
        assert pipe is not None
        pipe.write(content)
        pipe.flush()
        deadline = time.monotonic() + PATIENCE
        while _unread(pipe.fileno()) or not _sleeps(self.process.pid):
            assert time.monotonic() < deadline, "it does not read"
            time.sleep(0.01)  # nothing tells that another process waits

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self) -> Done:
        out, err = self.process.communicate(timeout=PATIENCE)
        return Done(self.process.returncode, out.decode(), err.decode())


def _unread(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "S"


class Terminal:
    """A command on a terminal of its own; `typed` is in the terminal before the command starts."""

    def __init__(self, home: Home, arguments: Sequence[str], typed: str) -> None:
        self.master, slave = pty.openpty()
        os.write(self.master, typed.encode())
        self.process = subprocess.Popen(
            [*BUDDY, *arguments], cwd=home.work, env=home.env, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        self.shown = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.master)

    def until(self, text: str, times: int = 1) -> None:
        """Read until a text was shown this number of times."""
        while self.shown.count(text.encode()) < times:
            assert self._read(), f"it ended without {text!r}: {self.shown!r}"

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def finish(self) -> int:
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        deadline = time.monotonic() + PATIENCE
        with selectors.DefaultSelector() as selector:
            selector.register(self.master, selectors.EVENT_READ)
            assert selector.select(max(0.0, deadline - time.monotonic())), f"it hangs after {self.shown!r}"
        try:
            chunk = os.read(self.master, 65536)
        except OSError:  # how Linux says that nobody has the other end any more
            return False
        self.shown += chunk
        return bool(chunk)

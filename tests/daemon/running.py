"""A real daemon in a process of its own, with a scripted model and a folder for everything it leaves.

Invariants: `start` returns once the socket answers; what was started is ended by its own pid, cleanly where it
can be; a daemon that was killed can be started again over the same state.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from buddy import errors

PATIENCE = 20.0
SOURCES = Path(errors.__file__).parent.parent
BUDDY = (sys.executable, "-m", "buddy")
CANARY = "canary-0b52f6c19d7e4a83"

Call = dict[str, object]
Reply = dict[str, object]


def shell(command: str) -> Call:
    return {"name": "run_shell", "args": {"command": command}}


def section(match: str, *replies: Reply) -> dict[str, object]:
    return {"match": match, "replies": list(replies)}


MARK = 'echo "$BUDDY_CALL" >> ledger'
# One word, as the scripted model gives its text word by word.
LONG = "lorem-ipsum-" * 12_000
PLAY: list[dict[str, object]] = [
    section("^count", {"text": "one two three"}),
    section("^read", {"calls": [{"name": "read_file", "args": {"path": "a.txt"}}]}, {"text": "it says hello"}),
    section("^make", {"calls": [shell(f"{MARK}; echo made >> made.txt")]}, {"text": "made"}),
    section("^wait", {"calls": [shell(f"{MARK}; echo started; exec sleep 600")]}, {"text": "never"}),
    section("^drip", {"text": "drop " * 400, "delay": 0.006}),
    section("^secret", {"calls": [shell("echo the key is $CANARY_API_KEY")]}, {"text": "told"}),
    section("^long", {"text": LONG}),
]


def environment(**more: str) -> dict[str, str]:
    """For programs that a test starts: none of the caller's own settings, and a secret to be kept."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BUDDY_", "AGENT_", "XDG_"))}
    return {**kept, "PYTHONPATH": str(SOURCES), "CANARY_API_KEY": CANARY, "PYTHONUNBUFFERED": "1", **more}


class Daemon:
    """Use it as `with Daemon(folder) as daemon`."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: Mapping[str, float] | None = None,
        agent: Mapping[str, object] | None = None,
        play: Sequence[dict[str, object]] = PLAY,
        web: bool = False,
    ) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        self.socket = self.state_dir / "run" / "buddyd.sock"
        self.workspace = folder / "workspace"
        self.config = folder / "buddy.toml"
        self.flags: list[str] = ["--listen", "127.0.0.1:0"] if web else []
        self.process: subprocess.Popen[bytes] | None = None
        self.before_exec = ""
        self._output = folder / "output"
        self.workspace.mkdir(parents=True, exist_ok=True)
        (self.workspace / "a.txt").write_text("hello")
        (folder / "script.json").write_text(json.dumps({"on": list(play), "echo": True}))
        self.config.write_text(_config(limits or {}, agent or {}))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None:
                sys.stdout.write(self.output() + self.log())
        finally:
            self.stop()

    def start(self, **env: str) -> None:
        """Start it, and wait until it answers."""
        self.launch(**env)
        wait_until(self._is_ready, "the daemon to answer")

    def launch(self, *more: str, **env: str) -> "subprocess.Popen[bytes]":
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                [*_after(self.before_exec), *BUDDY, "daemon", "run", *self.flags, *self.places(), *more],
                env=environment(HOME=str(self.folder), **env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return self.process

    def places(self) -> list[str]:
        return ["--state-dir", str(self.state_dir), "--config", str(self.config)]

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait until it has ended, and give its exit code."""
        assert self.process is not None
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """End it as a user would; what does not obey is killed, and that is an error."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def run(self, *arguments: str, timeout: float = 60, **env: str) -> "subprocess.CompletedProcess[str]":
        """A `buddy` command of the same user."""
        return subprocess.run(
            [*BUDDY, *arguments],
            env=self.command_environment(**env),
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def spawn(self, *arguments: str) -> "subprocess.Popen[str]":
        """A `buddy` command that goes on while the test does."""
        return subprocess.Popen(
            [*BUDDY, *arguments],
            env=self.command_environment(),
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def command_environment(self, **env: str) -> dict[str, str]:
        places = {"BUDDY_STATE_DIR": str(self.state_dir), "BUDDY_CONFIG": str(self.config)}
        return environment(HOME=str(self.folder), **places, **env)

    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def rss_kib(self) -> int:
        status = Path(f"/proc/{self.pid()}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    def port(self) -> int:
        """Where its WebSocket listens."""
        found = re.findall(r"WebSocket on 127\.0\.0\.1:(\d+)", self.log())
        return int(found[-1])

    def token(self) -> str:
        """The owner's token for the WebSocket."""
        return (self.state_dir / "web-token").read_text().strip()

    def log(self) -> str:
        path = self.state_dir / "logs" / "daemon.log"
        return path.read_text() if path.exists() else ""

    def output(self) -> str:
        return self._output.read_text() if self._output.exists() else ""

    def ledger(self) -> list[str]:
        """The calls that were really executed, one nonce each."""
        path = self.workspace / "ledger"
        return path.read_text().split() if path.exists() else []

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output()
        if not answers(self.socket):
            return False
        ready = self.log().rpartition("ready on")[2]
        return not self.flags or (f"pid {self.pid()}" in ready and "WebSocket on" in ready)


def answers(path: Path) -> bool:
    """Whether a ping gets its pong."""
    ping = b'{"v":"push.runtime.v1","kind":"request","requestId":"req_1","type":"ping","payload":{}}\n'
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PATIENCE)
        try:
            probe.connect(str(path))
            probe.sendall(ping)
            return b'"pong":true' in probe.recv(4096)
        except OSError:
            return False


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """For what tells nobody when it happens: a process, a file."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def _after(commands: str) -> list[str]:
    """Run by way of a shell that does this first, such as `umask 000`."""
    return ["sh", "-c", f'{commands}; exec "$@"', "sh"] if commands else []


def _config(limits: Mapping[str, float], agent: Mapping[str, object]) -> str:
    tables = {
        "agent": {"model": "play", **agent},
        "models.play": {"api": "scripted", "script": "script.json"},
        "limits": limits,
    }
    lines: list[str] = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"

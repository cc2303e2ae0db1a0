"""A real daemon in a process of its own, with a scripted model and a folder for everything it leaves.

Invariants: `start` returns once the socket answers; a daemon is ended by its pid, with SIGTERM where it obeys; one that
was killed can be started again over the same state.
"""

import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.processes import (
    BUDDY,
    PATIENCE,
    Finished,
    RunningCommand,
    clean_environment,
    is_answering,
    run,
    wait_until,
)
from tests.harness.scripts import MARK, Reply, section, shell, write_config, write_script

# One word, because the scripted model streams its text word by word.
LONG_WORD = "lorem-ipsum-" * 12_000
SCRIPT: list[Reply] = [
    section("^count", {"text": "one two three"}),
    section("^read", {"calls": [{"name": "read_file", "args": {"path": "a.txt"}}]}, {"text": "it says hello"}),
    section("^make", shell(f"{MARK}; echo made >> made.txt"), {"text": "made"}),
    section("^wait", shell(f"{MARK}; echo started; exec sleep 600"), {"text": "never"}),
    section("^drip", {"text": "drop " * 400, "delay": 0.006}),
    section("^secret", shell("echo the key is $CANARY_API_KEY"), {"text": "told"}),
    section("^long", {"text": LONG_WORD}),
]


class Daemon:
    """Use it as `with Daemon(folder) as daemon`."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: Mapping[str, float] | None = None,
        agent: Mapping[str, object] | None = None,
        script: Sequence[Reply] = SCRIPT,
        web: bool = False,
    ) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        self.socket = self.state_dir / "run" / "buddyd.sock"
        self.workspace = folder / "workspace"
        self.flags: list[str] = ["--listen", "127.0.0.1:0"] if web else []
        self.process: subprocess.Popen[bytes] | None = None
        self.before_exec = ""
        self.prefix: list[str] = []
        self._output = folder / "output"
        self.workspace.mkdir(parents=True, exist_ok=True)
        (self.workspace / "a.txt").write_text("hello")
        path = write_script(folder, {"on": list(script), "echo": True})
        self.config = write_config(folder / "buddy.toml", path, agent=agent or {}, limits=limits or {})

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
        wait_until(self.is_ready, "the daemon to answer")

    def launch(self, *more: str, **env: str) -> "subprocess.Popen[bytes]":
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.prefix, *_after(self.before_exec), *BUDDY, "daemon", "run", *self.flags, *self.places(), *more],
                env=clean_environment(HOME=str(self.folder), PYTHONUNBUFFERED="1", **env),
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
        """Wait until it has ended; returns its exit code."""
        assert self.process is not None
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """End it as a user would; if it does not obey, it is killed, and that is an error."""
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

    def run(self, *arguments: str, **env: str) -> Finished:
        """A `buddy` command of the same user."""
        return run([*BUDDY, *arguments], cwd=self.workspace, env=self.command_environment(**env))

    def spawn(self, *arguments: str) -> RunningCommand:
        """A `buddy` command that keeps running while the test does."""
        env = self.command_environment()
        return RunningCommand([*BUDDY, *arguments], cwd=self.workspace, env=env, stdin=subprocess.DEVNULL)

    def command_environment(self, **env: str) -> dict[str, str]:
        places = {"BUDDY_STATE_DIR": str(self.state_dir), "BUDDY_CONFIG": str(self.config)}
        return clean_environment(HOME=str(self.folder), PYTHONUNBUFFERED="1", **places, **env)

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

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output()
        if not is_answering(self.socket):
            return False
        ready = self.log().rpartition("ready on")[2]
        return not self.flags or (f"pid {self.pid()}" in ready and "WebSocket on" in ready)


def _after(commands: str) -> list[str]:
    """Run through a shell that does this first, such as `umask 000`."""
    return ["sh", "-c", f'{commands}; exec "$@"', "sh"] if commands else []

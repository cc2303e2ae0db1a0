"""A real terminal for the real program: tmux with a size, the keys that it is sent, and its screen.

Invariants: each test has its own tmux server in its own folder; every wait is for a condition and ends after
`PATIENCE`, so a hang is a failure that shows the screen.
"""

import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.home import Home
from tests.harness.processes import BUDDY, PATIENCE
from tests.harness.scripts import Reply

# A look is a process: each wait looks more and more rarely.
LOOK_SECONDS, RAREST_LOOK_SECONDS = 0.02, 0.1
# A reply that streams until it is interrupted, however slow the test is.
ENDLESS: Reply = {"text": "the quick brown fox jumps over the lazy dog. " * 3000, "delay": 0.05}


class Tmux:
    """One pane that runs a command; it ends with the block.

    A new session is not confined unless `sandbox` says so: most tests watch approvals and the shared pane.
    """

    def __init__(
        self,
        home: Home,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        program: str = "",
        sandbox: str | None = "host",
    ) -> None:
        self.socket = str(home.directory / f"tmux-{time.monotonic_ns()}")
        flags = () if sandbox is None or "resume" in arguments else ("--sandbox", sandbox)
        command = program or " ".join(map(shlex.quote, (*BUDDY, *arguments, *flags)))
        env = {**home.env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "SHELL": "/bin/sh"}
        size = ["-x", str(columns), "-y", str(rows)]
        line = f"cd {shlex.quote(str(home.work))} && {command}; echo [ended $?]; cat"
        self._env = env
        self.columns, self.rows = columns, rows
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, line)
        self._tmux("set-option", "-g", "status", "off")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server", check=False)

    def keys(self, *names: str) -> None:
        """Press keys by name: `Enter`, `Escape`, `C-d`, `M-Enter`, `BTab`."""
        self._tmux("send-keys", *names)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def enter(self, text: str) -> None:
        """Type a line and send it once it is on the screen."""
        self.type(text)
        last = text.rpartition("\n")[2]
        self.wait_until(lambda screen: last[:20] in screen)
        self.keys("Enter")

    def screen(self, *, history: bool = False, colour: bool = False) -> str:
        flags = [*(["-S", "-"] if history else []), *(["-e"] if colour else [])]
        shown = self._tmux("capture-pane", "-p", "-J", *flags)
        return "\n".join(line.rstrip() for line in shown.splitlines()).rstrip("\n")

    def wait_for(self, text: str, *, history: bool = False) -> str:
        """Wait until a text is on the screen; returns the screen."""
        return self.wait_until(lambda screen: text in screen, wanted=text, history=history)

    def wait_until(self, holds: Callable[[str], bool], *, wanted: str = "", history: bool = False) -> str:
        deadline = time.monotonic() + PATIENCE
        pause = LOOK_SECONDS
        while True:
            screen = self.screen(history=history)
            if holds(screen):
                return screen
            assert time.monotonic() < deadline, f"no {wanted!r} on the screen:\n{screen}"
            time.sleep(pause)  # nothing signals that another program has drawn
            pause = min(pause * 1.5, RAREST_LOOK_SECONDS)

    @property
    def process(self) -> int:
        """The id of the program's process: the pane's shell has no other child."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="utf-8"))

    def record(self, path: Path) -> None:
        """Record every byte that the program writes to its terminal from now on."""
        self._tmux("pipe-pane", f"cat >> {shlex.quote(str(path))}")

    def paste(self, text: str, *, marked: bool = True) -> None:
        """Paste a text; `marked` if the program learns that it is one, as most terminals tell it."""
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", *(["-p"] if marked else []))

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-S", self.socket, *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=check,
        )
        return done.stdout

"""A user of the real command: a home directory, a workspace, a state directory and an environment."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.harness.files import contents_of
from tests.harness.processes import BUDDY, Finished, RunningCommand, clean_environment, run
from tests.harness.pseudo_terminal import PseudoTerminal
from tests.harness.scripts import Reply, write_config, write_script


class Home:
    """Runs `buddy` in its workspace, through pipes or on a terminal."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.work = directory / "work"
        self.state = directory / "state"
        self.work.mkdir(parents=True)
        self.env = clean_environment(
            HOME=str(directory),
            BUDDY_STATE_DIR=str(self.state),
            TERM="xterm",
            TMPDIR=str(directory),
            TMUX_TMPDIR=str(directory),
        )
        del self.env["CANARY_API_KEY"]

    def script(self, *replies: Reply) -> Self:
        """Have the model give these replies, and configure nothing else."""
        script = write_script(self.directory, replies)
        write_config(self.directory / ".config" / "buddy" / "buddy.toml", script)
        return self

    def run(self, *arguments: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Finished:
        """Run a command to its end, with pipes."""
        return run([*BUDDY, *arguments], cwd=self.work, env={**self.env, **(env or {})}, stdin=stdin or "")

    def sh(self, command: str) -> Finished:
        """Run a pipeline in which `buddy` is the command."""
        line = f'buddy() {{ {" ".join(BUDDY)} "$@"; }}; {command}'
        return run(["bash", "-c", line], cwd=self.work, env=self.env)

    def start(self, *arguments: str, under: Sequence[str] = ()) -> RunningCommand:
        """Start a command; `under` is a program that starts it in turn."""
        return RunningCommand([*under, *BUDDY, *arguments], cwd=self.work, env=self.env)

    def terminal(self, *arguments: str, typed: str = "", size: tuple[int, int] = (80, 24)) -> PseudoTerminal:
        return PseudoTerminal([*BUDDY, *arguments], cwd=self.work, env=self.env, typed=typed, size=size)

    def everything(self) -> bytes:
        """All bytes in the state directory."""
        return b"".join(contents_of(self.state))

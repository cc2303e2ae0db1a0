"""Agents that run from a shell: each is a command line that plays a script to its end, plus its tool names.

Invariants: all agents get the same prompt and the same file, in a new folder each time (so that no prompt is cached
from an earlier run); none asks for approval.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Self

from msgspec import Struct

from bench.figures import Kind
from bench.model import Script
from bench.setup import BUDDY, ROOT, Finished, Request, Setup, cpu_seconds, end

FLOOR = str(ROOT / "bench" / "floor.py")


class Tool(Struct, frozen=True):
    name: str
    arguments: str


class Agent(Struct, frozen=True):
    """`command` returns the arguments that run a prompt in the current folder; the rest is optional."""

    name: str
    kind: Kind
    command: Callable[[str], Sequence[str]]
    read: Tool
    shell: Tool
    daemon: "Daemon | None" = None
    version: Sequence[str] = ()
    # Continues the folder's last session.
    resume: Callable[[str], Sequence[str]] | None = None
    # Takes several prompts, one per line, as sessions of one process.
    takes_many: bool = False

    def play(self, setup: Setup, script: Script) -> tuple[Finished, list[Request]]:
        """Run one process to its end; returns it and its requests."""
        ended = setup.run(self.command(script.prompt()), cwd=setup.new_folder("work"))
        return ended, setup.requests(script)

    def cpu(self, setup: Setup, script: Script) -> float:
        """CPU seconds of one process from start to end, including the daemon's meanwhile."""
        before = cpu_seconds(self.daemon.pid) if self.daemon else 0.0
        ended, _ = self.play(setup, script)
        return ended.cpu + (cpu_seconds(self.daemon.pid) - before if self.daemon else 0.0)


READ = Tool("read_file", json.dumps({"path": "a.txt"}))
SHELL = Tool("run_shell", json.dumps({"command": "true"}))


def floors(setup: Setup, *ways: str, logs: Sequence[str] = ("none",)) -> Iterator[Agent]:
    """The programs of `bench/floor.py`."""
    for way in ways:
        for log in logs:
            yield Agent(
                way if log == "none" else f"{way} {log}",
                "floor",
                lambda prompt, way=way, log=log: [sys.executable, FLOOR, way, str(setup.port), prompt, log],
                READ,
                SHELL,
                takes_many=True,
            )


def thin_floor(setup: Setup) -> Agent:
    """A client that only forwards its prompt to a running process."""
    path = setup.new_folder("relay") / "sock"
    setup.wait_for_socket(path, setup.start([sys.executable, FLOOR, "relay", str(setup.port), str(path)]))
    return Agent("thin", "floor", lambda prompt: [sys.executable, FLOOR, "thin", str(path), prompt], READ, SHELL)


def buddy(setup: Setup, *, daemon: bool = False) -> Agent:
    """`buddy exec`, in its own process or through a running daemon."""
    home = setup.new_folder("home")
    running = Daemon(setup, home) if daemon else None
    flags = [*configure(setup, home), "--approve", "all", "--sandbox", "host", "--max-turns", "100000"]

    def command(prompt: str) -> list[str]:
        return [*setup.flame_prefix("exec"), BUDDY, "exec", prompt, *flags]

    return Agent("warm" if daemon else "exec", "buddy", command, READ, SHELL, running)


class Daemon:
    """A running daemon, ready when the constructor returns; with `home`, over state that was used before.

    `before` is a prefix for its command, such as a profiler; `more` is added to its configuration.
    """

    def __init__(self, setup: Setup, home: Path | None = None, before: Sequence[str] = (), more: str = "") -> None:
        places = configure(setup, home or setup.new_folder("home"), more)
        self.socket = Path(places[-1]) / "run" / "buddyd.sock"
        began = perf_counter_ns()
        self.process = setup.start([*before, BUDDY, "daemon", "run", *places])
        self.ready_seconds = (setup.wait_for_socket(self.socket, self.process) - began) / 1e9
        self.pid = self.process.pid
        setup.record_process("daemon", self.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end(self.process)


def configure(setup: Setup, home: Path, more: str = "") -> list[str]:
    """Configure the measuring model as the user's model; returns the flags for the state directory.

    Not with `--config`: a command with that flag does not use the daemon.
    """
    config = setup.folder / ".config" / "buddy" / "buddy.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        f'[agent]\nmodel = "bench"\n[models.bench]\napi_base_url = "{setup.base_url}"\napi_key = "x"\n'
        'model = "bench"\ncontext_limit = 1_000_000_000\n'
        '[memory]\nembeddings = "none"\n'  # as in an installation without extras
        f"[limits]\nrequests_per_second = 1_000_000_000\nburst = 1_000_000_000\n{more}"
    )
    return ["--state-dir", str(home / "state")]

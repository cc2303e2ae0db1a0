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
from bench.stage import BUDDY, ROOT, Ended, Request, Stage, cpu_seconds, end

FLOOR = str(ROOT / "bench" / "floor.py")


class Tool(Struct, frozen=True):
    name: str
    arguments: str


class Agent(Struct, frozen=True):
    """`command` makes the argument list that plays a prompt in the current folder; the rest is what some can do."""

    name: str
    kind: Kind
    command: Callable[[str], Sequence[str]]
    read: Tool
    shell: Tool
    daemon: "Daemon | None" = None
    version: Sequence[str] = ()
    # Goes on with the last session of the folder; takes several prompts, one per line, as sessions of one process.
    resume: Callable[[str], Sequence[str]] | None = None
    takes_many: bool = False

    def play(self, stage: Stage, script: Script) -> tuple[Ended, list[Request]]:
        """One process from start to end, and what the model saw of it."""
        ended = stage.run(self.command(script.prompt()), cwd=stage.new_folder("work"))
        return ended, stage.requests(script)

    def cpu(self, stage: Stage, script: Script) -> float:
        """Seconds of CPU of one process from start to end, and of the daemon meanwhile."""
        before = cpu_seconds(self.daemon.pid) if self.daemon else 0.0
        ended, _ = self.play(stage, script)
        return ended.cpu + (cpu_seconds(self.daemon.pid) - before if self.daemon else 0.0)


READ = Tool("read_file", json.dumps({"path": "a.txt"}))
SHELL = Tool("run_shell", json.dumps({"command": "true"}))


def floors(stage: Stage, *ways: str, logs: Sequence[str] = ("none",)) -> Iterator[Agent]:
    """The programs of `bench/floor.py`."""
    for way in ways:
        for log in logs:
            yield Agent(
                way if log == "none" else f"{way} {log}",
                "floor",
                lambda prompt, way=way, log=log: [sys.executable, FLOOR, way, str(stage.port), prompt, log],
                READ,
                SHELL,
                takes_many=True,
            )


def thin_floor(stage: Stage) -> Agent:
    """A client that only passes its prompt on to a process that runs already."""
    path = stage.new_folder("relay") / "sock"
    stage.wait_for_socket(path, stage.start([sys.executable, FLOOR, "relay", str(stage.port), str(path)]))
    return Agent("thin", "floor", lambda prompt: [sys.executable, FLOOR, "thin", str(path), prompt], READ, SHELL)


def buddy(stage: Stage, *, daemon: bool = False) -> Agent:
    """`buddy exec`, in its own process or through a daemon that runs already."""
    home = stage.new_folder("home")
    running = Daemon(stage, home) if daemon else None
    flags = [*configure(stage, home), "--approve", "all", "--max-turns", "100000"]

    def command(prompt: str) -> list[str]:
        return [*stage.recorded("exec"), BUDDY, "exec", prompt, *flags]

    return Agent("warm" if daemon else "exec", "buddy", command, READ, SHELL, running)


class Daemon:
    """A daemon of our own, from `with Daemon(stage) as daemon` on ready; over a home that was used before, if given.

    `before` is what goes before its command, for something that looks on.
    """

    def __init__(self, stage: Stage, home: Path | None = None, before: Sequence[str] = ()) -> None:
        places = configure(stage, home or stage.new_folder("home"))
        self.socket = Path(places[-1]) / "run" / "buddyd.sock"
        began = perf_counter_ns()
        self.process = stage.start([*before, BUDDY, "daemon", "run", *places])
        self.ready_seconds = (stage.wait_for_socket(self.socket, self.process) - began) / 1e9
        self.pid = self.process.pid
        stage.record_process("daemon", self.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end(self.process)


def configure(stage: Stage, home: Path) -> list[str]:
    """The measuring model as the user's own; the flags that name the state directory.

    Not by `--config`: with it, a command does not join the daemon.
    """
    config = stage.folder / ".config" / "buddy" / "buddy.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        f'[agent]\nmodel = "bench"\n[models.bench]\napi_base_url = "{stage.base_url}"\napi_key = "x"\n'
        'model = "bench"\ncontext_limit = 1_000_000_000\n'
        '[memory]\nembeddings = "none"\n'  # as in an installation without extras
        "[limits]\nrequests_per_second = 1_000_000_000\nburst = 1_000_000_000\n"
    )
    return ["--state-dir", str(home / "state")]

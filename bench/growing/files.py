"""Files of a workspace, in git: completing a name, listing and searching them, and a command that undo watches.

The floor is the same with twenty files. What git and the search program take is counted with the daemon's own time.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.agents import Daemon
from bench.growing.cpu import cpu_of, least_cpu
from bench.growing.figures import Figure, Part
from bench.setup import Setup
from bench.wire import Wire
from buddy.terminal.completion import WorkspaceFiles

SIZES = (2_000, 20_000, 200_000)
FEW = 20
PER_FOLDER = 100
TAKES = 2
LAST = "the_last_one.py"
CALLS = (
    ("list a folder", "list_files", {"path": "."}),
    ("find a name", "glob", {"pattern": f"**/{LAST}"}),
    ("search for a word", "grep", {"pattern": "needle"}),
    ("run the first command, which undo watches", "run_shell", {"command": "touch made"}),
)


def measure(setup: Setup, count: int) -> Iterator[Figure]:
    many, few = (fill(setup.new_folder("work"), number) for number in (count, FEW))
    yield Figure("complete a name that was typed", "ms", _complete(many), _complete(few))
    floors = asyncio.run(_call_all(setup, few))
    for (work, value), (_, floor) in zip(asyncio.run(_call_all(setup, many)), floors, strict=True):
        yield Figure(work, "ms", value, floor)


def fill(folder: Path, count: int) -> Path:
    """A repository of `count` small files, the last of which has a name of its own."""
    for number in range(count):
        section = number // PER_FOLDER
        place = folder / f"part{section // PER_FOLDER}" / f"section{section}"
        if number % PER_FOLDER == 0:
            place.mkdir(parents=True)
        name = LAST if number == count - 1 else f"module{number}.py"
        (place / name).write_text(f"# {number % PER_FOLDER}\n{'needle' if name == LAST else ''}\n")
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)
    return folder


def _complete(folder: Path) -> float:
    files = WorkspaceFiles(str(folder))
    assert files.matching(LAST)
    return least_cpu(lambda: files.matching("the_la"))


async def _call_all(setup: Setup, folder: Path) -> list[tuple[str, float]]:
    takes = 1 if setup.quick else TAKES
    return [
        (work, min([await _call(setup, folder, tool, arguments) for _ in range(takes)]))
        for work, tool, arguments in CALLS
    ]


async def _call(setup: Setup, folder: Path, tool: str, arguments: Mapping[str, str]) -> float:
    """By a new daemon: the model follows the first script that it sees, also in memory."""
    with Daemon(setup) as daemon:
        wire = await Wire.connect(daemon.socket)
        session_id = await wire.start(folder)
        before = _cpu_with_children(daemon.pid)
        await wire.send(session_id, setup.script(turns=1, call=tool, arguments=json.dumps(arguments)).prompt())
        await wire.wait_over(session_id)
        took = (_cpu_with_children(daemon.pid) - before) * 1000
        wire.close()
    return took


def _cpu_with_children(pid: int) -> float:
    """CPU seconds of a process and of those that it has started and that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return cpu_of(pid) + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


PART = Part("files", "files of a workspace", SIZES, measure)

"""Test whether confinement works here instead of assuming it.

Invariants: a method counts only after a command inside it failed to write outside, to write or move protected paths,
and to reach the network or a socket, and succeeded in writing to the workspace.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock

from msgspec import Struct

from buddy.targets.confine.methods import METHODS, confine
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.environment import environment, find_program

SECONDS = 20
# Runs inside and prints the name of each attempt that succeeded. Writing outside may hit a private directory of the
# same name, so that is checked afterwards.
ATTEMPTS = """
import json, os, socket, sys
work, outside, home, port = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
through = []
def attempt(name, act):
    try:
        act()
    except OSError:
        return
    through.append(name)
def write(path):
    with open(path, "w") as file:
        file.write("x")
attempt("workspace", lambda: write(work + "/inside"))
attempt("null device", lambda: write("/dev/null"))
attempt("write outside", lambda: write(outside))
attempt("write in the home directory", lambda: write(home))
attempt("write to a protected directory", lambda: write(work + "/.git/hooks/probe"))
attempt("write to a protected file", lambda: write(work + "/.git/config"))
attempt("write to a protected file that was missing", lambda: write(work + "/buddy.toml"))
attempt("move a protected directory", lambda: os.rename(work + "/.git", work + "/moved"))
attempt("see this program's own files", lambda: os.stat(work + "/own/secret"))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", port), 2))
attempt("connect to a socket in the file system", lambda: socket.socket(socket.AF_UNIX).connect(work + "/door"))
attempt("open the kernel's settings", lambda: open("/proc/sys/kernel/core_pattern", "ab").close())
print(json.dumps(through))
"""


class ProbeResult(Struct, frozen=True):
    """The `method` that was proven to work or, if that is empty, the `reason` why none was."""

    method: str = ""
    reason: str = ""


_trying = Lock()


def probe() -> ProbeResult:
    """The first method that works; tested once per process. Slow: do not call it in an event loop."""
    with _trying:
        return _probe()


def was_probed() -> bool:
    return _probe.cache_info().currsize > 0


@cache
def _probe() -> ProbeResult:
    reasons: list[str] = []
    for how in METHODS:
        why = probe_method(how)
        if not why:
            return ProbeResult(how)
        reasons.append(f"{how}: {why}")
    return ProbeResult(reason="; ".join(reasons))


def probe_method(how: str) -> str:
    """What is wrong with one method; empty if it works."""
    if sys.platform != "linux":
        return "only Linux has it"
    if how == "bubblewrap" and find_program("bwrap") is None:
        return "bwrap is not installed"
    with (
        tempfile.TemporaryDirectory(prefix="buddy-probe-") as place,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as door,
    ):
        work = Path(place) / "work"
        work.mkdir()
        # If the temporary directory is too deep for a socket path, there can be no socket to connect to.
        with suppress(OSError):
            door.bind(str(work / "door"))
            door.listen()
        return _judge(how, work, server.getsockname()[1])


def _judge(how: str, work: Path, port: int) -> str:
    (work / ".git" / "hooks").mkdir(parents=True)
    (work / ".git" / "config").write_text("as it was")
    (work / "own").mkdir()
    (work / "own" / "secret").touch()
    outside = [work.parent / "outside", Path.home() / f".buddy-probe-{os.getpid()}"]
    policy = ConfinementPolicy(str(work), home=str(Path.home()), own=(str(work / "own"),))
    words = [sys.executable, "-I", "-S", "-c", ATTEMPTS, str(work), *map(str, outside), str(port)]
    try:
        with policy.active():
            argv = confine(how, policy.plan(network=False), words, str(work))
            done = subprocess.run(
                argv, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL, env=environment()
            )
        through = _read(done.stdout)
        left = [path for path in outside if path.exists()]
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it could not be tried ({error})"
    finally:
        with suppress(OSError):  # it does not exist, or the home directory is not writable at all
            outside[1].unlink()
    if through is None:
        return done.stderr.decode("utf-8", "replace").strip()[-300:] or f"it gave {done.returncode}"
    if not {"workspace", "null device"} <= set(through) or not (work / "inside").exists():
        return "a confined command cannot write in the workspace, or to /dev/null"
    allowed = ("workspace", "null device", "write outside", "write in the home directory")
    broken = [name for name in through if name not in allowed] + [f"write {path}" for path in left]
    return f"it does not hold here (a confined command could {', '.join(broken)})" if broken else ""


def _read(output: bytes) -> list[str] | None:
    try:
        return [str(name) for name in json.loads(output)]
    except ValueError:
        return None

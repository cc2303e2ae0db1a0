"""Test whether confinement works here instead of assuming it.

Invariants: a method counts only after a command inside it failed in everything that `docs/sandbox.md` says it cannot
do, and succeeded in writing to the workspace.
"""

import importlib
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

from buddy.targets.confine import seccomp
from buddy.targets.confine.limits import files_bytes
from buddy.targets.confine.methods import METHODS, confine, simple_filter
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.environment import environment, find_program

SECONDS = 20
# Runs inside and prints the name of each attempt that succeeded. Writing outside may hit a private directory of the
# same name, so that is checked afterwards, like the repository.
ATTEMPTS = """
import ctypes, json, os, socket, sys
given = json.loads(sys.argv[1])
work, libc = given["work"], ctypes.CDLL(None, use_errno=True)
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
def call(number, *arguments):
    if libc.syscall(number, *arguments, 0, 0, 0, 0, 0) < 0 and ctypes.get_errno() == 1:
        raise PermissionError
def demand(met):
    if not met:
        raise PermissionError
def status(name):
    with open("/proc/self/status") as file:
        return next(line.split()[1] for line in file if line.startswith(name + ":"))
def size_of(place):
    found = os.statvfs(place)
    return (found.f_blocks - 1) * found.f_frsize
def knock(path):
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
def answer(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        knock(path)
def prepare():
    os.makedirs(work + "/bare/objects")
    os.mkdir(work + "/bare/refs")
    write(work + "/bare/HEAD")
    with open(work + "/bare/config", "w") as file:
        file.write("[core]\\n fsmonitor = true\\n")
attempt("workspace", lambda: write(work + "/inside"))
attempt("null device", lambda: write("/dev/null"))
attempt("own socket", lambda: answer("/tmp/own"))
attempt("write outside", lambda: write(given["outside"]))
attempt("write in the home directory", lambda: write(given["home"]))
attempt("write to a protected directory", lambda: write(work + "/.git/hooks/probe"))
attempt("write to a protected file", lambda: write(work + "/.git/config"))
attempt("write to a protected file that was missing", lambda: write(work + "/buddy.toml"))
attempt("write this program's configuration", lambda: write(work + "/own.toml"))
attempt("write what an editor runs", lambda: write(work + "/.vscode/tasks.json"))
attempt("move a protected directory", lambda: os.rename(work + "/.git", work + "/moved"))
attempt("change a repository inside", lambda: write(work + "/deep/down/in/it/.git/config"))
attempt("see this program's own files", lambda: os.stat(work + "/own/secret"))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", given["port"]), 2))
attempt("connect to a socket in the file system", lambda: knock(work + "/door"))
attempt("connect to an abstract socket", lambda: knock(chr(0) + given["abstract"]))
attempt("reach the hypervisor", lambda: socket.socket(40, 1).close())
attempt("open the kernel's settings", lambda: open("/proc/sys/kernel/core_pattern", "ab").close())
attempt("change the mode of a kernel file", lambda: os.chmod("/proc/version", 0o444))
attempt("see other processes", lambda: demand(os.readlink("/proc/self/ns/pid") == given["pids"]))
attempt("have privileges", lambda: demand(int(status("CapBnd"), 16) or status("NoNewPrivs") != "1"))
attempt("have too large a private directory", lambda: demand(size_of("/tmp") > given["size"]))
for number in given["calls"]:
    attempt(f"make the system call {number}", lambda: call(number))
attempt("make a user namespace", lambda: call(given["unshare"], 0x10000000))
attempt("prepare a repository", prepare)
print(json.dumps(through))
"""
HARMLESS = frozenset(
    ("workspace", "null device", "own socket", "write outside", "write in the home directory", "prepare a repository")
)


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
    # Their bytecode is written by this. The sandbox is read-only, so there each command would compile them again.
    for helper in ("landlock", "supervisor"):
        importlib.import_module(f"buddy.targets.confine.{helper}")
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
    machine = seccomp.this_machine()
    if machine is None:
        return f"there is no filter of system calls for this architecture, only for {', '.join(seccomp.MACHINES)}"
    with (
        tempfile.TemporaryDirectory(prefix="buddy-probe-") as place,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as door,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        work = Path(os.path.realpath(place)) / "work"
        work.mkdir()
        # If the temporary directory is too deep for a socket path, there can be no socket to connect to.
        with suppress(OSError):
            door.bind(str(work / "door"))
            door.listen()
        abstract.bind("")
        abstract.listen()
        name: bytes = abstract.getsockname()
        given = {"port": server.getsockname()[1], "abstract": name[1:].decode(), "unshare": machine.unshare}
        # The keyring, faults, BPF and io_uring: none of them has an effect if it is called like this.
        return _judge(how, work, {**given, "calls": [*machine.denied[:5], seccomp.IO_URING_SETUP]})


def _judge(how: str, work: Path, given: dict[str, object]) -> str:
    for repository in (work / ".git", work / "deep" / "down" / "in" / "it" / ".git"):
        (repository / "hooks").mkdir(parents=True)
        (repository / "config").write_text("as it was")
    (work / "own").mkdir()
    for name in ("own/secret", "own.toml"):
        (work / name).touch()
    outside = [work.parent / "outside", Path.home() / f".buddy-probe-{os.getpid()}"]
    policy = ConfinementPolicy(
        str(work), home=str(Path.home()), own=(str(work / "own"),), files=(str(work / "own.toml"),)
    )
    told = {**given, "work": str(work), "outside": str(outside[0]), "home": str(outside[1]), "size": files_bytes()}
    told["pids"] = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - plain text
    words = [sys.executable, "-I", "-S", "-c", ATTEMPTS, json.dumps(told)]
    try:
        with policy.active():
            running = policy.begin(network=False)
            done = _run(confine(how, running.plan, words, str(work)))
            policy.settle(running)
            with simple_filter(running.plan) as plan:
                plain = _run(confine(how, plan, ["/bin/cat", "/proc/self/status"], str(work)), plan.filter)
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
    broken = [name for name in through if name not in HARMLESS] + [f"write {path}" for path in left]
    broken += ["leave a repository that runs code"] if (work / "bare" / "HEAD").exists() else []
    broken += [] if b"Seccomp:\t2" in plain.stdout else ["make any system call"]
    return f"it does not hold here (a confined command could {', '.join(broken)})" if broken else ""


def _run(argv: list[str], filter_file: int | None = None) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        argv,
        capture_output=True,
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
        env=environment(),
        pass_fds=() if filter_file is None else (filter_file,),
    )


def _read(output: bytes) -> list[str] | None:
    try:
        return [str(name) for name in json.loads(output)]
    except ValueError:
        return None

"""How long a cancelled command keeps running: from the client's request to the exit of its last process.

`python -m bench.cancel [ROUNDS]`. Each kind of command is cancelled ROUNDS times, in turns, through our own client and
a real daemon. The floor, in the same run: `os.killpg` of a bare process of ours, until it is dead. Death is heard from
the kernel (a pidfd), for every process of the call, also those that left the group.
"""

import asyncio
import os
import shlex
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from buddy.targets.confine.probe import probe
from tests.harness.clients import ProtocolClient, connected_client, send, start
from tests.harness.daemon import Daemon
from tests.harness.scripts import section, shell_call

DAEMON = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("up", "w").close()
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""
SAY = "echo up $BUDDY_CALL;"
COMMANDS = {
    "obeys": f"sleep 600 & {SAY} wait",
    "ignores SIGTERM": f"trap '' TERM HUP INT; sleep 600 & {SAY} wait; sleep 600",
    "double-forks, ignores": f"{shlex.quote(sys.executable)} -c {shlex.quote(DAEMON)} & "
    f"until [ -e up ]; do sleep 0.01; done; rm up; {SAY} wait",
}


def marked_processes(mark: bytes) -> list[int]:
    """A handle on every process of a call."""
    handles: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (place / "environ").read_bytes():
                handles.append(os.pidfd_open(int(place.name)))
        except OSError:
            continue
    return handles


async def wait_dead(handles: list[int]) -> None:
    loop = asyncio.get_running_loop()
    for handle in handles:
        dead = asyncio.Event()
        loop.add_reader(handle, dead.set)
        await dead.wait()
        loop.remove_reader(handle)
        os.close(handle)


async def floor() -> float:
    """Milliseconds to kill a bare process and be notified of its exit."""
    bare = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    handle = os.pidfd_open(bare.pid)
    began = time.perf_counter()
    os.killpg(bare.pid, signal.SIGKILL)
    await wait_dead([handle])
    took = (time.perf_counter() - began) * 1000
    await bare.wait()
    return took


async def time_cancellation(client: ProtocolClient, session_id: str, kind: str) -> float:
    """Start a command, cancel its run; returns how many milliseconds its processes kept running."""
    run_id = await send(client, session_id, kind)
    up = await client.wait_for("tool_output")
    mark = f"BUDDY_CALL={up['payload']['text'].split()[1]}".encode()
    # The command and at least one child; a process cannot be seen during its exec.
    while len(handles := marked_processes(mark)) < 2:  # noqa: ASYNC110 - there is no notification
        await asyncio.sleep(0.001)
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        group.create_task(client.ask("cancel_run", {"sessionId": session_id, "runId": run_id}, session_id))
        await wait_dead(handles)
        took = (time.perf_counter() - began) * 1000
    await client.wait_for("run_complete")
    return took


def show(what: str, found: list[float], bare: float) -> None:
    ordered = sorted(found)
    middle, slow = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(f"{what:36} {len(found):5} {middle:9.1f} {slow:9.1f} {max(found):9.1f} {middle / bare:8.1f}")


async def measure(folder: Path, rounds: int) -> None:
    play = [
        section(f"^{kind}$", {"calls": [shell_call(command)]}, {"text": "never"}) for kind, command in COMMANDS.items()
    ]
    levels = ["host", *(["confined"] if probe().method else [])]
    taken: dict[str, list[float]] = {f"{level}: {kind}": [] for level in levels for kind in COMMANDS}
    bare: list[float] = []
    with Daemon(folder, script=play) as daemon:
        async with connected_client(daemon, "ours") as client:
            for level in levels:
                session_id = await start(client, daemon, approvalPolicy="all", sandbox=level)
                for _ in range(rounds):
                    bare.append(await floor())
                    for kind in COMMANDS:
                        taken[f"{level}: {kind}"].append(await time_cancellation(client, session_id, kind))
    print(f"{'milliseconds from request to exit':36} {'n':>5} {'p50':>9} {'p99':>9} {'max':>9} {'x floor':>8}")
    middle = statistics.median(bare)
    show("floor: killpg of a bare process", bare, middle)
    for what, found in taken.items():
        show(what, found, middle)
    show("all (aim: p99 ≤ 200)", [one for found in taken.values() for one in found], middle)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 70
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        asyncio.run(measure(Path(folder), rounds))


if __name__ == "__main__":
    main()

"""The processes that wait for confined commands: they are reused for nothing, replaced if they die, and never left."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.targets.confine import limits
from buddy.targets.confine.methods import LANDLOCK_METHOD
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.probe import ProbeResult
from buddy.targets.confine.standby import standby
from buddy.targets.confine.target import Confined
from tests.harness.processes import wait_until
from tests.targets.conftest import why_not
from tests.targets.inspect_files import run


@pytest.fixture
def target(root: Path, home: Path) -> Generator[Confined]:
    if why := why_not(LANDLOCK_METHOD):
        pytest.skip(f"Landlock does not hold here: {why}")
    standby.close()
    policy = ConfinementPolicy(str(root), home=str(home), own=())
    yield Confined(policy, lambda: ProbeResult(LANDLOCK_METHOD), grace=0.2)
    standby.close()


def server_pid() -> int:
    """The one child of this process that forks the others."""
    wait_until(lambda: len(servers()) == 1, "the server")  # the list may lack some while others end
    return servers()[0]


def servers() -> list[int]:
    own = children_of(os.getpid())
    return [pid for pid in own if "fork_server" in Path(f"/proc/{pid}/cmdline").read_text()]


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def own_groups() -> list[Path]:
    return [group for one in limits.hierarchies() for group in Path(one.place).glob(f"{limits.PREFIX}{os.getpid()}-*")]


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def own_network() -> str:
    return str(Path("/proc/self/ns/net").readlink())


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text().partition("State:\t")[2][0]


def has_ended(pid: int) -> bool:
    try:
        return state_of(pid) in "XZ"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def wait_for_waiting() -> int:
    """The process that waits for the next command."""
    await asyncio.sleep(0)
    await asyncio.to_thread(wait_until, lambda: len(children_of(server_pid())) == 1, "one process waits")
    return children_of(server_pid())[0]


async def test_each_command_has_a_process_and_environment_of_its_own(target: Confined, root: Path, nonce: str) -> None:
    first = await run(target, "export LEFT=1; sh -c 'echo $LEFT $BUDDY_CALL'; ls /proc/self/fd", root, "one")
    second = await run(target, "sh -c 'echo $LEFT $BUDDY_CALL'; ls /proc/self/fd", root, nonce)
    assert [first, second] == [(0, "1 one\n0\n1\n2\n3\n"), (0, f"{nonce}\n0\n1\n2\n3\n")]


async def test_a_process_waits_before_there_is_a_command(target: Confined, root: Path, nonce: str) -> None:
    assert await run(target, "sh -c 'exit 3'", root, nonce) == (3, "")
    waiting = await wait_for_waiting()
    assert await run(target, "sh -c 'exit 4'", root, nonce) == (4, "")
    assert await wait_for_waiting() != waiting


async def test_many_commands_at_once_have_their_own_results(target: Confined, root: Path) -> None:
    commands = [
        run(target, f"sh -c 'sleep 0.1; echo {number}; exit {number}'", root, f"n{number}") for number in range(8)
    ]
    assert await asyncio.gather(*commands) == [(number, f"{number}\n") for number in range(8)]
    await wait_for_waiting()


@pytest.mark.parametrize("victim", ["the server", "the process that waits", "the first of its namespace", "both"])
async def test_what_was_killed_is_replaced(target: Confined, root: Path, nonce: str, victim: str) -> None:
    await run(target, "sh -c :", root, nonce)
    waiting = await wait_for_waiting()
    await asyncio.to_thread(wait_until, lambda: len(children_of(waiting)) == 1, "it has its namespaces")
    first = children_of(waiting)[0]
    victims = {"the server": [server_pid()], "the process that waits": [waiting], "the first of its namespace": [first]}
    for pid in victims.get(victim, [waiting, server_pid()]):
        os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: has_ended(first), "the namespaces to end with it")
    assert await run(target, "sh -c 'echo fine; exit 4'", root, nonce) == (4, "fine\n")


async def test_a_command_with_network_has_a_process_of_its_own(target: Confined, root: Path, nonce: str) -> None:
    await run(target, "sh -c :", root, nonce)
    waiting = await wait_for_waiting()
    shown = "sh -c 'readlink /proc/self/ns/net'"
    here = own_network()
    assert await run(target.with_network(), shown, root, nonce) == (0, f"{here}\n")
    assert await wait_for_waiting() == waiting
    code, other = await run(target, shown, root, nonce)
    assert (code, other != f"{here}\n") == (0, True)


async def test_a_command_that_cannot_be_sent_leaves_nothing(target: Confined, root: Path, nonce: str) -> None:
    await run(target, "sh -c :", root, nonce)
    with pytest.raises(ToolError, match="invalid bytes"):
        await run(target, "echo \0", root, nonce)
    with pytest.raises(ToolError, match="does not exist"):
        await run(target, "sh -c :", root / "missing", nonce)
    await wait_for_waiting()
    assert await run(target, "sh -c 'echo fine'", root, nonce) == (0, "fine\n")


async def test_a_long_command_is_passed_on(target: Confined, root: Path, nonce: str) -> None:
    text = "x" * 100_000
    assert await run(target, f"sh -c :; echo {text}", root, nonce) == (0, f"{text}\n")


async def test_closing_ends_all_processes_and_removes_their_groups(target: Confined, root: Path, nonce: str) -> None:
    for _ in range(3):
        await run(target, "sh -c :", root, nonce)
    waiting = await wait_for_waiting()
    server = server_pid()

    def is_over() -> bool:
        standby.close()  # again: the last process may need a moment to leave its groups
        return not (exists(server) or exists(waiting) or own_groups())

    await asyncio.to_thread(wait_until, is_over, "everything has ended")


async def test_groups_of_ended_commands_are_removed(target: Confined, root: Path, nonce: str) -> None:
    if not limits.hierarchies():
        pytest.skip("no control group can be made here")
    for _ in range(5):
        code, output = await run(target, "sh -c 'cat /proc/self/cgroup'", root, nonce)
        assert (code, f"{limits.PREFIX}{os.getpid()}-" in output) == (0, True)
    await wait_for_waiting()
    # At most those of the process that waits, and of the last command.
    assert len(own_groups()) <= 2 * len(limits.hierarchies())


async def test_it_ends_when_nothing_was_asked_for_long(
    target: Confined, root: Path, nonce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buddy.targets.confine.standby.IDLE_SECONDS", 0.05)
    await run(target, "sh -c :", root, nonce)
    server = server_pid()
    await asyncio.sleep(0.2)
    await asyncio.to_thread(wait_until, lambda: not exists(server), "it has ended")
    assert await run(target, "sh -c 'exit 8'", root, nonce) == (8, "")


async def test_nothing_waits_after_closing(target: Confined, root: Path, nonce: str) -> None:
    await run(target, "sh -c :", root, nonce)
    standby.close()
    await asyncio.sleep(0.05)
    assert servers() == []


async def test_closing_lets_a_command_end(target: Confined, root: Path, nonce: str) -> None:
    running = asyncio.create_task(run(target, "sh -c 'touch begun; sleep 0.3; exit 9'", root, nonce))
    await asyncio.to_thread(wait_until, (root / "begun").exists, "it has begun")
    standby.close()
    assert await running == (9, "")
    await asyncio.sleep(0.05)
    assert servers() == []


async def test_a_word_that_is_too_long_is_refused(target: Confined, root: Path, nonce: str) -> None:
    with pytest.raises(ToolError, match="too long"):
        await run(target, f"echo {'x' * 200_000}", root, nonce)


KILLED = """
import asyncio, sys
from pathlib import Path
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.probe import ProbeResult
from buddy.targets.confine.target import Confined
async def main(root):
    target = Confined(ConfinementPolicy(root, home=root + "/..", own=()), lambda: ProbeResult("landlock"))
    async def show(stream, data):
        print(data.decode(), end="", flush=True)
    await target.run("sh -c 'echo begun; sleep 60'", cwd=root, nonce="killed", on_output=show)
asyncio.run(main(sys.argv[1]))
"""


def test_a_killed_process_takes_its_commands_along(target: Confined, root: Path) -> None:
    del target  # only whether it holds here
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(root)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    (server,) = children_of(process.pid)
    below = [server, *children_of(server)]
    process.kill()
    process.wait()
    process.stdout.close()
    wait_until(lambda: not any(map(exists, below)), "all have ended")


async def test_handles_above_a_thousand_are_no_problem(target: Confined, root: Path, nonce: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        assert await run(target, "sh -c 'exit 6'", root, nonce) == (6, "")
    finally:
        for one in opened:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_processes_left_a_command_is_refused(
    target: Confined, root: Path, nonce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", fail)
        with pytest.raises(ToolError, match="could not be started: Resource temporarily"):
            await run(target, "sh -c :", root, nonce)
    assert await run(target, "sh -c :", root, nonce) == (0, "")


async def test_a_command_that_is_cancelled_while_it_starts_leaves_nothing(
    target: Confined, root: Path, nonce: str
) -> None:
    task = asyncio.create_task(run(target, "sh -c 'echo x >made'", root, nonce))
    while not children_of(os.getpid()):  # noqa: ASYNC110 - the server is started on the way
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (root / "made").exists()
    assert await run(target, "sh -c 'echo fine'", root, nonce) == (0, "fine\n")

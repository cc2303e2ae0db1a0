"""Control groups: neither a new session nor an empty environment escapes them."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from buddy.targets import cgroups, orphans
from buddy.targets.contract import Finished
from buddy.targets.local import Local
from tests.harness.clients import attach, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.scripts import section, shell_call
from tests.targets.captured_output import CapturedOutput

# Forked twice, in its own session, without an environment, ignoring signals.
ESCAPE = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        with open("pid.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename("pid.new", "pid")
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
"""
COMMAND = f"{sys.executable} -I -c {shlex.quote(ESCAPE)}; until [ -e pid ]; do sleep 0.01; done; "


@pytest.fixture(autouse=True)
def possible() -> None:
    group = cgroups.make("possible")
    if group is None:
        pytest.skip("no control group can be made here")
    group.leave()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def escaped(place: Path) -> int:
    return int((place / "pid").read_text())


async def test_cancelling_ends_a_process_that_left_its_session_and_environment(tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    running = asyncio.create_task(
        Local(grace=0.1).run(f"{COMMAND} echo up; sleep 600", cwd=str(tmp_path), nonce=nonce, on_output=taken)
    )
    await taken.wait_for(b"up")
    pid = escaped(tmp_path)
    assert is_alive(pid)
    assert pid not in orphans.find(nonce)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_alive(pid)
    assert cgroups.find(nonce) is None


async def test_a_timeout_ends_a_process_that_left_its_session_and_environment(tmp_path: Path, nonce: str) -> None:
    command = f"{COMMAND} sleep 600"
    finished = await Local(grace=0.1).run(
        command, cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput(), timeout=5
    )
    assert finished.timed_out
    assert not is_alive(escaped(tmp_path))


async def test_a_background_process_keeps_running_until_it_is_ended(tmp_path: Path, nonce: str) -> None:
    assert await Local().run(COMMAND, cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput()) == Finished(0)
    pid = escaped(tmp_path)
    assert is_alive(pid)
    assert await Local().kill_orphans(nonce) == 1
    assert not is_alive(pid)


ALONE = [
    "true",
    "ls -la src",
    "grep -rn 'a b' .",
    "cd src && ls -la | head -20; wc -l *.py",
    "cat a 2>/dev/null || echo none >&2",
    "echo x >>f 2>&1",
    "[ -f a ] && nl -ba a | sed -n '1,80p'",
    "sed -n 3p a.txt",
    "find . -name '*.py' | sort -u",
    "rg -n 'a b' src|head",
]
MAY_LEAVE = [
    "",
    "git; x",
    "ls && git gc",
    "cat x | sh",
    "ls |& x",
    "ls 2>&1 & x",
    "ls $(x)",
    "ls 2>/dev/null; `x`",
    "echo x &",
    "sort\nx",
    "ls\nx | cat",
    "lsx",
    "ls >(x)",
    "cat <(x)",
    "ls &>f",
    "sed 1p a",
    "sed -n '1p;1e x' a",
    "sed -n 1p -e '1e x' a",
    "X=y ls",
    "find . -exec x {} +",
    "find . '-exec' x",
    "find . -ex''ec x",
    "find . -{exec,x}",
    "rg --pre x y",
    "sort --compress-program=x f",
]


def test_a_command_that_starts_nothing_lasting_needs_no_group() -> None:
    assert [command for command in ALONE + MAY_LEAVE if not cgroups.may_outlive(command)] == ALONE


async def test_no_group_is_left_after_a_command(tmp_path: Path, nonce: str) -> None:
    await Local().run("sh -c true", cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput())
    assert cgroups.find(nonce) is None


@pytest.mark.parametrize(("later", "stays"), [(60, True), (3600, False)])
def test_a_group_waits_for_a_slow_shell_but_not_forever(
    monkeypatch: pytest.MonkeyPatch, nonce: str, later: float, stays: bool
) -> None:
    waiting = cgroups.make(nonce)
    assert waiting is not None
    now = time.time()
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: now + later)
        other = cgroups.make(f"{nonce}-other")
    assert other is not None
    other.leave()
    assert waiting.place.is_dir() == stays
    waiting.leave()


def test_a_missing_group_adds_nothing_to_the_output(tmp_path: Path) -> None:
    argv = cgroups.Group(tmp_path / "gone").wrap(["/bin/echo", "hello"])
    done = subprocess.run(argv, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"hello\n", b"")


async def test_a_killed_daemon_ends_the_group_at_its_next_start(tmp_path_factory: pytest.TempPathFactory) -> None:
    script = [section("^escape", {"calls": [shell_call(f"{COMMAND} echo up; sleep 600")]}, {"text": "ok"})]
    with Daemon(tmp_path_factory.mktemp("k"), script=script) as daemon:
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon, approvalPolicy="all")
            await send(client, session_id, "escape")
            await client.wait_for("tool_output")
        pid = escaped(daemon.workspace)
        daemon.kill()
        assert is_alive(pid)
        daemon.start()
        async with wire_client(daemon) as client:
            await attach(client, session_id)
            await client.wait_for("run_complete")
        try:
            assert not is_alive(pid)
        finally:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)

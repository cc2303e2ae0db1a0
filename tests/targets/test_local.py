"""This machine as a target."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.targets import orphans
from buddy.targets.contract import Finished, Target
from buddy.targets.local import Local
from tests.targets.captured_output import CapturedOutput, Stream


@pytest.fixture
def nonce() -> str:
    return uuid.uuid4().hex


async def run(command: str, cwd: Path, nonce: str, taken: CapturedOutput, timeout: float | None = None) -> Finished:
    return await Local(grace=0.1).run(command, cwd=str(cwd), nonce=nonce, on_output=taken, timeout=timeout)


async def cancel_once(text: bytes, command: str, cwd: Path, nonce: str) -> None:
    """Cancel a command after it printed `text`."""
    taken = CapturedOutput()
    running = asyncio.create_task(run(command, cwd, nonce, taken))
    await taken.wait_for(text)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> set[str]:
    """Also those that ended and were not waited for; others in this process may have some of their own."""
    lists = Path("/proc/self/task").glob("*/children")
    return {pid for one in lists for pid in one.read_text().split()}


def names_in(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_local_is_a_target() -> None:
    target: Target = Local()
    assert target.name == "local"


async def test_both_streams_and_the_exit_code_are_returned(tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    finished = await run("pwd; echo oops >&2; exit 7", tmp_path, nonce, taken)
    assert finished == Finished(exit_code=7)
    assert taken.output == {"stdout": f"{tmp_path}\n".encode(), "stderr": b"oops\n"}


async def test_a_signal_is_a_negative_exit_code(tmp_path: Path, nonce: str) -> None:
    assert await run("kill -9 $$", tmp_path, nonce, CapturedOutput()) == Finished(exit_code=-9)


async def test_a_command_sees_the_environment_without_our_variables(
    tmp_path: Path, nonce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUDDY_API_KEY", "sk-canary")
    monkeypatch.setenv("AGENT_API_KEY", "sk-canary")
    monkeypatch.setenv("THEIRS", "kept")
    taken = CapturedOutput()
    await Local().run("env", cwd=str(tmp_path), nonce=nonce, on_output=taken, env={"MORE": "yes", "BUDDY_CALL": "x"})
    lines = bytes(taken.output["stdout"]).decode().splitlines()
    assert {"THEIRS=kept", "MORE=yes", f"BUDDY_CALL={nonce}"} <= set(lines)
    assert "sk-canary" not in "\n".join(lines)


async def test_stdin_is_empty_and_the_command_leads_its_own_session(tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    await run("cat; ps -o sid= -p $$; echo $$", tmp_path, nonce, taken)
    session, pid = taken.output["stdout"].split()
    assert session == pid
    assert int(pid) != os.getsid(0)


async def test_a_command_that_starts_with_a_dash_is_not_an_option(tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    assert await run("-c 'echo no'", tmp_path, nonce, taken) == Finished(exit_code=127)
    assert not taken.output["stdout"]


@pytest.mark.parametrize("command", ["echo a\0b", "echo " + "x" * 200_000, "echo \ud800"])
async def test_a_command_that_cannot_be_started_is_a_tool_error(tmp_path: Path, nonce: str, command: str) -> None:
    before = open_descriptors()
    with pytest.raises(ToolError):
        await run(command, tmp_path, nonce, CapturedOutput())
    assert open_descriptors() == before


async def test_a_missing_directory_is_reported_by_name(tmp_path: Path, nonce: str) -> None:
    with pytest.raises(ToolError, match="missing"):
        await run("true", tmp_path / "missing", nonce, CapturedOutput())


async def test_a_timeout_ends_the_group_and_keeps_the_output_until_then(tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    finished = await run("echo begun; sleep 100 & sleep 100", tmp_path, nonce, taken, timeout=1)
    assert finished.timed_out
    assert taken.output["stdout"] == b"begun\n"
    assert orphans.find(nonce) == []


async def test_output_after_sigterm_is_still_captured(tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    command = "trap 'echo bye; exit 3' TERM; echo begun; sleep 100 & wait"
    finished = await Local(grace=10).run(command, cwd=str(tmp_path), nonce=nonce, on_output=taken, timeout=1)
    assert finished == Finished(exit_code=3, timed_out=True)
    assert taken.output["stdout"] == b"begun\nbye\n"


async def test_cancelling_ends_a_child_that_ignores_sigterm(tmp_path: Path, nonce: str) -> None:
    await cancel_once(b"begun", "trap '' TERM HUP INT; echo begun; while :; do sleep 100; done", tmp_path, nonce)
    assert orphans.find(nonce) == []


async def test_cancelling_ends_a_grandchild_that_left_the_group(tmp_path: Path, nonce: str) -> None:
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        print('daemon', flush=True)\n"
        "        time.sleep(100)\n"
        "    os._exit(0)\n"
        "time.sleep(100)\n"
    )
    (tmp_path / "daemon.py").write_text(program)
    await cancel_once(b"daemon", f"{sys.executable} daemon.py", tmp_path, nonce)
    assert orphans.find(nonce) == []


async def test_cancelling_twice_still_ends_everything(tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    running = asyncio.create_task(run("trap '' TERM; echo begun; while :; do sleep 9; done", tmp_path, nonce, taken))
    await taken.wait_for(b"begun")
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert orphans.find(nonce) == []


async def test_no_child_or_descriptor_is_left_behind(tmp_path: Path, nonce: str) -> None:
    await run("true", tmp_path, nonce, CapturedOutput())
    gc.collect()  # what earlier tests left must not be closed in between
    before = (open_descriptors(), children())
    await run("true", tmp_path, nonce, CapturedOutput())
    await run("sleep 100", tmp_path, nonce, CapturedOutput(), timeout=0.05)
    await cancel_once(b"begun", "echo begun; sleep 100", tmp_path, nonce)
    assert (open_descriptors(), children()) == before


async def test_a_background_job_keeps_running_and_does_not_hang_the_call(tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    started = time.monotonic()
    finished = await run("sleep 100 & echo done", tmp_path, nonce, taken)
    assert time.monotonic() - started < 50
    assert finished == Finished(exit_code=0)
    assert taken.output["stdout"] == b"done\n"
    assert len(orphans.find(nonce)) == 1
    assert await Local().kill_orphans(nonce) == 1
    assert orphans.find(nonce) == []


async def test_all_output_arrives_although_a_background_job_holds_the_pipe(tmp_path: Path, nonce: str) -> None:
    received = 0

    async def take_slowly(_stream: Stream, chunk: bytes) -> None:
        nonlocal received
        received += len(chunk)
        await asyncio.sleep(0.05)

    command = "sleep 100 & head -c 1000000 /dev/zero"
    try:
        await Local().run(command, cwd=str(tmp_path), nonce=nonce, on_output=take_slowly)
    finally:
        await Local().kill_orphans(nonce)
    assert received == 1_000_000


async def test_a_background_job_that_never_stops_writing_does_not_block_the_call(tmp_path: Path, nonce: str) -> None:
    try:
        assert await run("yes & exit 4", tmp_path, nonce, CapturedOutput()) == Finished(exit_code=4)
    finally:
        await Local().kill_orphans(nonce)


async def test_a_child_that_closes_its_output_is_waited_for(tmp_path: Path, nonce: str) -> None:
    command = "exec >&- 2>&-; sleep 0.2; touch finished; exit 5"
    assert await run(command, tmp_path, nonce, CapturedOutput()) == Finished(exit_code=5)
    assert (tmp_path / "finished").exists()


async def test_a_child_that_closed_its_output_can_time_out(tmp_path: Path, nonce: str) -> None:
    finished = await run("exec >&- 2>&-; sleep 100", tmp_path, nonce, CapturedOutput(), timeout=0.2)
    assert finished.timed_out


async def test_a_slow_reader_slows_the_child_and_chunks_stay_small(tmp_path: Path, nonce: str) -> None:
    total, largest = 0, 0

    async def count(_stream: Stream, chunk: bytes) -> None:
        nonlocal total, largest
        total, largest = total + len(chunk), max(largest, len(chunk))

    await Local().run("head -c 50000000 /dev/zero", cwd=str(tmp_path), nonce=nonce, on_output=count)
    assert total == 50_000_000
    assert largest <= 64 * 1024


async def test_an_endless_writer_can_be_ended(tmp_path: Path, nonce: str) -> None:
    async def ignore(_stream: Stream, _chunk: bytes) -> None:
        pass

    finished = await Local(grace=0.1).run("yes", cwd=str(tmp_path), nonce=nonce, on_output=ignore, timeout=0.2)
    assert finished.timed_out


async def test_an_error_of_the_reader_ends_the_command_and_is_raised_unchanged(tmp_path: Path, nonce: str) -> None:
    async def fail(_stream: Stream, _chunk: bytes) -> None:
        raise LookupError("no room")

    with pytest.raises(LookupError, match="no room"):
        await Local(grace=0.1).run("echo x; sleep 100", cwd=str(tmp_path), nonce=nonce, on_output=fail)
    assert orphans.find(nonce) == []


async def test_many_commands_at_once_do_not_mix(tmp_path: Path, nonce: str) -> None:
    taken = [CapturedOutput() for _ in range(20)]
    await asyncio.gather(*(run(f"echo {n}; echo {n} >&2", tmp_path, nonce, one) for n, one in enumerate(taken)))
    for number, one in enumerate(taken):
        assert one.output == {"stdout": f"{number}\n".encode(), "stderr": f"{number}\n".encode()}


async def test_orphans_of_another_nonce_are_left_alone(tmp_path: Path, nonce: str) -> None:
    await run("sleep 100 &", tmp_path, nonce, CapturedOutput())
    assert await Local().kill_orphans("another") == 0
    assert await Local().kill_orphans(nonce[:-1]) == 0
    (stray,) = orphans.find(nonce)
    os.kill(stray, signal.SIGKILL)


async def test_a_cancelled_write_does_not_happen_later(tmp_path: Path) -> None:
    writing = asyncio.create_task(Local().write_file("file", b"x" * 1_000_000, root=str(tmp_path)))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert names_in(tmp_path) in ([], ["file"])


async def test_files_below_the_root_can_be_read_written_and_inspected(tmp_path: Path) -> None:
    target, root = Local(), str(tmp_path)
    await target.write_file("a/b", b"hello", root=root)
    assert await target.read_file("a/b", root=root, limit=4) == b"hell"
    info = await target.stat("a/b", root=root)
    assert info is not None and info.size == 5
    with pytest.raises(ToolError):
        await target.read_file("../x", root=root, limit=4)


def test_the_boundaries_of_a_call_are_passed_in_order(tmp_path: Path) -> None:
    listing = tmp_path / "passed"
    program = (
        "import asyncio\n"
        "from buddy.targets.local import Local\n"
        "async def take(stream, chunk): pass\n"
        f"asyncio.run(Local().run('env', cwd={str(tmp_path)!r}, nonce='n', on_output=take))\n"
    )
    source = str(Path(orphans.__file__).parents[2])
    env = {**os.environ, "BUDDY_FAULT_LOG": str(listing), "PYTHONPATH": source}
    subprocess.run([sys.executable, "-c", program], env=env, check=True)
    assert listing.read_text().split() == ["tool.start.before:1", "tool.start.after:1", "tool.end:1"]


def test_a_process_never_kills_itself_by_its_own_nonce(nonce: str) -> None:
    program = f"from buddy.targets import orphans; print(orphans.kill({nonce!r}))"
    source = str(Path(orphans.__file__).parents[2])
    env = {**os.environ, "BUDDY_CALL": nonce, "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True)
    assert done.stdout == b"0\n"

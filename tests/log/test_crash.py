"""What is left of a log when its process dies, the power fails or the disk is full."""

import asyncio
import json
import random
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from buddy.log.contract import Log
from buddy.log.owners import this_owner
from buddy.log.schema import PAGE
from buddy.log.sqlite import SqliteLog
from tests.harness.clock import ManualClock
from tests.harness.logs import read_all
from tests.harness.processes import program_environment
from tests.log.records import OTHER, SESSION, seqs

WAL_HEADER, WAL_FRAME = 32, 24 + PAGE
# The seq that fifteen appends of one, two, one, two … events end at.
CRASHED_AT = 22


async def start(module: str, *arguments: str, fault: str = "") -> Process:
    """Start a program of this folder."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"tests.log.{module}", *arguments, env=program_environment(BUDDY_FAULT=fault), stdout=PIPE
    )


async def appended(process: Process) -> list[str]:
    output, _ = await process.communicate()
    return output.decode().split()


async def check_complete(log: Log, session_id: str, acknowledged: int) -> int:
    """The log has no gap and everything that was acknowledged; returns its last seq."""
    found = await log.get(session_id)
    last_seq = found.last_seq if found else 0
    assert seqs(await read_all(log, session_id)) == list(range(1, last_seq + 1))
    assert last_seq >= acknowledged
    return last_seq


async def test_two_concurrent_processes_lose_nothing(state_dir: Path, clock: ManualClock) -> None:
    processes = [await start("appender", str(state_dir), session_id, "300") for session_id in (SESSION, OTHER)]
    said = await asyncio.gather(*map(appended, processes))
    assert [process.returncode for process in processes] == [0, 0]
    log = SqliteLog.open(state_dir, clock)
    for session_id, acknowledged in zip((SESSION, OTHER), said, strict=True):
        assert await check_complete(log, session_id, 300) == int(acknowledged[-1])
    await log.close()


async def test_a_killed_process_loses_nothing_that_was_acknowledged(state_dir: Path, clock: ManualClock) -> None:
    chance = random.Random(7)  # noqa: S311 - a seed to repeat, not a secret
    for _ in range(12):
        process = await start("appender", str(state_dir), SESSION, "100000")
        assert process.stdout is not None
        said = [(await process.stdout.readline()).decode() for _ in range(chance.randint(1, 60))]
        process.kill()
        said += await appended(process)
        log = SqliteLog.open(state_dir, clock)
        await check_complete(log, SESSION, int(said[-1]))
        lease = await log.acquire(SESSION, this_owner())
        assert lease is not None, "a dead process holds nothing"
        await log.release(lease)
        await log.close()


# The first commit makes the session; the third of the points is reached by the second append.
@pytest.mark.parametrize(("point", "left"), [("commit.before", 1), ("commit.after", 3)])
async def test_a_commit_is_the_moment_that_counts(state_dir: Path, clock: ManualClock, point: str, left: int) -> None:
    process = await start("appender", str(state_dir), SESSION, "100", fault=f"{point}:3:kill")
    assert await appended(process) == ["1"]
    log = SqliteLog.open(state_dir, clock)
    assert await check_complete(log, SESSION, 1) == left
    await log.close()


async def crashed_copy(state_dir: Path, tmp_path: Path) -> Path:
    """The files of a process that was killed with its write-ahead log unmerged."""
    process = await start("appender", str(state_dir), SESSION, "1000", fault="commit.after:16:kill")
    await process.communicate()
    copy = tmp_path / "crashed"
    copy.mkdir()
    for name in ("buddy.db", "buddy.db-wal"):
        shutil.copy(state_dir / name, copy / name)
    return copy


def lay_out(crashed: Path, wal: bytes, place: Path) -> None:
    place.mkdir(mode=0o700)
    shutil.copy(crashed / "buddy.db", place / "buddy.db")
    (place / "buddy.db-wal").write_bytes(wal)


async def last_seq_of(crashed: Path, wal: bytes, place: Path, clock: ManualClock) -> int:
    lay_out(crashed, wal, place)
    log = SqliteLog.open(place, clock)
    last_seq = await check_complete(log, SESSION, 0)
    await log.close()
    return last_seq


async def test_a_write_ahead_log_cut_anywhere_leaves_a_prefix(
    state_dir: Path, tmp_path: Path, clock: ManualClock
) -> None:
    crashed = await crashed_copy(state_dir, tmp_path)
    wal = (crashed / "buddy.db-wal").read_bytes()
    chance = random.Random(8)  # noqa: S311 - a seed to repeat, not a secret
    boundaries = range(WAL_HEADER, len(wal) + 1, WAL_FRAME)
    cuts = sorted({0, *boundaries, *(chance.randrange(len(wal)) for _ in range(50))})
    ends = [await last_seq_of(crashed, wal[:cut], tmp_path / f"cut-{cut}", clock) for cut in cuts]
    assert len(boundaries) > 30
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (0, CRASHED_AT)


async def test_a_flipped_byte_in_the_write_ahead_log_leaves_a_prefix(
    state_dir: Path, tmp_path: Path, clock: ManualClock
) -> None:
    crashed = await crashed_copy(state_dir, tmp_path)
    wal = (crashed / "buddy.db-wal").read_bytes()
    chance = random.Random(9)  # noqa: S311 - a seed to repeat, not a secret
    for place in {chance.randrange(len(wal)) for _ in range(20)}:
        flipped = wal[:place] + bytes([wal[place] ^ 0x40]) + wal[place + 1 :]
        assert await last_seq_of(crashed, flipped, tmp_path / f"flip-{place}", clock) <= CRASHED_AT


async def test_files_that_may_not_grow_refuse_appends_until_they_may(state_dir: Path, clock: ManualClock) -> None:
    process = await start("filler", str(state_dir))
    output, _ = await process.communicate()
    said = json.loads(output)
    assert said["acknowledged"] > 1
    assert said["after"] == said["acknowledged"] + 20
    assert (said["blobRefused"], said["leftovers"]) == (1, [])
    log = SqliteLog.open(state_dir, clock)
    assert await check_complete(log, SESSION, said["after"]) == said["after"]
    await log.close()


async def test_an_append_that_finds_no_room_can_be_made_again(state_dir: Path, clock: ManualClock) -> None:
    process = await start("appender", str(state_dir), SESSION, "5", fault="commit.before:3:enospc")
    assert await appended(process) == ["1", "full", "3", "4", "6"]
    log = SqliteLog.open(state_dir, clock)
    assert await check_complete(log, SESSION, 6) == 6
    await log.close()

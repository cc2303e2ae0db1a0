"""A program that appends to one session and says on stdout which seqs were acknowledged: `STATE_DIR SESSION COUNT`."""

import asyncio
import os
import sys
from pathlib import Path

from buddy.errors import StorageFull
from buddy.log.contract import Lease
from buddy.log.owners import this_owner
from buddy.log.sqlite import SqliteLog
from tests.log.records import batch, record


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


async def take(log: SqliteLog, session_id: str) -> tuple[Lease, int]:
    found = await log.get(session_id)
    if found is None:
        return await log.create(record(session_id), this_owner()), 0
    lease = await log.acquire(session_id, this_owner())
    assert lease is not None, "the last holder is dead"
    return lease, found.last_seq


async def append(state_dir: Path, session_id: str, count: int) -> None:
    log = SqliteLog.open(state_dir, lambda: 1)
    lease, last_seq = await take(log, session_id)
    goal = last_seq + count
    while last_seq < goal:
        size = 1 + last_seq % 3
        try:
            last_seq = await log.append(batch(lease, last_seq, size, durable=last_seq % 5 == 0))
        except StorageFull:
            say("full")
            continue
        say(str(last_seq))
    await log.close()


if __name__ == "__main__":
    asyncio.run(append(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))

"""A program that appends until its files may not grow, then gets room again; prints one JSON object: `STATE_DIR`."""

import asyncio
import json
import resource
import secrets
import sys
from pathlib import Path

from buddy.errors import StorageFull
from buddy.log.owners import this_owner
from buddy.log.sqlite import SqliteLog
from tests.log.records import batch, record


def allow(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def fill(state_dir: Path) -> dict[str, object]:
    log = SqliteLog.open(state_dir, lambda: 1)
    lease = await log.create(record(), this_owner())
    last_seq = await log.append(batch(lease, 0))
    allow((state_dir / "buddy.db-wal").stat().st_size + 100_000)
    refused = blob_refused = 0
    while refused < 3:
        try:
            last_seq = await log.append(batch(lease, last_seq, 20))
        except StorageFull:
            refused += 1
    acknowledged = last_seq
    try:
        await log.put_blob(secrets.token_bytes(500_000))
    except StorageFull:
        blob_refused = 1
    allow(resource.RLIM_INFINITY)
    after = await log.append(batch(lease, last_seq, 20, durable=True))
    await log.close()
    leftovers = [str(path) for path in (state_dir / "blobs").rglob(".new-*")]
    return {"acknowledged": acknowledged, "after": after, "blobRefused": blob_refused, "leftovers": leftovers}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(fill(Path(sys.argv[1])))))

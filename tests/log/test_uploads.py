"""Blobs that were brought for a message: kept for a day, with a message that waits, and with the event."""

import asyncio
import hashlib
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from buddy.errors import UserError
from buddy.log.contract import Batch, Log
from buddy.log.postgres.postgres import PostgresLog
from buddy.log.sqlite import SqliteLog
from buddy.log.usage import upload_bytes
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import AssistantToken
from tests.harness.clock import ManualClock
from tests.log.records import OTHER, SESSION, started

CONTENT = os.urandom(2000)
BLOB = hashlib.sha256(CONTENT).hexdigest()
DAY_AND_MORE = 25 * 3600

Age = Callable[[], Awaitable[None]]


@pytest.fixture
def age(log: Log, clock: ManualClock, state_dir: Path) -> Age:
    """Lets a day pass since a blob was brought."""

    async def pass_a_day() -> None:
        clock.advance(DAY_AND_MORE)
        make_old(state_dir)
        if isinstance(log, PostgresLog):
            await log.writes.repeat("UPDATE blobs SET stored_at = stored_at - interval '25 hours'")

    return pass_a_day


def make_old(state_dir: Path) -> None:
    then = time.time() - DAY_AND_MORE
    for path in state_dir.glob("blobs/*/*/*"):
        os.utime(path, (then, then))


def names_of_files(state_dir: Path) -> list[str]:
    return [path.name for path in state_dir.glob("blobs/*/*/*")]


async def bring(log: Log, session_id: str = SESSION) -> None:
    await log.hold_blob(session_id, BLOB)
    assert await log.put_blob(CONTENT) == BLOB


async def is_kept(log: Log) -> bool:
    await log.sweep_blobs()
    return await log.read_blob(BLOB) is not None


async def test_an_upload_is_the_sessions_own_until_a_day_has_passed(log: Log, age: Age) -> None:
    await started(log, SESSION)
    await started(log, OTHER)
    await bring(log)
    assert (await log.has_blob(SESSION, BLOB), await log.has_blob(OTHER, BLOB)) == (True, False)
    assert await is_kept(log)
    await age()
    assert not await is_kept(log)
    assert not await log.has_blob(SESSION, BLOB)
    with pytest.raises(UserError, match="no session"):
        await log.hold_blob("sess_none", BLOB)


async def test_an_upload_that_is_named_again_stays_for_another_day(log: Log, age: Age) -> None:
    await started(log, SESSION)
    await bring(log)
    await age()
    await log.hold_blob(SESSION, BLOB)
    assert await is_kept(log)


async def test_a_message_that_waits_keeps_its_image_for_as_long_as_it_waits(log: Log, age: Age) -> None:
    lease = await started(log, SESSION)
    await started(log, OTHER)
    await bring(log)
    await bring(log, OTHER)
    await log.put(SESSION, "msg_1", "message:cli", b'{"attachments":[{"blob":"%s"}]}' % BLOB.encode(), 10)
    await age()
    assert await is_kept(log)
    await log.delete(OTHER)
    assert await is_kept(log)
    [item] = await log.waiting(SESSION)
    event = event_of(AssistantToken(text="", blobs={"text": BLOB}), session_id=SESSION, seq=1, ts=1)
    await log.append(Batch(SESSION, lease.epoch, 0, [event], taken=(item.item_id,)))
    assert await is_kept(log)
    assert await log.has_blob(SESSION, BLOB)
    await age()
    await log.delete(SESSION)
    assert not await is_kept(log)


async def test_a_message_that_was_taken_back_keeps_nothing(log: Log, age: Age) -> None:
    lease = await started(log, SESSION)
    await bring(log)
    await log.put(SESSION, "msg_1", "message:cli", b'{"attachments":[{"blob":"%s"}]}' % BLOB.encode(), 10)
    [item] = await log.waiting(SESSION)
    event = event_of(AssistantToken(text="taken back"), session_id=SESSION, seq=1, ts=1)
    await log.append(Batch(SESSION, lease.epoch, 0, [event], taken=(item.item_id,)))
    await age()
    assert not await is_kept(log)


async def test_what_one_session_lets_go_stays_for_the_other(log: Log, age: Age) -> None:
    await started(log, SESSION)
    await started(log, OTHER)
    await bring(log)
    await bring(log, OTHER)
    await log.delete(SESSION)
    assert await is_kept(log)
    await age()
    await log.delete(OTHER)
    assert not await is_kept(log)


@pytest.mark.parametrize("waits", [False, True], ids=["sent", "sent and waiting again"])
async def test_a_prune_lets_go_of_what_was_brought_for_a_pruned_message(log: Log, waits: bool) -> None:
    lease = await started(log, SESSION)
    await bring(log)
    event = event_of(AssistantToken(text="", blobs={"text": BLOB}), session_id=SESSION, seq=1, ts=1)
    await log.append(Batch(SESSION, lease.epoch, 0, [event]))
    if waits:
        await log.put(SESSION, "msg_1", "message:cli", b'{"attachments":[{"blob":"%s"}]}' % BLOB.encode(), 10)
    assert await log.prune(lease, 2) == 2
    assert await log.has_blob(SESSION, BLOB) is waits


async def test_a_prune_lets_go_of_what_only_pruned_events_named(log: Log, age: Age) -> None:
    lease, other = await started(log, SESSION), await started(log, OTHER)
    contents = [b"pruned", b"named again", b"of both", b"kept"]
    pruned, again, both, kept = [await log.put_blob(content) for content in contents]

    def naming(session_id: str, seq: int, *blobs: str) -> Event:
        body = AssistantToken(text="", blobs={str(at): blob for at, blob in enumerate(blobs)})
        return event_of(body, session_id=session_id, seq=seq, ts=1)

    await log.append(Batch(OTHER, other.epoch, 0, [naming(OTHER, 1, both)]))
    first = [naming(SESSION, 1, pruned, again), naming(SESSION, 2, both, pruned)]
    await log.append(Batch(SESSION, lease.epoch, 0, first))
    await log.append(Batch(SESSION, lease.epoch, 2, [naming(SESSION, 3, again, kept)]))
    await age()
    assert await log.prune(lease, 2) == 2
    await log.sweep_blobs()
    assert [await log.has_blob(SESSION, blob) for blob in (pruned, again, both, kept)] == [True] * 4
    assert await log.prune(lease, 3) == 3
    await log.sweep_blobs()
    assert [await log.has_blob(SESSION, blob) for blob in (pruned, again, both, kept)] == [False, True, False, True]
    assert await log.has_blob(OTHER, both)
    found = [await log.read_blob(blob) for blob in (pruned, again, both, kept)]
    assert found == [None, *((content, len(content)) for content in contents[1:])]


async def test_what_was_too_recent_at_a_deletion_goes_with_a_later_process(state_dir: Path, clock: ManualClock) -> None:
    first = SqliteLog.open(state_dir, clock)
    lease = await started(first, SESSION)
    blob = await first.put_blob(CONTENT)
    event = event_of(AssistantToken(text="", blobs={"text": blob}), session_id=SESSION, seq=1, ts=1)
    await first.append(Batch(SESSION, lease.epoch, 0, [event]))
    await first.delete(SESSION)
    await first.close()
    assert names_of_files(state_dir) == [blob], "another process may be about to name it"
    make_old(state_dir)
    await SqliteLog.open(state_dir, clock).close()
    assert names_of_files(state_dir) == []


async def test_a_damaged_blob_is_as_if_it_were_missing(sqlite: SqliteLog, state_dir: Path) -> None:
    blob = await sqlite.put_blob(b"words " * 1000)
    [name] = names_of_files(state_dir)
    assert name == f"{blob}.z"
    damage(state_dir)
    assert await sqlite.read_blob(blob) is None


def damage(state_dir: Path) -> None:
    for path in state_dir.glob("blobs/*/*/*"):
        path.write_bytes(b"damaged")


async def test_a_sweep_takes_nothing_from_a_message_that_names_it_meanwhile(log: Log, age: Age) -> None:
    await started(log, SESSION)
    for _ in range(20):
        await bring(log)
        await age()

        async def name() -> bool:
            """As a message is checked: held again, and then read."""
            if not await log.has_blob(SESSION, BLOB):
                return False
            await log.hold_blob(SESSION, BLOB)
            return await log.read_blob(BLOB) is not None

        named, _, _ = await asyncio.gather(name(), log.sweep_blobs(), log.sweep_blobs())
        if named:
            assert await is_kept(log)
            assert await log.has_blob(SESSION, BLOB)


async def test_what_a_killed_process_left_goes(sqlite: SqliteLog, state_dir: Path) -> None:
    await started(sqlite, SESSION)
    await sqlite.hold_blob(SESSION, BLOB)  # it died before the content was there
    half = state_dir / "blobs" / ".new-0123456789abcdef"
    half.write_bytes(b"half")
    await sqlite.sweep_blobs()
    assert half.exists()
    os.utime(half, (0, 0))
    await sqlite.sweep_blobs()
    assert not half.exists()
    assert upload_bytes(state_dir) == 0
    await sqlite.put_blob(CONTENT)
    assert upload_bytes(state_dir) == len(CONTENT)
    await sqlite.delete(SESSION)
    await sqlite.sweep_blobs()
    make_old(state_dir)
    await sqlite.sweep_blobs()
    assert await sqlite.read_blob(BLOB) is None

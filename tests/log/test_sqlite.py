"""What only the SQLite log has: files, modes, versions, threads."""

import asyncio
import os
import secrets
import stat
import threading
from pathlib import Path

import apsw
import pytest

from buddy.errors import UserError
from buddy.log.contract import Batch, Lease, RowFacts, TokenRecord
from buddy.log.database import Database
from buddy.log.room import DiskSpace
from buddy.log.schema import MIGRATIONS, open_database
from buddy.log.sqlite import SqliteLog
from buddy.log.statedir import make_private_dir
from buddy.log.writer import Writer
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import ApprovalExpired, AssistantToken, Usage, UserMessage
from buddy.protocol.shapes import BudgetLimits, BudgetState, ContextState
from tests.harness.clock import ManualClock
from tests.harness.logs import read_all
from tests.log.records import SESSION, batch, record, seqs


async def test_a_log_can_be_read_after_it_was_closed(state_dir: Path, clock: ManualClock) -> None:
    log = SqliteLog.open(state_dir, clock)
    await log.append(batch(await log.create(record(), "owner"), 0, 5))
    before = await log.get(SESSION)
    await log.close()
    again = SqliteLog.open(state_dir, clock)
    assert seqs(await read_all(again, SESSION)) == [1, 2, 3, 4, 5]
    assert await again.get(SESSION) == before
    await again.close()


async def test_closing_ends_the_writer_and_can_be_done_twice(state_dir: Path, clock: ManualClock) -> None:
    log = SqliteLog.open(state_dir, clock)
    lease = await log.create(record(), "owner")
    last = asyncio.ensure_future(log.append(batch(lease, 0)))
    await asyncio.sleep(0)
    await log.close()
    await log.close()
    assert await last == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "log-writer"]
    with pytest.raises(RuntimeError, match="the log is closed"):
        await log.append(batch(lease, 1))


async def test_a_log_that_was_only_read_has_no_thread(sqlite: SqliteLog) -> None:
    assert await sqlite.newest(5) == []
    assert not [thread for thread in threading.enumerate() if thread.name == "log-writer"]


async def test_a_cancelled_append_leaves_the_log_intact(sqlite: SqliteLog) -> None:
    lease = await sqlite.create(record(), "owner")
    cancelled = asyncio.ensure_future(sqlite.append(batch(lease, 0)))
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert await sqlite.append(batch(lease, 1)) == 2
    assert seqs(await read_all(sqlite, SESSION)) == [1, 2]


async def test_a_wait_sees_what_another_process_appends(sqlite: SqliteLog, state_dir: Path, clock: ManualClock) -> None:
    lease = await sqlite.create(record(), "owner")
    other = SqliteLog.open(state_dir, clock)
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(other.wait(SESSION, 0, 60))
        await asyncio.sleep(0)
        await sqlite.append(batch(lease, 0))
    assert wait.result()
    await other.close()


async def test_files_are_private_whatever_the_umask(tmp_path: Path, clock: ManualClock) -> None:
    before = os.umask(0)
    try:
        log = SqliteLog.open(tmp_path / "above" / "state", clock)
        await log.create(record(), "owner")
        await log.put_blob(b"content")
        found = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "above").rglob("*")}
        found[tmp_path / "above"] = stat.S_IMODE((tmp_path / "above").stat().st_mode)
        await log.close()
    finally:
        os.umask(before)
    assert {path.name for path in found} > {"above", "state", "buddy.db", "buddy.db-wal", "buddy.db-shm", "blobs"}
    assert {
        path for path, mode in found.items() if mode != (0o700 if path.is_dir() else 0o600) and path.exists()
    } == set()


async def test_a_log_knows_when_there_is_not_enough_room(state_dir: Path, clock: ManualClock) -> None:
    log = SqliteLog.open(state_dir, clock, min_free=2**60)
    assert not log.has_room()
    await log.close()


def test_room_is_measured_whenever_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room, blocks = DiskSpace(tmp_path, 4096), 10
    facts = os.statvfs(tmp_path)

    def measure(_: Path) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 100, blocks, blocks, *facts[5:]))

    monkeypatch.setattr("os.statvfs", measure)
    assert room.is_enough()
    blocks = 0
    assert not room.is_enough()


async def test_blobs_are_compressed_and_older_ones_are_still_read(sqlite: SqliteLog, state_dir: Path) -> None:
    text, noise = b"a long answer\n" * 5000, secrets.token_bytes(5000)
    blob, random, small = [await sqlite.put_blob(content) for content in (text, noise, b"x")]
    sizes = {path.name: path.stat().st_size for path in (state_dir / "blobs").rglob("*") if path.is_file()}
    assert sizes[f"{blob}.z"] < len(text) / 10
    assert (sizes[random], sizes[small]) == (5000, 1)
    (path,) = (state_dir / "blobs").rglob(f"{blob}.z")
    path.with_name(blob).write_bytes(text)
    path.unlink()  # as it was kept before
    assert await sqlite.put_blob(text) == blob
    assert await sqlite.read_blob(blob, 7, 6) == (b"answer", len(text))
    assert not path.exists()


async def test_blobs_go_with_the_last_session_that_names_them(sqlite: SqliteLog, state_dir: Path) -> None:
    old, young = await sqlite.put_blob(b"old"), await sqlite.put_blob(b"young")
    (path,) = (state_dir / "blobs").rglob(old)
    os.utime(path, (1, 1))
    lease = await sqlite.create(record(), "owner")
    event = event_of(AssistantToken(text="", blobs={"a": old, "b": young}), session_id=SESSION, seq=1, ts=1)
    await sqlite.append(Batch(SESSION, lease.epoch, 0, [event]))
    await sqlite.delete(SESSION)
    assert await sqlite.read_blob(old) is None
    assert await sqlite.read_blob(young) == (b"young", 5)


# --- another program has the database ---


async def test_a_locked_database_is_reported_and_not_waited_for(state_dir: Path, clock: ManualClock) -> None:
    log = SqliteLog.open(state_dir, clock, busy_seconds=0.05)
    lease = await log.create(record(), "owner")
    other = open_database(state_dir / "buddy.db")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UserError, match="is locked by another program") as told:
        await log.append(batch(lease, 0))
    assert told.value.exit_code == 75
    assert told.value.hint
    assert await log.read(SESSION, 0) == []
    other.execute("ROLLBACK")
    assert await log.append(batch(lease, 0)) == 1
    other.close()
    await log.close()


# --- files that are not ours ---


def refuse(state_dir: Path, clock: ManualClock, words: str) -> None:
    """Opening fails with these words and a hint, and the database file stays as it is."""
    database = state_dir / "buddy.db"
    before = database.read_bytes() if database.is_file() else None
    with pytest.raises(UserError, match=words) as told:
        SqliteLog.open(state_dir, clock)
    assert told.value.hint
    assert (database.read_bytes() if database.is_file() else None) == before


def make_database(state_dir: Path, clock: ManualClock) -> None:
    state_dir.mkdir(mode=0o700)
    open_database(state_dir / "buddy.db").close()
    assert clock.now


def change(state_dir: Path, pragma: str) -> None:
    db = open_database(state_dir / "buddy.db")
    db.execute(pragma)
    db.close()


WITH_FACTS = 5
"""The version in which rows got what the list of sessions shows."""


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
async def test_a_log_of_an_older_version_is_brought_up_to_date(
    state_dir: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    with monkeypatch.context() as then:
        then.setattr("buddy.log.schema.MIGRATIONS", MIGRATIONS[:version])
        make_private_dir(state_dir)
        db = open_database(state_dir / "buddy.db")
        db.execute(
            "INSERT INTO sessions (id, repo, root_path, mode, state, created_at, updated_at, last_seq, epoch)"
            " VALUES (?, ?, '/project', 'interactive', 'idle', 1, 1, 4, 1)",
            (SESSION, '{"rootPath": "/project"}'),
        )
        said = [
            ApprovalExpired(approval_id="appr_1"),
            UserMessage(message_id="msg_1", text="\n\x1b[1mFix it,\tplease\nand more", by="cli"),
            *(used(tokens, cost) for tokens, cost in ((10, 0.25), (20, None))),
        ]
        for seq, body in enumerate(said, 1):
            event = event_of(body, session_id=SESSION, seq=seq, ts=7)
            db.execute(
                "INSERT INTO events VALUES (1, ?, 7, NULL, ?, ?)", (seq, event.type, bytes(event.payload).decode())
            )
        db.close()
    log = SqliteLog.open(state_dir, clock)
    assert [(event.seq, event.type) for event in await log.decisions(10)] == [(1, "approval_expired")]
    found = await log.get(SESSION)
    assert found is not None
    if version < WITH_FACTS:  # later versions have written them with the events
        assert found.title == "[1mFix it, please"
        assert found.facts == RowFacts(cost_usd=0.25, tokens=40, context=ContextState(20, 100))
    await log.append(batch(await acquired(log), 4))
    await log.put_token(TokenRecord("hash", SESSION, "driver"))
    assert await log.token("hash") == TokenRecord("hash", SESSION, "driver")
    await log.close()


def used(tokens: int, cost_usd: float | None) -> Usage:
    budget = BudgetState(1, tokens, 0, 0.0, BudgetLimits())
    return Usage(
        turn=1,
        input_tokens=tokens,
        output_tokens=5,
        context=ContextState(tokens, 100),
        budget=budget,
        cost_usd=cost_usd,
    )


async def acquired(log: SqliteLog) -> Lease:
    lease = await log.acquire(SESSION, "owner")
    assert lease is not None
    return lease


def test_finding_decisions_costs_an_insert_no_table_scan(state_dir: Path, clock: ManualClock) -> None:
    make_database(state_dir, clock)
    db = open_database(state_dir / "buddy.db")
    steps = {step[1] for step in db.execute("EXPLAIN INSERT INTO events VALUES (1, 1, 1, NULL, 'x', '{}')")}
    db.close()
    assert "IdxInsert" in steps
    assert "OpenEphemeral" not in steps


def test_a_newer_schema_is_refused(state_dir: Path, clock: ManualClock) -> None:
    make_database(state_dir, clock)
    change(state_dir, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    refuse(state_dir, clock, "written by a newer Buddy")


def test_the_database_of_another_program_is_refused(state_dir: Path, clock: ManualClock) -> None:
    make_database(state_dir, clock)
    change(state_dir, "PRAGMA application_id = 7")
    refuse(state_dir, clock, "of another program")


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "is empty"), (b"not a database" * 1000, "damaged or not a database")]
)
def test_a_file_that_is_not_a_database_is_refused(
    state_dir: Path, clock: ManualClock, content: bytes, words: str
) -> None:
    state_dir.mkdir(mode=0o700)
    (state_dir / "buddy.db").write_bytes(content)
    refuse(state_dir, clock, words)


def test_a_damaged_database_is_refused(state_dir: Path, clock: ManualClock) -> None:
    make_database(state_dir, clock)
    database = state_dir / "buddy.db"
    content = database.read_bytes()
    database.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    refuse(state_dir, clock, "damaged")


def test_a_linked_database_is_refused(state_dir: Path, clock: ManualClock, tmp_path: Path) -> None:
    state_dir.mkdir(mode=0o700)
    open_database(tmp_path / "elsewhere.db").close()
    (state_dir / "buddy.db").symlink_to(tmp_path / "elsewhere.db")
    refuse(state_dir, clock, "not a regular file")


def test_a_linked_state_directory_is_refused(state_dir: Path, clock: ManualClock, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    state_dir.symlink_to(tmp_path / "real")
    refuse(state_dir, clock, "is a symbolic link")


def test_a_file_as_state_directory_is_refused(state_dir: Path, clock: ManualClock) -> None:
    state_dir.write_text("")
    refuse(state_dir, clock, "is not a directory")


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_state_directory_that_others_can_write_to_is_refused(state_dir: Path, clock: ManualClock, mode: int) -> None:
    state_dir.mkdir()
    state_dir.chmod(mode)
    refuse(state_dir, clock, "can be written to by others")
    assert stat.S_IMODE(state_dir.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_state_directory_of_another_user_is_refused(state_dir: Path, clock: ManualClock) -> None:
    state_dir.mkdir(mode=0o700)
    os.chown(state_dir, 12345, -1)
    refuse(state_dir, clock, "belongs to user 12345")


# --- the writer ---


def sync_level(db: Database) -> int:
    return db.pragma("synchronous")


def insert(name: str, db: Database) -> None:
    db.execute("INSERT INTO owners VALUES (?, 1)", (name,))


def insert_and_break(db: Database) -> None:
    insert("broken", db)
    raise ZeroDivisionError


async def test_only_durable_groups_wait_for_the_disk(tmp_path: Path) -> None:
    writer = Writer(open_database(tmp_path / "buddy.db"), tmp_path / "buddy.db")
    levels = [await writer.submit(sync_level, durable=durable) for durable in (True, False, True, False, False, True)]
    await writer.close()
    assert levels == [2, 1, 2, 1, 1, 2]


async def test_a_job_that_breaks_is_undone_alone(tmp_path: Path) -> None:
    writer = Writer(open_database(tmp_path / "buddy.db"), tmp_path / "buddy.db")
    outcomes = await asyncio.gather(
        writer.submit(lambda db: insert("first", db), durable=False),
        writer.submit(insert_and_break, durable=False),
        writer.submit(lambda db: insert("last", db), durable=False),
        return_exceptions=True,
    )
    found = await writer.submit(lambda db: db.execute("SELECT owner FROM owners ORDER BY owner").get, durable=False)
    await writer.close()
    assert [type(outcome) for outcome in outcomes] == [type(None), ZeroDivisionError, type(None)]
    assert found == ["first", "last"]


async def test_what_is_long_is_done_by_the_thread_in_its_turn(tmp_path: Path) -> None:
    writer = Writer(open_database(tmp_path / "buddy.db"), tmp_path / "buddy.db")

    def where(_db: Database) -> str:
        return threading.current_thread().name

    here = threading.current_thread().name
    assert [await writer.submit(where, durable=durable) for durable in (False, True)] == [here, here]
    both = await asyncio.gather(writer.submit(where, durable=False), writer.submit(where, durable=False, long=True))
    await writer.close()
    assert both == ["log-writer", "log-writer"]


async def test_what_is_pruned_together_with_its_append_is_gone(state_dir: Path, clock: ManualClock) -> None:
    log = SqliteLog.open(state_dir, clock)
    lease = await log.create(record(), "me")
    appended, first = await asyncio.gather(log.append(batch(lease, 0, 5)), log.prune(lease, 4))
    assert (appended, first) == (5, 4)
    assert seqs(await log.read(SESSION, 0)) == [4, 5]
    await log.close()


async def test_a_writer_that_never_wrote_closes(tmp_path: Path) -> None:
    db = open_database(tmp_path / "buddy.db")
    await Writer(db, tmp_path / "buddy.db").close()
    with pytest.raises(apsw.ConnectionClosedError):
        db.execute("SELECT 1")

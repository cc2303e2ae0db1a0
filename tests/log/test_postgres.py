"""What a log in PostgreSQL does beyond the conformance suite: lost answers, crashes, versions, hints, errors."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from buddy.errors import Fenced, LogError, StorageFull, UserError
from buddy.log.contract import ApprovalDecision, Batch, Claim, Lease, TokenRecord
from buddy.log.postgres import schema
from buddy.log.postgres.address import parse_address
from buddy.log.postgres.appends import MAX_EVENTS, Appends
from buddy.log.postgres.blobs import DatabaseBlobs
from buddy.log.postgres.connections import Channel, LogClosed, Lost
from buddy.log.postgres.driver import Row
from buddy.log.postgres.postgres import PostgresLog
from tests.harness.clock import ManualClock
from tests.harness.logs import opened_log, read_all
from tests.harness.postgres import Postgres
from tests.log.records import OTHER, SESSION, batch, changed, pending, record, seqs, started

PATIENCE = 60.0


def lose_answers(
    monkeypatch: pytest.MonkeyPatch, *, when: Callable[[str], bool], executed: bool, times: int = 1
) -> list[str]:
    """The next answers to some statements are lost: after they were executed, or before. Returns what was lost."""
    lost: list[str] = []
    original = Channel.fetch

    async def fetch(channel: Channel, sql: str, *args: object, timeout: float = PATIENCE) -> list[Row]:
        if not when(sql) or len(lost) >= times:
            return await original(channel, sql, *args, timeout=timeout)
        lost.append(sql)
        if executed:
            await original(channel, sql, *args, timeout=timeout)
        raise Lost("injected")

    monkeypatch.setattr(Channel, "fetch", fetch)
    return lost


def is_append(sql: str) -> bool:
    return "INSERT INTO events" in sql


async def test_a_caller_that_waits_for_an_append_learns_that_the_process_ends() -> None:
    class NeverAnswers:
        async def fetch(self, *_: object) -> list[Row]:
            await asyncio.Event().wait()
            return []

    channel: Any = NeverAnswers()
    appends = Appends(channel, lambda _session_id, _seq: None)
    futures = [appends.submit(batch(Lease(SESSION, 1, "me"), seq), 0) for seq in (0, 1)]
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()  # as asyncio.run does at its end
    for future in futures:
        with pytest.raises(LogClosed):
            await future


# --- answers that are lost ---


@pytest.mark.parametrize("executed", [True, False])
async def test_an_append_whose_answer_is_lost_is_written_once(
    shared: PostgresLog, monkeypatch: pytest.MonkeyPatch, executed: bool
) -> None:
    lease = await started(shared)
    await shared.append(batch(lease, 0))
    full = changed(
        batch(lease, 1, 2, key="k"),
        claim=Claim("call_1", 1, "digest"),
        approval=pending(),
        decision=ApprovalDecision("appr_1", "approve", "policy"),
    )
    lost = lose_answers(monkeypatch, when=is_append, executed=executed)
    assert await shared.append(full) == 3
    assert len(lost) == 1
    assert await shared.append(batch(lease, 3)) == 4
    assert seqs(await read_all(shared, SESSION)) == [1, 2, 3, 4]
    assert await shared.approval("appr_1") == changed(pending(), state="approve")


@pytest.mark.parametrize("executed", [True, False])
async def test_a_batch_without_events_whose_answer_is_lost_is_written_once(
    shared: PostgresLog, monkeypatch: pytest.MonkeyPatch, executed: bool
) -> None:
    lease = await started(shared)
    lose_answers(monkeypatch, when=is_append, executed=executed)
    claimed = Batch(SESSION, lease.epoch, 0, [], claim=Claim("call_1", 1, "digest"), title="once")
    assert await shared.append(claimed) == 0


async def test_an_append_is_fenced_if_the_session_was_taken_while_its_answer_was_lost(
    shared: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await started(shared)
    original = Channel.repeat

    async def repeat(channel: Channel, sql: str, *args: object, timeout: float = PATIENCE) -> list[Row]:
        if "write_id = write_id" in sql:
            monkeypatch.setattr(Channel, "repeat", original)
            await shared.acquire(SESSION, "owner")
        return await original(channel, sql, *args, timeout=timeout)

    lose_answers(monkeypatch, when=is_append, executed=False)
    monkeypatch.setattr(Channel, "repeat", repeat)
    with pytest.raises(Fenced):
        await shared.append(batch(lease, 0))
    assert await read_all(shared, SESSION) == []


@pytest.mark.parametrize("executed", [True, False])
async def test_other_writes_whose_answer_is_lost_have_the_same_result(
    shared: PostgresLog, monkeypatch: pytest.MonkeyPatch, executed: bool
) -> None:
    def lose(word: str) -> None:
        monkeypatch.undo()
        lose_answers(monkeypatch, when=lambda sql: word in sql, executed=executed)

    lose("INSERT INTO sessions")
    lease = await shared.create(record(), "owner")
    assert lease == Lease(SESSION, 1, "owner")
    lose("INSERT INTO inbox")
    assert await shared.put(SESSION, "a", "message", b"{}", 10) == 1
    assert len(await shared.waiting(SESSION)) == 1
    lose("SET epoch = epoch + 1")
    taken = await shared.acquire(SESSION, "owner")
    assert taken is not None
    assert await shared.append(batch(taken, 0, 3)) == 3
    lose("INSERT INTO tokens")
    assert await shared.put_token(TokenRecord("link", SESSION, "observer", kind="link"))
    lose("'used_link'")
    assert await shared.use_link("link")
    assert not await shared.use_link("link")
    lose("DELETE FROM tokens")
    assert await shared.revoke("link") == ["link"]
    lose("SET first_seq")
    assert await shared.prune(taken, 3) == 3
    lose("INSERT INTO documents")
    assert await shared.write_document("d", "one", 0)
    assert not await shared.write_document("d", "two", 0)
    lose("DELETE FROM sessions")
    assert await shared.delete(SESSION)
    assert await shared.get(SESSION) is None


async def test_connections_that_the_server_ends_lose_nothing(postgres: Postgres) -> None:
    url = postgres.database()
    async with opened_log(url) as log:
        leases = [await started(log, f"sess_{number}") for number in range(5)]
        ends = await asyncio.gather(*(append_many(log, lease, 100) for lease in leases), end_often(postgres, url))
        assert ends[:5] == [100] * 5
        for lease in leases:
            assert seqs(await read_all(log, lease.session_id)) == list(range(1, 101))


async def append_many(log: PostgresLog, lease: Lease, count: int) -> int:
    last_seq = 0
    while last_seq < count:
        last_seq = await log.append(batch(lease, last_seq))
    return last_seq


async def end_often(postgres: Postgres, url: str) -> int:
    for _ in range(5):
        await asyncio.to_thread(postgres.end_connections, url)
    return 0


async def test_a_server_that_is_killed_under_load_loses_nothing_that_was_acknowledged() -> None:
    with Postgres() as server:
        async with opened_log(server.database()) as log:
            leases = [await started(log, f"sess_{number}") for number in range(20)]
            acknowledged = dict.fromkeys((lease.session_id for lease in leases), 0)
            stop = asyncio.Event()

            async def work(lease: Lease) -> None:
                while not stop.is_set():
                    seq = acknowledged[lease.session_id]
                    acknowledged[lease.session_id] = await log.append(batch(lease, seq, 1 + seq % 3))

            async with asyncio.TaskGroup() as group:
                for lease in leases:
                    group.create_task(work(lease))
                for _ in range(3):
                    before = sum(acknowledged.values())
                    await wait_until(lambda before=before: sum(acknowledged.values()) > before + 200)
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
                before = sum(acknowledged.values())
                await wait_until(lambda: sum(acknowledged.values()) > before + 200)
                stop.set()
            for session_id, last_seq in acknowledged.items():
                events = await read_all(log, session_id)
                assert seqs(events) == list(range(1, last_seq + 1))
                assert [event.line() for event in events] == [
                    event.line() for event in batch(Lease(session_id, 1, ""), 0, last_seq).events
                ]


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what it waits for sets no event
            await asyncio.sleep(0.01)


async def test_a_commit_that_did_not_wait_for_its_standby_is_in_doubt(shared: PostgresLog) -> None:
    """A cancelled wait is answered as a success with a warning, which must not be taken for one."""
    warning = "DO $$ BEGIN RAISE WARNING USING ERRCODE = '01000', MESSAGE = 'canceling wait'; END $$"
    with pytest.raises(Lost, match="standby"):
        await shared.writes.fetch(warning)
    assert await shared.writes.fetch("SELECT 1")


# --- settings and versions ---


async def test_commits_are_durable_whatever_the_server_is_set_to(postgres: Postgres) -> None:
    url = postgres.database()
    postgres.sql(f"ALTER DATABASE {url.rpartition('/')[2]} SET synchronous_commit = off")
    async with opened_log(url) as log:
        assert [row[0] for row in await log.writes.fetch("SHOW synchronous_commit")] == ["on"]


async def test_a_node_refuses_tables_that_only_newer_nodes_may_write(postgres: Postgres) -> None:
    url = postgres.database()
    name = url.rpartition("/")[2]
    async with opened_log(url) as log:
        await started(log)
    postgres.sql("UPDATE buddy_schema SET version = version + 1", name)
    async with opened_log(url) as log:
        assert await log.get(SESSION) is not None, "an additive change does not exclude older nodes"
    postgres.sql("UPDATE buddy_schema SET oldest = version", name)
    newer = len(schema.MIGRATIONS) + 1
    with pytest.raises(UserError, match=rf"newer Buddy \(schema {newer}, this one knows {newer - 1}\)") as refused:
        await PostgresLog.open(url, lambda: 1)
    assert "upgrade" in refused.value.hint


async def test_of_several_nodes_that_open_an_empty_database_one_creates_the_tables(postgres: Postgres) -> None:
    url = postgres.database()
    logs = await asyncio.gather(*(PostgresLog.open(url, lambda: 1) for _ in range(5)))
    await started(logs[0])
    assert [await log.get(SESSION) is not None for log in logs] == [True] * 5
    for log in logs:
        await log.close()


async def test_a_user_who_may_not_create_tables_gets_the_statement_that_allows_it(postgres: Postgres) -> None:
    url = postgres.database()
    postgres.sql("DO $$ BEGIN CREATE ROLE limited LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    with pytest.raises(UserError, match="may not create tables") as refused:
        await PostgresLog.open(url.replace("postgres@", "limited@"), lambda: 1)
    assert "GRANT" in refused.value.hint


# --- limits and errors ---


async def test_a_blob_above_the_limit_is_refused(shared: PostgresLog) -> None:
    shared.blobs = DatabaseBlobs(shared.writes, shared.reads, max_size=100)
    with pytest.raises(StorageFull, match="101 bytes is too large for the shared log"):
        await shared.put_blob(b"x" * 101)
    assert await shared.read_blob(await shared.put_blob(b"x" * 100)) == (b"x" * 100, 100)


async def test_keys_may_contain_any_character(shared: PostgresLog) -> None:
    lease = await started(shared)
    odd = "a\0b\u2028'\"\\"
    assert await shared.append(changed(batch(lease, 0, key=odd), claim=Claim(odd, 1, "d"), title=odd)) == 1
    assert await shared.append(batch(lease, 0, key=odd)) == 1
    assert await shared.put(SESSION, odd, "message", b"\0", 10) == 0
    assert await shared.approval(odd) is None
    assert await shared.get(odd) is None


async def test_more_than_one_statement_holds_goes_out_in_several(shared: PostgresLog) -> None:
    leases = [await started(shared, f"sess_{number}") for number in range(3)]
    size = MAX_EVENTS // 2 + 1
    assert await asyncio.gather(*(shared.append(batch(lease, 0, size)) for lease in leases)) == [size] * 3
    for lease in leases:
        assert len(await read_all(shared, lease.session_id)) == size


async def test_an_approval_id_that_two_batches_of_a_group_ask_for_is_used_once(shared: PostgresLog) -> None:
    """The statement as a whole violates a constraint: then each batch is sent alone."""
    first, second = await started(shared), await started(shared, OTHER)
    third = await started(shared, "sess_3")
    asked = [changed(batch(lease, 0), approval=pending()) for lease in (first, second)]
    outcomes = await asyncio.gather(*map(shared.append, [*asked, batch(third, 0)]), return_exceptions=True)
    assert outcomes.count(1) == 2
    assert [isinstance(outcome, LogError) for outcome in outcomes] == [False, True, False]


async def test_a_closed_log_waits_for_nothing(clock: ManualClock) -> None:
    server = Postgres()
    with server:
        log = await PostgresLog.open(server.database(), clock)
        lease = await started(log)
        server.kill()
        append = log.append(batch(lease, 0))
        read = asyncio.create_task(log.get(SESSION))
        await asyncio.sleep(0.2)
        async with asyncio.timeout(PATIENCE):
            await log.close()
        for outcome in await asyncio.gather(append, read, return_exceptions=True):
            assert isinstance(outcome, LogError)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:geheim@db.example:5432/buddy", "postgresql://me:***@db.example:5432/buddy"),
        ("postgresql://me:ge%40heim@a:1,b:2/buddy?x=1", "postgresql://me:***@a:1,b:2/buddy?x=1"),
        ("postgres://db/buddy?user=me&password=geheim&a=b", "postgres://db/buddy?user=me&password=***&a=b"),
        ("postgresql://me:ge@heim@db/buddy", "postgresql://me:***@db/buddy"),
        ("postgresql://me:ge@he/im@db/buddy", "postgresql://me:***@db/buddy"),
        ("postgresql://db:5432/buddy?password=ge@heim", "postgresql://db:5432/buddy?password=***"),
        ("postgresql:///buddy?host=/run/postgresql", "postgresql:///buddy?host=/run/postgresql"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert parse_address(url).shown == shown
    assert "geheim" not in repr(shown)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "buddy.db",
        "mysql://u:geheim@h/d",
        "postgresql://",
        "postgresql:/x",
        "postgresql://u:ge#heim@h/d",
        "postgresql://u:ge/heim@h/d",
        "postgresql://u:ge?heim@h/d",
        "postgresql://u:1/ge?heim=1@h/d",
    ],
)
def test_a_url_that_is_none_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_address(url)
    assert "geheim" not in str(refused.value)
    assert refused.value.hint


async def test_a_server_that_cannot_be_reached_is_named(postgres: Postgres) -> None:
    message = r"can't connect to postgresql://u:\*\*\*@127.0.0.1:1/x \(connection refused\)"
    with pytest.raises(UserError, match=message) as no:
        await PostgresLog.open("postgresql://u:geheim@127.0.0.1:1/x", lambda: 1)
    assert no.value.exit_code == 75
    with pytest.raises(UserError, match='database "nowhere" does not exist') as no:
        await PostgresLog.open(postgres.url("nowhere"), lambda: 1)
    assert "createdb" in no.value.hint


async def test_the_first_host_that_accepts_writes_is_used(postgres: Postgres) -> None:
    name = postgres.database().rpartition("/")[2]
    url = f"postgresql://postgres@127.0.0.1:1,127.0.0.1:{postgres.port}/{name}"
    async with opened_log(url) as log:
        await started(log)
    also = f"postgresql:///{name}?host=127.0.0.1,127.0.0.1&port=1,{postgres.port}&user=postgres"
    async with opened_log(also) as log:
        assert await log.get(SESSION) is not None

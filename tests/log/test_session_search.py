"""Lists of sessions read what they show, however many sessions there are: SQLite's steps are counted, not the time."""

import threading
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from buddy.log import rows
from buddy.log.contract import RowFacts, SessionQuery, SessionRecord, UserUsage, searched_text
from buddy.log.database import Database
from buddy.log.session_search import statement_of
from buddy.log.sqlite import DATABASE, SqliteLog
from buddy.protocol.shapes import Repo
from tests.log.records import batch, record

HOUR = 3600 * 1000
DAY = 24 * HOUR
FEW, MANY = 500, 10_000
_COPIES = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO sessions
  (id, repo, root_path, mode, state, title, created_at, updated_at, first_seq, last_seq, epoch, facts, user, used_hour)
SELECT 'sess_copy' || i, repo, root_path || (i % 10), mode, state, 'number ' || i, created_at, i * 100000, 1, 0, 1,
  facts, 'user' || (i % 10), i * 100000 / 3600000
FROM sessions, n
"""


class Clock:
    now = 100 * DAY

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def log(tmp_path: Path, clock: Clock) -> AsyncGenerator[SqliteLog]:
    opened = SqliteLog.open(tmp_path, clock)
    yield opened
    await opened.close()


def steps(state_dir: Path, count: int, statement: str, *bindings: int | str | None) -> int:
    """How many steps SQLite's machine takes for a statement, with `count` more sessions."""
    db: Any = apsw.Connection(str(state_dir / DATABASE))  # its stubs name a class that Python 3.11 lacks
    db.execute("DELETE FROM sessions WHERE id LIKE 'sess_copy%'")
    db.execute(_COPIES, (count,))
    db.create_scalar_function("searched_text", searched_text, 4)
    taken = 0

    def step() -> bool:
        nonlocal taken
        taken += 1
        return False

    db.set_progress_handler(step, 1)
    list(db.execute(statement, bindings))
    db.close()
    return taken


@pytest.mark.parametrize(
    "query",
    [
        SessionQuery(20),
        SessionQuery(20, archived=False),
        SessionQuery(20, root_path="/work3"),
        SessionQuery(20, user="user3"),
        SessionQuery(20, after=(3_000_000, "sess_copy30")),
        SessionQuery(20, query="number"),
    ],
)
async def test_a_page_of_the_list_reads_no_more_with_twenty_times_the_sessions(
    log: SqliteLog, tmp_path: Path, query: SessionQuery
) -> None:
    await log.create(_work(record("sess_1")), "me")
    statement, bindings = statement_of(query)
    few, many = (steps(tmp_path, count, statement, *_plain(bindings)) for count in (FEW, MANY))
    # Within an hour rows are sorted; an hour has 36 of these.
    assert many < few * 2
    assert few > 0


async def test_what_a_day_cost_reads_only_the_sessions_of_that_day(log: SqliteLog, tmp_path: Path) -> None:
    await log.create(_work(record("sess_1")), "me")
    few, many = (steps(tmp_path, count, rows.COST, 3_000) for count in (FEW, MANY))
    assert many <= few + 10


async def test_the_usage_of_a_user_with_many_sessions_is_counted_in_a_thread(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.create(replace(_work(record("sess_1")), facts=RowFacts(day=1, day_cost_usd=0.5)), "me")
    steps(tmp_path, 15_000, "SELECT 1")
    threads: list[str] = []
    count = rows.usage_of

    def counted(user: str, day: int, db: Database) -> UserUsage:
        threads.append(threading.current_thread().name)
        return count(user, day, db)

    monkeypatch.setattr(rows, "usage_of", counted)
    many = await log.usage_of("user3", 1)
    assert (many.sessions, many.cost_usd) == (1500, 750.0)
    assert (await log.usage_of("nobody", 1)).sessions == 0
    assert [name == threading.main_thread().name for name in threads] == [False, True]


async def test_the_order_follows_the_last_use_within_an_hour_and_over_hours(log: SqliteLog, clock: Clock) -> None:
    leases = [await log.create(_work(record(f"sess_{at}"), clock.now), "me") for at in range(4)]
    seqs = dict.fromkeys((lease.session_id for lease in leases), 0)

    async def use(number: int, after: int) -> None:
        clock.now += after
        lease = leases[number]
        seq = seqs[lease.session_id]
        seqs[lease.session_id] = await log.append(batch(lease, seq))

    for number, after in ((2, 1), (0, HOUR), (3, 1), (1, 5 * HOUR), (3, 1), (2, 1), (0, 2 * HOUR), (2, -HOUR)):
        await use(number, after)
        listed = await log.newest(10)
        expected = sorted(listed, key=lambda one: -one.updated_at)
        assert [one.session_id for one in listed] == [one.session_id for one in expected]


async def test_a_search_ignores_the_case_of_all_letters(log: SqliteLog, clock: Clock) -> None:
    for number, title in enumerate(("Größe MESSEN", "plain ascii", "ΣΊΣΥΦΟΣ")):
        await log.create(replace(_work(record(f"sess_{number}"), clock.now), title=title), "me")
    for query, found in (("grösse", []), ("GRÖSSE messen", []), ("größe", ["sess_0"]), ("ASCII", ["sess_1"])):
        words = [one.session_id for one in await log.find(SessionQuery(5, query=query))]
        assert words == (found or ["sess_0"]), query
    assert [one.session_id for one in await log.find(SessionQuery(5, query="σίσυφοσ"))] == ["sess_2"]


def _work(made: SessionRecord, now: int | None = None) -> SessionRecord:
    now = int(time.time() * 1000) if now is None else now
    return replace(made, repo=Repo("/work"), created_at=now, updated_at=now)


def _plain(bindings: tuple[object, ...]) -> list[int | str | None]:
    return [one if isinstance(one, int | str) else None for one in bindings]

"""State directories of any size, in seconds: one session is run, and its rows are multiplied in SQL.

Invariants: the daemon is stopped while its database is written; every copy has what a session of its kind has, so it
opens, lists and attaches as that one does.
"""

import asyncio
import shutil
from pathlib import Path

import apsw

from bench.agents import READ, Daemon
from bench.setup import Setup
from bench.wire import Wire
from buddy.log.database import Database, connect
from buddy.log.schema import add_functions
from buddy.log.sqlite import DATABASE

FOLDERS = 100
COMPACTED_RUNS = 100
"""The number of runs between two compactions of a long session, each of which leaves the last ten as they are."""
COPY_ID = "printf('sess_%026d', n.i)"
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)"

# A day between the oldest and the newest of a thousand; a title that a search for its number finds alone.
_SESSIONS = f"""
{NUMBERS} INSERT INTO sessions
  (id, repo, root_path, mode, state, title, created_at, updated_at, first_seq, last_seq, epoch, owner, archived, facts,
   used_hour)
SELECT {COPY_ID}, json_set(repo, '$.rootPath', root_path || '/' || (n.i % {FOLDERS})),
  root_path || '/' || (n.i % {FOLDERS}), mode, state, 'Mend the parser of module ' || n.i, created_at - n.i * 86400,
  updated_at - n.i * 86400, first_seq, last_seq, epoch, NULL, archived, facts,
  (updated_at - n.i * 86400) / 3600000
FROM sessions, n WHERE id = ?2
"""  # noqa: S608 - constants only
_EVENTS = """
INSERT INTO events SELECT copy.key, e.seq, e.ts, e.run_id, e.type,
  CASE WHEN e.type = 'session_started' THEN json_set(replace(e.payload, ?1, copy.id), '$.repo.rootPath', copy.root_path)
  ELSE e.payload END
FROM sessions copy CROSS JOIN events e WHERE e.session = (SELECT key FROM sessions WHERE id = ?1) AND copy.id <> ?1
"""
# Complete runs, each with an id of its own.
_LONGER = f"""
{NUMBERS} INSERT INTO events SELECT ?2, e.seq + n.i * (?4 - ?3 + 1), e.ts, e.run_id || '.' || n.i, e.type,
  replace(e.payload, e.run_id, e.run_id || '.' || n.i)
FROM n JOIN events e ON e.session = ?2 AND e.seq BETWEEN ?3 AND ?4
"""  # noqa: S608 - constants only
# In the place of an event that nobody needs, as during a run.
_COMPACTED = """
UPDATE events SET type = 'session_compacted', payload = json_object(
  'beforeTokens', 9000, 'afterTokens', 900, 'throughSeq', seq - ?4 * 10, 'summary', 'What was done so far.',
  'by', 'auto')
WHERE session = ?1 AND seq > ?2 AND (seq - ?3) % (?4 * ?5) = 0
"""


def make_home(setup: Setup) -> tuple[Path, str]:
    """A home with one session, in which a model has read a file; and the session's id."""
    home = setup.new_folder("home")
    return home, asyncio.run(_run_once(setup, home))


async def _run_once(setup: Setup, home: Path) -> str:
    work = setup.new_folder("work")
    for number in range(FOLDERS):
        (work / str(number)).mkdir()
    with Daemon(setup, home) as daemon:
        wire = await Wire.connect(daemon.socket)
        session_id = await wire.start(work)
        await wire.send(session_id, setup.script(turns=1, call=READ.name, arguments=READ.arguments).prompt())
        await wire.wait_over(session_id)
        wire.close()
    return session_id


def copy_home(setup: Setup, home: Path) -> Path:
    copy = setup.new_folder("home")
    shutil.copytree(home / "state", copy / "state", ignore=shutil.ignore_patterns("run"))
    return copy


def multiply(home: Path, session_id: str, count: int) -> None:
    """Give the state `count` sessions like this one, each a little older than the one before."""
    db = open_state(home)
    db.execute("BEGIN IMMEDIATE")
    db.execute(_SESSIONS, (count - 1, session_id))
    db.execute(_EVENTS, (session_id,))
    db.execute("COMMIT")
    db.close()


def lengthen(home: Path, session_id: str, events: int) -> None:
    """Give a session about `events` events: its first run, repeated, and a compaction after every hundred."""
    db = open_state(home)
    key, last = db.execute("SELECT key, last_seq FROM sessions WHERE id = ?", (session_id,)).get
    first = db.execute("SELECT min(seq) FROM events WHERE session = ? AND run_id IS NOT NULL", (key,)).get
    copies, length = (events - last) // (last - first + 1), last - first + 1
    note = db.execute("SELECT max(seq) FROM events WHERE session = ? AND type = 'phase'", (key,)).get
    db.execute("BEGIN IMMEDIATE")
    db.execute(_LONGER, (copies, key, first, last))
    db.execute(_COMPACTED, (key, last, note, length, COMPACTED_RUNS))
    db.execute("UPDATE sessions SET last_seq = last_seq + ? WHERE key = ?", (copies * (last - first + 1), key))
    db.execute("COMMIT")
    db.close()


def open_state(home: Path) -> Database:
    db = connect(home / "state" / DATABASE, apsw.SQLITE_OPEN_READWRITE)
    add_functions(db)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -65536")
    return db

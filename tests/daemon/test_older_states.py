"""State directories of every schema that existed are opened by this Buddy, and those of a newer one are refused.

Each file in `tests/log/old_schemas` is the database that the last Buddy of that schema left, as SQL: one finished
session, and one whose process was killed right after it had claimed the second of two calls.
"""

import json
import re
import shutil
from pathlib import Path

import apsw
import pytest

from buddy.log.database import Database, connect
from buddy.log.schema import MIGRATIONS
from tests.faults.scenario import left_behind
from tests.harness.checker import Recorded, check
from tests.harness.daemon import Daemon
from tests.harness.logs import read_state_dir
from tests.harness.processes import wait_until
from tests.harness.scripts import section, shell

OLD = Path(__file__).parents[1] / "log" / "old_schemas"
VERSIONS = sorted(int(path.stem) for path in OLD.glob("*.sql"))
SCRIPT = [
    section("^work", shell("echo one >> work.txt"), shell("echo two >> work.txt"), {"text": "All is done."}),
    section("^count", {"text": "one two three"}),
]
WRITABLE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
Rows = list[tuple[str, int, str, str]]


def make_state(daemon: Daemon, version: int) -> Rows:
    """Put an old database where the daemon looks for it; returns its events."""
    daemon.state_dir.mkdir(mode=0o700)
    path = daemon.state_dir / "buddy.db"
    db = connect(path, WRITABLE)
    db.execute((OLD / f"{version}.sql").read_text().replace("WORKSPACE", str(daemon.workspace)))
    db.execute("PRAGMA journal_mode = WAL")
    rows = read_rows(db)
    db.close()
    path.chmod(0o600)
    return rows


def read_rows(db: Database) -> Rows:
    found = "SELECT id, seq, type, payload FROM events JOIN sessions ON key = session ORDER BY key, seq"
    return [(str(one[0]), int(str(one[1])), str(one[2]), str(one[3])) for one in db.execute(found)]


def prepare(folder: Path) -> Daemon:
    daemon = Daemon(folder, script=SCRIPT)
    daemon.config.write_text(
        daemon.config.read_text().replace("models.script", "models.test").replace('"script"', '"test"', 1)
    )
    return daemon


def test_there_is_a_state_of_every_schema_before_this_one() -> None:
    missing = set(range(1, len(MIGRATIONS))) - set(VERSIONS)
    assert not missing, "dump what the last Buddy of the schema leaves, into tests/log/old_schemas/N.sql"


@pytest.mark.parametrize(
    "version", [VERSIONS[0], *(pytest.param(version, marks=pytest.mark.slow) for version in VERSIONS[1:])]
)
async def test_a_state_directory_of_an_older_schema_is_used_as_if_it_were_new(tmp_path: Path, version: int) -> None:
    daemon = prepare(tmp_path)
    before = make_state(daemon, version)
    done, interrupted = dict.fromkeys(session_id for session_id, *_ in before)
    shown = daemon.run("storage", "--json")
    assert shown.code == 0, shown.err
    assert {one["sessionId"] for one in json.loads(shown.out)["largest"]} == {done, interrupted}
    with daemon:
        expected = {done: ("make it", "completed"), interrupted: ("work on it", "completed")}
        wait_until(lambda: states(daemon) == expected, "the interrupted run to be continued")
        assert daemon.run("replay", done).code == 0
        again = daemon.run("exec", "--session", done, "count")
        assert (again.code, again.out.strip()) == (0, "one two three"), again.err
    after = await read_state_dir(daemon.state_dir)
    lines = [
        (event.session_id, event.seq, event.type, bytes(event.payload).decode())
        for event in after[done] + after[interrupted]
    ]
    assert [line for line in lines if line in set(before)] == before
    recorded = Recorded(after)
    assert [*check(recorded), *left_behind(recorded)] == []
    results = [event for event in after[interrupted] if event.type == "tool_result"]
    assert [b"UNKNOWN_OUTCOME" in bytes(event.payload) for event in results] == [False, True]


def states(daemon: Daemon) -> dict[str, tuple[str, str]]:
    """Title and state of each session."""
    listed = json.loads(daemon.run("session", "list", "--all", "--json").out)["sessions"]
    return {one["sessionId"]: (one["title"], one["state"]) for one in listed}


def test_a_state_directory_of_a_newer_buddy_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    daemon = prepare(tmp_path)
    make_state(daemon, VERSIONS[-1])
    path = daemon.state_dir / "buddy.db"
    db = connect(path, WRITABLE)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.execute("ALTER TABLE sessions RENAME TO conversations")
    db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    content = path.read_bytes()
    prune = ["storage", "prune", "--older-than", "1d"]
    for command in (
        ["daemon", "start"],
        ["exec", "count"],
        ["session", "list"],
        ["storage"],
        [*prune, "--dry-run"],
        [*prune, "--yes"],
    ):
        refused = daemon.run(*command)
        assert refused.code == 64
        assert re.search(r"newer Buddy \(schema \d+, this one knows \d+\)", refused.err), refused.err
        assert "hint: upgrade Buddy" in refused.err
    checked = daemon.run("doctor")
    assert checked.code == 1
    assert re.search(r"fail +sessions +.* was written by a newer Buddy \(schema .*\)\n +hint: upgrade", checked.out)
    assert "buddy resume" not in checked.out
    assert path.read_bytes() == content
    shutil.rmtree(daemon.state_dir)

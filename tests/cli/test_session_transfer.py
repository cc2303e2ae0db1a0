"""Sessions that are moved between logs keep their ids, seqs, blobs and everything else that was recorded."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from buddy.errors import NotClaimed, UserError
from buddy.log.contract import Batch, Claim, Log, RowFacts
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import ApprovalRequired
from buddy.sessions.transfer import ImportedSession, import_session
from tests.harness.daemon import LONG_WORD, Daemon
from tests.harness.logs import opened_log, read_all
from tests.harness.postgres import Postgres
from tests.harness.processes import Finished, wait_until
from tests.harness.scripts import section, shell
from tests.log.records import SESSION, batch, changed, record

SCRIPT = [
    section("^count", {"text": "one two three"}),
    section("^long", {"text": LONG_WORD}),
    section("^make", shell("seq 1 20000"), {"text": "ok"}),
]


async def contents(log: Log) -> dict[str, tuple[object, ...]]:
    """Everything of a log that can be seen, apart from who owns what."""
    found: dict[str, tuple[object, ...]] = {}
    for row in await log.newest(100):
        events = await read_all(log, row.session_id)
        found[row.session_id] = (
            row.title, row.state, row.mode, row.repo, row.facts, row.first_seq, row.last_seq,
            [event.line() for event in events],
            [await log.read_blob(blob) for blob in blobs_of(events)],
        )  # fmt: skip
    return found


def blobs_of(events: list[Event]) -> list[str]:
    payloads: list[dict[str, Any]] = [json.loads(bytes(event.payload)) for event in events]
    named: list[dict[str, str]] = [payload.get("blobs") or {} for payload in payloads]
    return [blob for blobs in named for blob in blobs.values()]


@pytest.mark.slow
def test_all_sessions_move_to_postgresql_and_back(tmp_path: Path, postgres: Postgres) -> None:
    url = postgres.database()
    source, target = Daemon(tmp_path / "source", script=SCRIPT), Daemon(tmp_path / "target", script=SCRIPT)
    for prompt in ("count", "long", "make"):
        assert source.run("exec", prompt, "--approve", "all", "--sandbox", "host").code == 0
    assert source.run("session", "rename", "last", "a", "name").code == 0
    assert source.run("session", "fork", "last").code == 0
    file = tmp_path / "all.ndjson"
    exported = source.run("session", "export", "--all")
    file.write_text(exported.out)
    assert exported.code == 0
    moved = target.run("session", "import", str(file), "--log", url)
    assert (moved.code, len(moved.out.split())) == (0, 4), moved.err
    again = target.run("session", "import", str(file), "--log", url)
    assert (again.code, again.err.count("was imported before")) == (0, 4)
    back = target.run("session", "export", "--all", BUDDY_LOG=url)
    assert sorted(back.out.splitlines()) == sorted(exported.out.splitlines())
    (tmp_path / "back.ndjson").write_text(back.out)
    assert target.run("session", "import", str(tmp_path / "back.ndjson")).code == 0
    before, shared, after = asyncio.run(read_three(source.state_dir, url, target.state_dir))
    assert before == shared == after
    assert any(entry[-1] for entry in before.values()), "none of them has a blob"


async def read_three(first: Path, url: str, second: Path) -> tuple[dict[str, tuple[object, ...]], ...]:
    logs = [SqliteLog.open(first, lambda: 1), SqliteLog.open(second, lambda: 1)]
    async with opened_log(url) as shared:
        found = await contents(logs[0]), await contents(shared), await contents(logs[1])
    for log in logs:
        await log.close()
    return found


def test_a_session_that_cannot_be_imported_stops_no_other(tmp_path: Path) -> None:
    source, target = Daemon(tmp_path / "source", script=SCRIPT), Daemon(tmp_path / "target", script=SCRIPT)
    for _ in range(2):
        assert source.run("exec", "count").code == 0
    exported = source.run("session", "export", "--all").out.splitlines()
    first = json.loads(exported[0])["sessionId"]
    # The file caught one of them in the middle of its run.
    kept = [line for line in exported if first not in line or '"run_complete"' not in line]
    (tmp_path / "all.ndjson").write_text("\n".join(kept))
    moved = target.run("session", "import", str(tmp_path / "all.ndjson"))
    assert (moved.code, len(moved.out.split())) == (64, 1)
    assert f"{first} was exported during a run" in moved.err


def test_an_imported_session_continues(tmp_path: Path, postgres: Postgres) -> None:
    url = postgres.database()
    source = Daemon(tmp_path / "source")
    assert source.run("exec", "count").code == 0
    (tmp_path / "one.ndjson").write_text(source.run("session", "export", "last").out)
    assert source.run("session", "import", str(tmp_path / "one.ndjson"), "--log", url).code == 0
    goes_on = source.run("exec", "-c", "count", "--log", url)
    assert (goes_on.code, goes_on.out) == (0, "one two three\n")
    shown = source.run("session", "show", "last", "--log", url).out
    assert shown.count("one two three") == 2


async def test_a_session_that_is_there_with_other_events_is_left_alone(postgres: Postgres) -> None:
    async with opened_log(postgres.database()) as log:
        lease = await log.create(record(), "owner")
        await log.append(batch(lease, 0, 3))
        await log.release(lease)
        events = await read_all(log, SESSION)
        assert not await import_session(log, ImportedSession(events[:2], {}), "me")
        other = batch(lease, 0, 4).events
        assert await import_session(log, ImportedSession(other, {}), "me"), "the rest of the same events"
        assert [event.seq for event in await read_all(log, SESSION)] == [1, 2, 3, 4]


async def test_rows_of_calls_and_messages_come_with_their_events(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.run("exec", "make", "--approve", "all", "--sandbox", "host")
    log = SqliteLog.open(daemon.state_dir, lambda: 1)
    (row,) = await log.newest(5)
    events = await read_all(log, row.session_id)
    await log.close()
    copy = SqliteLog.open(tmp_path / "copy", lambda: 1)
    assert await import_session(copy, ImportedSession(events, {}), "me")
    message = next(json.loads(bytes(event.payload))["messageId"] for event in events if event.type == "user_message")
    assert await copy.put(row.session_id, message, "message", b"", 10) == 0
    claimed = next(event for event in events if event.type == "tool_claimed")
    claim = Claim(f"{claimed.run_id}/{json.loads(bytes(claimed.payload))['callId']}", 1, "d")
    lease = await copy.acquire(row.session_id, "me")
    assert lease is not None
    with pytest.raises(NotClaimed):
        await copy.append(Batch(row.session_id, lease.epoch, row.last_seq, [], claim=claim))
    await copy.close()


async def test_a_pruned_session_keeps_its_seqs(tmp_path: Path, postgres: Postgres) -> None:
    log = SqliteLog.open(tmp_path / "state", lambda: 1)
    lease = await log.create(record(), "owner")
    await log.append(batch(lease, 0, 10))
    await log.prune(lease, 8)
    events = await read_all(log, SESSION)
    await log.close()
    async with opened_log(postgres.database()) as shared:
        assert await import_session(shared, ImportedSession(events, {}), "me")
        found = await shared.get(SESSION)
        assert found is not None
        assert (found.first_seq, found.last_seq) == (8, 10)
        assert await read_all(shared, SESSION) == events


@pytest.mark.parametrize("line", ["{}", "nothing", '{"kind":"blob","sessionId":"s","blob":"00","data":"AA=="}'])
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, line: str) -> None:
    daemon = Daemon(tmp_path)
    (tmp_path / "x").write_text(line + "\n")
    refused = daemon.run("session", "import", str(tmp_path / "x"))
    assert refused.code == 64
    assert f"{tmp_path / 'x'}:1: not an event or a blob" in refused.err
    missing = daemon.run("session", "import", str(tmp_path / "missing"))
    assert (missing.code, "cannot read" in missing.err) == (64, True)


def export_lines(daemon: Daemon) -> list[dict[str, Any]]:
    """A new session as its export has it."""
    assert daemon.run("exec", "count").code == 0
    return [json.loads(line) for line in daemon.run("session", "export", "last").out.splitlines()]


def import_lines(daemon: Daemon, lines: list[dict[str, Any]]) -> Finished:
    file = daemon.folder / "changed.ndjson"
    file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return daemon.run("session", "import", str(file))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sessionId": "sess_a b"}, "invalid sessionId 'sess_a b'"),
        ({"sessionId": "sess_../../x"}, "invalid sessionId 'sess_../../x'"),
        ({"sessionId": "foo"}, "invalid sessionId 'foo'"),
        ({"ts": -1}, "ts -1 is not between 0 and"),
        ({"ts": 9 * 10**18}, "ts 9000000000000000000 is not between 0 and"),
        ({"seq": 0}, "seq 0 is not between 1 and"),
        ({"seq": 2**60}, "is not between 1 and"),
        ({"runId": 'run_"'}, "invalid runId"),
        ({"type": 'a","b":"c'}, "invalid type"),
        ({"payload": []}, "the payload is not an object"),
        ({"type": "user_message", "payload": {}}, "missing required field"),
    ],
)
def test_a_file_with_a_line_that_no_log_may_have_is_refused_completely(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    source, target = Daemon(tmp_path / "source", script=SCRIPT), Daemon(tmp_path / "target", script=SCRIPT)
    lines = export_lines(source)
    good = [{**line, "sessionId": "sess_good"} for line in lines]
    refused = import_lines(target, [*good, {**lines[0], **changes}, *lines[1:]])
    assert (refused.code, refused.out) == (64, "")
    assert f"changed.ndjson:{len(lines) + 1}: " in refused.err
    assert problem in refused.err
    assert target.run("session", "list", "--all").out == ""


def test_an_import_that_begins_late_writes_only_what_it_has(tmp_path: Path) -> None:
    source, target = Daemon(tmp_path / "source", script=SCRIPT), Daemon(tmp_path / "target", script=SCRIPT)
    lines = [{**line, "seq": line["seq"] + 10**7} for line in export_lines(source)]
    assert import_lines(target, lines).code == 0
    session_id = lines[0]["sessionId"]
    back = [json.loads(line) for line in target.run("session", "export", session_id).out.splitlines()]
    assert back == lines
    assert target.run("exec", "--session", session_id, "count").out == "one two three\n"


def test_a_row_that_cannot_be_asked_for_does_not_break_the_list(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    good = export_lines(daemon)[0]["sessionId"]

    async def store() -> None:
        log = SqliteLog.open(daemon.state_dir, lambda: 1)
        for session_id in ("sess_a b", "sess_fine"):
            row = record(session_id, root=str(daemon.workspace), created_at=-5)
            await log.release(await log.create(row, "owner"))
        await log.close()

    asyncio.run(store())
    listed = daemon.run("session", "list", "--json")
    assert listed.code == 0, listed.err
    assert [row["sessionId"] for row in json.loads(listed.out)["sessions"]] == [good, "sess_fine"]
    for command in (("session", "search", "two"), ("session", "export", "--all"), ("resume", "--last")):
        assert daemon.run(*command).code == 0


def test_a_killed_import_is_hidden_and_starts_over(tmp_path: Path) -> None:
    source, target = Daemon(tmp_path / "source", script=SCRIPT), Daemon(tmp_path / "target", script=SCRIPT)
    lines, file = export_lines(source), tmp_path / "one.ndjson"
    file.write_text(source.run("session", "export", "last").out)
    killed = target.run("session", "import", str(file), BUDDY_FAULT="commit.after:3:kill")
    assert (killed.code, killed.out) == (-9, "")
    assert target.run("session", "list", "--all").out == ""
    assert target.run("session", "show", lines[0]["sessionId"]).code == 64
    again = target.run("session", "import", str(file))
    assert (again.code, again.err) == (0, f"{lines[0]['sessionId']}: imported, {len(lines)} events\n")
    assert target.run("session", "export", lines[0]["sessionId"]).out == file.read_text()


def test_the_rest_of_a_killed_import_is_deleted_when_a_daemon_starts(tmp_path: Path) -> None:
    source, target = Daemon(tmp_path / "source", script=SCRIPT), Daemon(tmp_path / "target", script=SCRIPT)
    export_lines(source)
    file = tmp_path / "one.ndjson"
    file.write_text(source.run("session", "export", "last").out)
    assert target.run("session", "import", str(file), BUDDY_FAULT="commit.after:3:kill").code == -9

    async def incomplete() -> list[str]:
        log = SqliteLog.open(target.state_dir, lambda: 1)
        try:
            return await log.incomplete()
        finally:
            await log.close()

    assert len(asyncio.run(incomplete())) == 1
    with target:
        wait_until(lambda: not asyncio.run(incomplete()), "the rest to be deleted")


async def test_an_import_leaves_no_hole_in_a_session_that_is_there(tmp_path: Path) -> None:
    log = SqliteLog.open(tmp_path / "state", lambda: 1)
    lease = await log.create(record(), "owner")
    await log.append(batch(lease, 0, 3))
    await log.release(lease)
    with pytest.raises(UserError, match="the events between 3 and 8 are missing"):
        await import_session(log, ImportedSession(batch(lease, 7, 3).events, {}), "me")
    assert await import_session(log, ImportedSession(batch(lease, 2, 3).events, {}), "me")
    assert [event.seq for event in await read_all(log, SESSION)] == [1, 2, 3, 4, 5]
    await log.close()


async def test_the_rest_of_a_session_keeps_what_it_has_cost_here_today(tmp_path: Path) -> None:
    log = SqliteLog.open(tmp_path / "state", lambda: 1)
    spent = RowFacts(day=0, day_cost_usd=1.5)
    lease = await log.create(changed(record(), facts=spent), "owner")
    await log.append(batch(lease, 0, 3))
    await log.release(lease)
    assert await import_session(log, ImportedSession(batch(lease, 0, 5).events, {}), "me")
    assert await log.cost_of(0) == 1.5
    await log.close()


async def test_what_another_session_has_is_not_imported(tmp_path: Path) -> None:
    asked = ApprovalRequired(
        approval_id="appr_1", kind="exec", title="t", summary="s", details={}, options=("approve", "deny"), expires_at=9
    )
    log = SqliteLog.open(tmp_path / "state", lambda: 1)
    first, second = (event_of(asked, session_id=name, seq=1, ts=1, run_id="run_1") for name in ("sess_1", "sess_2"))
    assert await import_session(log, ImportedSession([first], {}), "me")
    for _ in range(2):
        with pytest.raises(UserError, match="sess_2 cannot be imported: appr_1 is pending"):
            await import_session(log, ImportedSession([second], {}), "me")
    assert [one.session_id for one in await log.newest(5)] == ["sess_1"]
    await log.close()

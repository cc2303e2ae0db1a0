"""`buddy storage`: what sessions take, and removing those that nobody has used for long."""

import json
import os
import shlex
import shutil
import time
from pathlib import Path

import apsw
import pytest

from buddy.cli.storage import format_size, parse_size
from buddy.cli.storage_check import check_storage
from buddy.config.settings import StorageSettings
from buddy.daemon.storage import Removal, choose, measure
from buddy.log.database import connect
from buddy.log.usage import SessionUsage
from tests.harness.daemon import Daemon
from tests.harness.processes import BUDDY, Finished, run, wait_until
from tests.harness.scripts import Reply, section, shell

DAY_MS = 24 * 3600 * 1000


def delegate(task: str) -> Reply:
    return {"calls": [{"name": "delegate", "args": {"task": task}}]}


SCRIPT = [
    section("^large", shell("head -c 300000 /dev/urandom | base64"), {"text": "large"}),
    section("^wait", shell("echo > started; exec sleep 600"), {"text": "never"}),
    section("^small", {"text": "small"}),
    section("^hand over", delegate("small"), {"text": "done"}),
    section("^share", delegate("small"), shell("echo > started; exec sleep 600"), {"text": "never"}),
]


def run_session(daemon: Daemon, text: str) -> str:
    done = daemon.run("exec", text, "--approve", "all", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)["sessionId"]


def make_old(daemon: Daemon, session_id: str, days: int) -> None:
    """Let a session have been used for the last time some days ago."""
    db = connect(daemon.state_dir / "buddy.db", apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_timeout(5000)
    then = int(time.time() * 1000) - days * DAY_MS
    db.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (then, session_id))
    db.close()


def listed(daemon: Daemon) -> set[str]:
    found = json.loads(daemon.run("session", "list", "--all", "--json").out)["sessions"]
    return {one["sessionId"] for one in found}


def blobs(daemon: Daemon) -> list[Path]:
    return [path for path in (daemon.state_dir / "blobs").rglob("*") if path.is_file()]


def chosen(sessions: list[SessionUsage], removal: Removal) -> tuple[list[str], int]:
    planned = choose(sessions, removal)
    return [one.session_id for one in planned.sessions], planned.freed


def test_it_shows_what_each_part_and_the_largest_sessions_take(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    small, large = run_session(daemon, "small"), run_session(daemon, "large")
    shown = json.loads(daemon.run("storage", "--json").out)
    assert [one["sessionId"] for one in shown["largest"]] == [large, small]
    assert shown["blobs"] == sum(path.stat().st_size for path in blobs(daemon)) > 200_000
    assert shown["largest"][0]["size"] > shown["blobs"]
    parts = ("sessions", "blobs", "checkpoints", "memory", "logs", "other")
    assert shown["total"] == sum(shown[part] for part in parts)
    text = daemon.run("storage").out
    assert f"sessions  {shown['count']}" not in text
    assert "2 sessions" in text
    assert large in text


def test_a_log_that_cannot_be_one_is_refused_without_a_traceback(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    daemon.state_dir.mkdir(mode=0o700, parents=True)
    (daemon.state_dir / "buddy.db").touch()
    for command in (["storage"], ["storage", "prune", "--older-than", "90d", "--dry-run"]):
        refused = daemon.run(*command)
        assert refused.code == 64
        assert refused.err.startswith(f"error: {daemon.state_dir / 'buddy.db'} is empty, so it is not a Buddy log\n")
    assert (daemon.state_dir / "buddy.db").stat().st_size == 0


def test_a_state_directory_that_is_none_is_said(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    commands = (["storage"], ["storage", "prune", "--max-size", "0", "--yes"], ["backup", str(tmp_path / "copy")])
    for command in commands:
        missing = daemon.run(*command)
        assert missing.err.startswith(f"{daemon.state_dir} does not exist yet\n")
        assert missing.code == (1 if command[0] == "backup" else 0)
        file = daemon.run(*command, "--state-dir", str(daemon.config))
        assert (file.code, file.out) == (64, "")
        assert file.err == f"error: {daemon.config}: Not a directory\nhint: choose another --state-dir\n"
    daemon.state_dir.mkdir(mode=0o700)
    empty = [daemon.run(*command) for command in commands]
    assert [(one.code, "no sessions" in one.err) for one in empty] == [(0, False), (0, False), (1, True)]
    assert list(daemon.state_dir.iterdir()) == []


@pytest.mark.slow
def test_pruning_by_age_removes_sessions_that_nobody_has_used_since(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    old, new = run_session(daemon, "large"), run_session(daemon, "small")
    make_old(daemon, old, 100)
    for path in blobs(daemon):
        path.touch()
    assert daemon.run("storage", "prune").code == 64
    assert daemon.run("storage", "prune", "--older-than", "90d").code == 64, "nobody can be asked"
    assert daemon.run("storage", "prune", "--older-than", "long").code == 64
    would = daemon.run("storage", "prune", "--older-than", "90d", "--dry-run")
    assert (old in would.out, new in would.out) == (True, False)
    assert listed(daemon) == {old, new}
    before = measure(daemon.state_dir).sessions
    done = daemon.run("storage", "prune", "--older-than", "90d", "--yes", "--json")
    assert [one["sessionId"] for one in json.loads(done.out)["removed"]] == [old]
    assert listed(daemon) == {new}
    assert measure(daemon.state_dir).sessions <= before
    assert daemon.run("exec", "--session", new, "small").code == 0


def test_an_age_without_a_unit_is_refused(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    session_id = run_session(daemon, "small")
    make_old(daemon, session_id, 2)
    for age in ("90", "1.5", " 90 "):
        refused = daemon.run("storage", "prune", "--older-than", age, "--yes")
        assert refused.code == 64
        unit = f"{age.strip()}d for days; the units are s, m, h and d"
        assert refused.err == f"error: --older-than: {age!r} has no unit\nhint: {unit}\n"
    assert listed(daemon) == {session_id}


def test_a_size_without_a_unit_or_beyond_all_numbers_is_refused(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    session_id = run_session(daemon, "small")
    for size in ("5", " 1.5 "):
        refused = daemon.run("storage", "prune", "--max-size", size, "--yes")
        unit = f"{size.strip()}GB for gigabytes; the units are B, KB, MB, GB and TB"
        expected = f"error: --max-size: {size.strip()!r} has no unit\nhint: {unit}\n"
        assert (refused.code, refused.err) == (64, expected)
    for size in ("5i", "5iB", "GB", "-1GB", "9" * 400 + "T", "9" * 309):
        refused = daemon.run("storage", "prune", f"--max-size={size}", "--yes")
        expected = f"error: --max-size: {size!r} is not a size\nhint: such as 500MB or 5GB\n"
        assert (refused.code, refused.err) == (64, expected)
    assert listed(daemon) == {session_id}


def test_an_empty_value_is_refused_by_the_name_of_its_flag(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    for flag in ("--older-than", "--max-size"):
        refused = daemon.run("storage", "prune", flag, "", "--yes")
        assert refused.code == 64
        assert refused.err.startswith(f"error: argument {flag}: the value must not be empty\n")


def test_pruning_by_size_removes_the_oldest_first_and_no_active_session() -> None:
    sessions = [
        SessionUsage(f"sess_{number}", "", "running" if number == 1 else "idle", number, 1, 100) for number in range(5)
    ]
    assert chosen(sessions, Removal(max_size=250)) == (["sess_0", "sess_2", "sess_3"], 300)
    assert chosen(sessions, Removal(max_size=500)) == ([], 0)
    assert chosen(sessions, Removal(before=3)) == (["sess_0", "sess_2"], 200)
    assert chosen(sessions, Removal()) == ([], 0)


def test_a_blob_that_several_sessions_name_counts_once() -> None:
    shared, own = {"a": 1000}, {"b": 50}
    sessions = [
        SessionUsage(f"sess_{number}", "", "idle", number, 1, 10, blobs=shared | own if number == 0 else shared)
        for number in range(4)
    ]
    assert chosen(sessions, Removal(max_size=1090)) == ([], 0)
    assert chosen(sessions, Removal(max_size=1089)) == (["sess_0"], 60)
    assert chosen(sessions, Removal(before=3)) == (["sess_0", "sess_1", "sess_2"], 80)
    assert chosen(sessions, Removal(max_size=0)) == ([f"sess_{number}" for number in range(4)], 1090)


def test_forks_do_not_multiply_what_a_session_takes(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    original = run_session(daemon, "large")
    for _ in range(3):
        assert daemon.run("session", "fork", original).code == 0
    [largest, *_] = json.loads(daemon.run("storage", "--json").out)["largest"]
    kept = daemon.run("storage", "prune", "--max-size", f"{2 * largest['size']}B", "--dry-run")
    assert (kept.out, kept.err) == ("", "0 sessions would be removed, 0 B\n")
    every = json.loads(daemon.run("storage", "prune", "--max-size", "0", "--dry-run", "--json").out)
    assert len(every["removed"]) == 4
    assert every["freed"] > largest["size"]


def child_of(daemon: Daemon, parent: str) -> str:
    """The sub-agent of a session."""
    rows = json.loads(daemon.run("session", "list", "--all", "--json").out)["sessions"]
    return next(row["sessionId"] for row in rows if row["parent"] == parent)


def test_a_session_and_its_sub_agents_are_judged_and_removed_together(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    parent = run_session(daemon, "hand over")
    child = child_of(daemon, parent)
    prune = ("storage", "prune", "--older-than", "90d", "--json")
    for old in (parent, child):
        removed = json.loads(daemon.run(*prune, "--dry-run").out)["removed"]
        assert removed == [], f"one was used lately, {old} was, too"
        make_old(daemon, old, 100)
    shown = daemon.run(*prune[:-1], "--dry-run")
    assert ([parent in shown.out, child in shown.out], "2 sessions would be" in shown.err) == ([True, True], True)
    done = json.loads(daemon.run(*prune, "--yes").out)
    assert [one["sessionId"] for one in done["removed"]] == [parent, child]
    assert listed(daemon) == set()


def test_the_sub_agents_of_a_running_session_stay(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    with daemon, daemon.spawn("exec", "share", "--approve", "all"):
        wait_until((daemon.workspace / "started").exists, "the command to start")
        before = listed(daemon)
        for session_id in before:
            make_old(daemon, session_id, 100)
        shown = daemon.run("storage", "prune", "--older-than", "90d", "--max-size", "0", "--yes")
        assert (shown.code, shown.out) == (0, ""), shown.err
        assert (len(before), listed(daemon)) == (2, before)


def test_nothing_of_a_session_is_deleted_while_its_sub_agent_works(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    with daemon:
        parent = run_session(daemon, "hand over")
        child = child_of(daemon, parent)
        with daemon.spawn("exec", "--session", child, "wait", "--approve", "all"):
            wait_until((daemon.workspace / "started").exists, "the command to start")
            before = listed(daemon)
            refused = daemon.run("session", "delete", parent)
            assert refused.code == 75
            assert f"cannot delete {child} while a run is active" in refused.err
            kept = daemon.run("storage", "prune", "--max-size", "0", "--yes")
            assert (kept.code, kept.out, listed(daemon)) == (0, "", before), kept.err


@pytest.mark.slow
def test_the_daemon_prunes_only_if_the_configuration_asks_for_it(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    old, new = run_session(daemon, "hand over"), run_session(daemon, "hand over")
    old_child, new_child = child_of(daemon, old), child_of(daemon, new)
    for session_id in (old, old_child, new_child):
        make_old(daemon, session_id, 40)
    with daemon:
        assert listed(daemon) == {old, old_child, new, new_child}
        daemon.stop()
        daemon.config.write_text(daemon.config.read_text() + "\n[storage]\nkeep_days = 30\n")
        daemon.start()
        wait_until(lambda: listed(daemon) == {new, new_child}, "the old sessions to be removed")
        assert f"removed {old}" in daemon.log()
        assert daemon.run("exec", "--session", new, "small").code == 0


FULL = """
mount -t tmpfs -o mode=700,size=12m none {place}
cp -rp {state}/. {place}
rm -rf {place}/run {place}/daemon.* {place}/*-shm
dd if=/dev/zero of={place}/fill bs=4096 2> /dev/null || :
{backup}
{storage}
{prune} --dry-run
{prune} --yes
{storage}
"""


def prune_on_a_full_disk(daemon: Daemon, place: Path) -> Finished:
    """Back up, show, preview, prune and show again what a daemon has left, on a disk without a free byte."""
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("only root can mount something")
    place.mkdir(mode=0o700)
    flag = ["--state-dir", str(place)]
    script = FULL.format(
        place=place,
        state=daemon.state_dir,
        backup=shlex.join([*BUDDY, "backup", str(daemon.folder / "copy"), *flag]),
        storage=shlex.join([*BUDDY, "storage", "--json", *flag]),
        prune=shlex.join([*BUDDY, "storage", "prune", "--max-size", "0", "--json", *flag]),
    )
    return run(["unshare", "-m", "sh", "-ec", script], cwd=daemon.folder, env=daemon.command_environment())


def test_sessions_on_a_full_disk_are_shown_and_pruned(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    sessions = {run_session(daemon, text) for text in ("large", "large", "large", "small")}
    done = prune_on_a_full_disk(daemon, tmp_path / "small")
    assert done.code == 0, done.err
    shown, would, pruned, left = map(json.loads, done.out.splitlines())
    assert {one["sessionId"] for one in shown["largest"]} == sessions
    for removal in (would, pruned):
        assert {one["sessionId"] for one in removal["removed"]} == sessions
    assert (pruned["freed"] > 1_000_000, left["count"], left["blobs"]) == (True, 0, 0)


def test_a_disk_too_full_to_delete_anything_says_what_to_free(tmp_path: Path) -> None:
    daemon, place = Daemon(tmp_path, script=SCRIPT), tmp_path / "small"
    with daemon:
        session_id = run_session(daemon, "small")
        daemon.kill()  # what was written last is still in the write-ahead log
    done = prune_on_a_full_disk(daemon, place)
    assert done.code == 75
    assert f"error: the disk of {place} is too full to delete more sessions\nhint: free a few MiB" in done.err
    assert [session_id in line for line in done.out.splitlines()] == [True, True]
    assert daemon.run("restore", str(tmp_path / "copy"), "--replace").code == 0
    assert listed(daemon) == {session_id}


def test_doctor_mentions_a_state_directory_that_has_grown_large(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    run_session(daemon, "small")
    assert "ok    storage" in daemon.run("doctor").out
    check = check_storage(daemon.state_dir, StorageSettings(), large=1000)
    assert check.status == "warn"
    assert "buddy storage prune" in check.hint
    aged = check_storage(daemon.state_dir, StorageSettings(keep_days=30), large=1000)
    assert (aged.status, "kept for 30 days" in aged.text) == ("warn", True)
    assert "max_total_mb in [storage]" in aged.hint
    assert check_storage(daemon.state_dir, StorageSettings(keep_days=30)).status == "ok"
    capped = check_storage(daemon.state_dir, StorageSettings(keep_days=30, max_total_mb=1), large=1000)
    assert (capped.status, capped.text.endswith("kept for 30 days, up to 1 MiB")) == ("ok", True)


def test_sizes_are_read_and_written_as_people_do() -> None:
    read = [parse_size(text) for text in ("0", "10B", "5GB", "1.5 MiB", "2k", "1t")]
    assert read == [0, 10, 5 * 1024**3, 3 * 512 * 1024, 2048, 1024**4]
    assert [format_size(size) for size in (0, 1023, 1024, 5 * 1024**3)] == ["0 B", "1023 B", "1.0 KiB", "5.0 GiB"]

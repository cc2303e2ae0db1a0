"""`buddy backup` and `buddy restore`: a copy while the daemon works, after it was killed, and what is refused."""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from buddy.log.state_use import StateUse
from tests.daemon.test_recovery import violations
from tests.daemon.test_restart import begin
from tests.harness.daemon import Daemon
from tests.harness.logs import read_state_dir
from tests.harness.processes import BUDDY, clean_environment, run, wait_until
from tests.harness.scripts import MARK, section, shell

SCRIPT = [
    section(
        "^work",
        shell(f"{MARK}; echo one >> words"),
        shell(f"{MARK}; echo > started; exec sleep 600"),
        shell(f"{MARK}; echo three >> words"),
        {"text": "done"},
    ),
    section("^large", shell("seq 100000"), {"text": "large"}),
    section("^count", {"text": "one two three"}),
]


def state_of(daemon: Daemon, session_id: str) -> str:
    found = json.loads(daemon.run("session", "list", "--all", "--json").out)["sessions"]
    return next(one["state"] for one in found if one["sessionId"] == session_id)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["running", "killed"])
async def test_a_run_continues_in_what_was_restored(tmp_path: Path, moment: str) -> None:
    copy, daemon = tmp_path / "copy", Daemon(tmp_path, script=SCRIPT)
    with daemon:
        large = json.loads(daemon.run("exec", "large", "--approve", "all", "--json").out)["sessionId"]
        session_id = await begin(daemon, "work")
        await asyncio.to_thread(wait_until, (daemon.workspace / "started").exists, "the second command to start")
        if moment == "killed":
            daemon.kill()
        done = daemon.run("backup", str(copy))
        assert done.code == 0, done.err
        if moment == "running":
            daemon.kill()
    before = await read_state_dir(daemon.state_dir)
    shutil.rmtree(daemon.state_dir)
    assert daemon.run("restore", str(copy)).code == 0
    with daemon:
        await asyncio.to_thread(wait_until, lambda: state_of(daemon, session_id) == "idle", "the run to be continued")
        assert daemon.run("exec", "--session", large, "count").out.strip() == "one two three"
        assert daemon.run("changes", session_id).code == 0
    after = await read_state_dir(daemon.state_dir)
    assert [event.line() for event in after[large][: len(before[large])]] == [event.line() for event in before[large]]
    assert "UNKNOWN_OUTCOME" in str([event.line() for event in after[session_id]])
    assert (daemon.workspace / "words").read_text().split() == ["one", "three"]
    assert await violations(daemon) == []


@pytest.mark.slow
def test_what_is_incomplete_damaged_or_newer_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    assert daemon.run("exec", "count").code == 0
    assert daemon.run("backup", str(copy)).code == 0
    manifest, database = copy / "backup.json", copy / "buddy.db"
    described, content = manifest.read_text(), database.read_bytes()
    other = ("--state-dir", str(tmp_path / "other"))

    def refused(words: str) -> None:
        done = daemon.run("restore", str(copy), *other)
        assert done.code == 64
        assert words in done.err, done.err
        assert not (tmp_path / "other").exists()
        assert not list(tmp_path.glob("other*")), "nothing is left of the attempt"

    manifest.unlink()
    refused("not a complete backup")
    manifest.write_text(described.replace('"schema": ', '"schema": 9'))
    refused("newer Buddy")
    manifest.write_text(described.replace('"path": "buddy.db"', '"path": "../buddy.db"'))
    refused("outside of it")
    manifest.write_text(described)
    database.write_bytes(content[:-1] + b"x")
    refused("is not what was backed up")
    database.unlink()
    refused("is missing")
    database.write_bytes(content)
    assert daemon.run("restore", str(copy), *other).code == 0
    assert daemon.run("exec", "-c", "count", *other).code == 0


def test_sessions_that_are_there_are_moved_away_and_never_overwritten(tmp_path: Path) -> None:
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    assert daemon.run("backup", str(copy)).code == 1, "there is nothing yet"
    assert daemon.run("exec", "count").code == 0
    assert daemon.run("backup", str(copy)).code == 0
    assert daemon.run("backup", str(copy)).code == 64, "a backup is not overwritten"
    assert daemon.run("backup", str(daemon.state_dir / "copy")).code == 64
    assert daemon.run("restore", str(copy)).code == 64
    with daemon:
        assert daemon.run("restore", str(copy), "--replace").code == 75
    assert daemon.run("restore", str(copy), "--replace").code == 0
    [moved] = tmp_path.glob("state.before-*")
    assert (moved / "buddy.db").exists()
    assert daemon.run("exec", "-c", "count").code == 0


def test_a_place_behind_a_link_is_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to("real")
    daemon, copy = Daemon(tmp_path / "home", script=SCRIPT), tmp_path / "home" / "copy"
    assert daemon.run("exec", "count").out.strip() == "one two three"
    assert daemon.run("backup", str(copy)).code == 0
    assert daemon.run("restore", str(copy), "--replace").code == 0
    with daemon:
        assert daemon.run("exec", "-c", "count").code == 0


def test_nothing_is_replaced_that_another_process_uses(tmp_path: Path) -> None:
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    assert daemon.run("exec", "count").code == 0
    assert daemon.run("backup", str(copy)).code == 0
    with daemon.spawn("exec", "work", "--approve", "all") as command:
        wait_until((daemon.workspace / "started").exists, "the command to start")
        done = daemon.run("restore", str(copy), "--replace")
        assert (done.code, f"another Buddy process ({command.process.pid}) uses" in done.err) == (75, True), done.err
        command.signal(signal.SIGINT)
        command.process.wait()
    assert daemon.run("restore", str(copy), "--replace").code == 0


@pytest.mark.slow
def test_nothing_starts_while_it_is_restored(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    assert daemon.run("exec", "count").code == 0
    use = StateUse(daemon.state_dir, wait=0)
    with use.alone():
        done = daemon.run("exec", "count")
        assert (done.code, "being restored" in done.err) == (75, True), done.err
    use.end()
    assert daemon.run("exec", "count").code == 0


def test_only_an_empty_place_or_a_state_of_buddy_is_replaced(tmp_path: Path) -> None:
    daemon, copy, place = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy", tmp_path / "place"
    assert daemon.run("exec", "count").code == 0
    assert daemon.run("backup", str(copy)).code == 0
    place.mkdir(mode=0o700)
    (place / "precious").write_text("x")
    for flags in ([], ["--replace"]):
        done = daemon.run("restore", str(copy), "--state-dir", str(place), *flags)
        assert (done.code, "is not empty" in done.err) == (64, True), done.err
        assert [path.name for path in place.iterdir()] == ["precious"]
    (place / "precious").rename(place / "memory.db")
    assert daemon.run("restore", str(copy), "--state-dir", str(place)).code == 64
    assert daemon.run("restore", str(copy), "--state-dir", str(place), "--replace").code == 0
    [moved] = tmp_path.glob("place.before-*")
    assert (moved / "memory.db").read_text() == "x"
    assert daemon.run("exec", "-c", "count", "--state-dir", str(place)).code == 0


def test_a_mount_point_can_be_restored(tmp_path: Path) -> None:
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("only root can mount something")
    daemon, copy, place = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy", tmp_path / "place"
    assert daemon.run("exec", "count").code == 0
    assert daemon.run("backup", str(copy)).code == 0
    place.mkdir(mode=0o700)
    restored = shlex.join([*BUDDY, "restore", str(copy), *daemon.places()[:2], "--state-dir", str(place)])
    script = (
        f"mount -t tmpfs -o mode=700 none {place} && {restored} && {restored} --replace && ls {place} {place}/before-*"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script],
        capture_output=True,
        text=True,
        env=clean_environment(HOME=str(tmp_path)),
        check=False,
    )
    assert (done.returncode, done.stdout.count("buddy.db\n")) == (0, 2), done.stderr


def test_a_damaged_undo_store_is_left_out_and_said(tmp_path: Path) -> None:
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    assert daemon.run("exec", "large", "--approve", "all").code == 0
    damaged = daemon.state_dir / "checkpoints" / "checkpoints.db"
    damaged.write_bytes(damaged.read_bytes()[:100] + b"x" * 5000)
    (daemon.state_dir / "web-token").write_text("secret")
    done = daemon.run("backup", str(copy))
    assert (done.code, f"{damaged} is damaged" in done.err) == (0, True), done.err
    assert not list(copy.rglob("checkpoints.db")) + list(copy.rglob("web-token"))
    assert daemon.run("restore", str(copy), "--replace").code == 0
    assert daemon.run("exec", "-c", "count").code == 0


@pytest.mark.slow
def test_damage_is_never_called_a_full_disk(tmp_path: Path) -> None:
    """SQLite calls the disk full when a number that is damaged is the highest possible one."""
    daemon = Daemon(tmp_path)
    for words in ("long", "count", "read", "make it"):
        daemon.run("exec", words, "--approve", "all", "--sandbox", "host")
    whole = (daemon.state_dir / "buddy.db").read_bytes()
    refused: list[str] = []
    for part in range(1, 40):
        at = part * len(whole) // 40
        (daemon.state_dir / "buddy.db").write_bytes(whole[:at] + b"\xff" * 8192 + whole[at + 8192 :])
        done = daemon.run("backup", str(tmp_path / f"copy{part}"))
        assert done.code in (0, 64), done.err
        refused += [done.err] if done.code else []
    assert all("is damaged" in one for one in refused)
    assert any("disk is full" in one for one in refused), "the case is tried"


def test_blobs_that_are_missing_are_counted(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    assert daemon.run("exec", "long").code == 0
    complete = daemon.run("backup", str(tmp_path / "complete"))
    assert (complete.code, "lacks" in complete.err) == (0, False)
    [blob] = daemon.state_dir.glob("blobs/*/*/*")
    blob.unlink()
    done = daemon.run("backup", str(tmp_path / "copy"))
    assert done.code == 0
    assert f"warning: missing in {daemon.state_dir}: 1 blob that sessions refer to" in done.err


def test_a_backup_disk_that_is_too_small_is_never_called_damage(tmp_path: Path) -> None:
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("only root can mount something")
    daemon, place = Daemon(tmp_path, script=SCRIPT), tmp_path / "small"
    assert daemon.run("exec", "count").code == 0
    with contextlib.closing(sqlite3.connect(daemon.state_dir / "buddy.db")) as db:
        db.execute("CREATE TABLE padding (noise)")
        db.executemany("INSERT INTO padding VALUES (randomblob(1000))", [()] * 3000)
        db.commit()
    place.mkdir(mode=0o700)
    copied = shlex.join([*BUDDY, "backup", f"{place}/copy", *daemon.places()])
    for size in ("1500k", "2m", "2900k"):
        script = f"mount -t tmpfs -o mode=700,size={size} none {place}; {copied}"
        done = run(["unshare", "-m", "sh", "-c", script], cwd=daemon.folder, env=daemon.command_environment())
        assert (done.code, "is full" in done.err, "damaged" in done.err) == (75, True, False), done.err


def test_a_file_whose_name_is_not_text_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    assert daemon.run("exec", "count").code == 0
    Path(os.fsdecode(os.fsencode(daemon.state_dir) + b"/caf\xe9")).touch()
    refused = daemon.run("backup", str(tmp_path / "copy"))
    assert refused.code == 64
    assert f"error: the name of '{daemon.state_dir}/caf\\udce9' is not UTF-8 text\nhint: rename it" in refused.err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("copy")] == []


@pytest.mark.parametrize("path", ["a\\u0000b", "other"])
def test_a_manifest_that_names_nothing_useful_is_refused(tmp_path: Path, path: str) -> None:
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    copy.mkdir()
    (copy / "other").write_text("x")
    digest = hashlib.sha256(b"x").hexdigest()
    described = f'{{"path": "{path}", "size": 1, "sha256": "{digest}"}}'
    (copy / "backup.json").write_text(f'{{"version": "0", "schema": 1, "createdAt": 1, "files": [{described}]}}')
    done = daemon.run("restore", str(copy))
    assert (done.code, done.err.count("\n"), "error: " in done.err) == (64, 2, True), done.err
    assert not daemon.state_dir.exists()


def test_a_backup_that_is_killed_leaves_nothing_under_its_name(tmp_path: Path) -> None:
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    assert daemon.run("exec", "large", "--approve", "all").code == 0
    with daemon.spawn("backup", str(copy)) as command:
        wait_until(lambda: bool(list(tmp_path.glob("copy*"))), "the backup to begin")
        command.signal(signal.SIGKILL)
        command.process.wait()
    if copy.exists():  # it was faster
        assert daemon.run("restore", str(copy), "--replace").code == 0
    else:
        [partial] = tmp_path.glob("copy.partial-*")
        assert daemon.run("restore", str(partial), "--replace").code == 64
    assert daemon.run("exec", "-c", "count").code == 0


def test_a_backup_says_what_is_not_in_it(tmp_path: Path) -> None:
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    assert daemon.run("exec", "count").code == 0
    done = daemon.run("backup", str(copy))
    assert (done.code, "buddy.toml and auth.json are not in it\n" in done.err) == (0, True), done.err
    assert "(buddy.toml) and auth.json are not copied" in daemon.run("backup", "--help").out


def test_a_backup_does_not_go_into_the_state_directory_by_any_name(tmp_path: Path) -> None:
    daemon, link, dangling = Daemon(tmp_path, script=SCRIPT), tmp_path / "link", tmp_path / "dangling"
    assert daemon.run("exec", "count").code == 0
    link.symlink_to(daemon.state_dir)
    dangling.symlink_to(tmp_path / "missing")
    for place in (daemon.state_dir / "copy", link / "copy", link / "blobs" / ".." / "copy"):
        refused = daemon.run("backup", str(place))
        assert (refused.code, "is inside the state directory" in refused.err) == (64, True), refused.err
    refused = daemon.run("backup", str(dangling))
    assert (refused.code, "exists already" in refused.err) == (64, True), refused.err
    through = daemon.run("backup", str(tmp_path / "copy"), "--state-dir", str(link))
    assert through.code == 0, through.err
    assert not list(daemon.state_dir.glob("copy*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_backup_that_a_signal_ends_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    assert daemon.run("exec", "count").code == 0
    with contextlib.closing(sqlite3.connect(daemon.state_dir / "other.db", isolation_level=None)) as other, other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")  # the backup waits for it
        with daemon.spawn("backup", str(copy)) as command:
            wait_until(lambda: bool(list(tmp_path.glob("copy.partial-*/buddy.db"))), "the backup to begin")
            command.signal(number)
            other.execute("ROLLBACK")
            done = command.finish()
    assert (done.code, done.err) == (130 if number == signal.SIGINT else 128 + number, "")
    assert not list(tmp_path.glob("copy*"))
    other.close()


def test_the_next_backup_removes_what_a_killed_one_has_left(tmp_path: Path) -> None:
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    assert daemon.run("exec", "count").code == 0
    left, mine = tmp_path / "copy.partial-20260101-000000-0123ef", tmp_path / "copy.partial-notes"
    for place in (left, mine):
        place.mkdir()
        (place / "buddy.db").write_text("x")
    running = os.open(left, os.O_RDONLY)
    fcntl.flock(running, fcntl.LOCK_EX)
    assert daemon.run("backup", str(copy)).code == 0
    assert (left / "buddy.db").exists(), "its process is still there"
    os.close(running)
    shutil.rmtree(copy)
    done = daemon.run("backup", str(copy))
    assert (done.code, f"removed {left}, left by a backup that was interrupted" in done.err) == (0, True), done.err
    assert sorted(tmp_path.glob("copy*")) == [copy, mine]


def test_a_damaged_log_is_named_and_comes_back_from_its_copy(tmp_path: Path) -> None:
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    assert daemon.run("exec", "count").code == 0
    assert daemon.run("backup", str(copy)).code == 0
    database = daemon.state_dir / "buddy.db"
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        [root] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'").fetchone()
        [size] = db.execute("PRAGMA page_size").fetchone()
    pages = bytearray(database.read_bytes())
    pages[(root - 1) * size : root * size] = b"x" * size
    database.write_bytes(pages)
    done = daemon.run("session", "list")
    assert (done.code, "is damaged" in done.err, "buddy restore" in done.err) == (1, True, True), done.err
    assert daemon.run("restore", str(copy), "--replace").code == 0
    assert "count" in daemon.run("session", "list").out

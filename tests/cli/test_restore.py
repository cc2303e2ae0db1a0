"""`buddy restore` that ends in the middle: killed at any move, or by an error. What was there is put back."""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon
from tests.harness.processes import BUDDY, Finished, clean_environment, run
from tests.harness.scripts import section

SCRIPT = [section("^count", {"text": "one two three"})]
KILLED = """
import itertools, os, pathlib, signal, sys
from buddy.cli import main
moves, rename, last = itertools.count(1), pathlib.Path.rename, int(sys.argv.pop(1))

def rename_or_die(path, target):
    if next(moves) == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(path, target)

pathlib.Path.rename = rename_or_die
sys.exit(main())
"""


def contents(folder: Path) -> dict[str, str]:
    """The files below a folder except those that a reader changes: locks, shared memory, what a daemon prints."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith((".lock", "-shm", ".out")))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def killed_restore(daemon: Daemon, copy: Path, move: int, *flags: str) -> Finished:
    """`buddy restore`, killed before it moves something for the Nth time."""
    command = [sys.executable, "-c", KILLED, str(move), "restore", str(copy), *flags]
    return run(command, cwd=daemon.workspace, env=daemon.command_environment())


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Daemon, Path]:
    """A daemon that was killed, so that the end of its log is in the WAL, and an older backup."""
    daemon, copy = Daemon(tmp_path, script=SCRIPT), tmp_path / "copy"
    assert daemon.run("exec", "count").code == 0
    assert daemon.run("backup", str(copy)).code == 0
    with daemon:
        assert daemon.run("exec", "count").code == 0
        daemon.kill()
    assert (daemon.state_dir / "buddy.db-wal").stat().st_size
    return daemon, copy


def test_a_killed_restore_is_said_by_every_command_and_undone_by_the_next(killed: tuple[Daemon, Path]) -> None:
    daemon, copy = killed
    before = contents(daemon.state_dir)
    assert killed_restore(daemon, copy, 4, "--replace").code < 0
    for command in (["exec", "count"], ["session", "list"], ["storage"], ["backup", "other"], ["daemon", "start"]):
        done = daemon.run(*command)
        assert done.code, command
        assert f"a restore of {daemon.state_dir} was interrupted" in done.err, command
        assert "hint: run buddy restore again" in done.err, command
    assert "was interrupted" in daemon.run("doctor").out
    done = daemon.run("restore", str(copy.parent / "lost"))
    assert (done.code, "what was there before is back" in done.err) == (64, True), "a lost backup does no harm"
    assert contents(daemon.state_dir) == before
    assert not list(copy.parent.glob("state.*"))
    assert daemon.run("session", "list", "--json").out.count("sessionId") == 2
    assert daemon.run("restore", str(copy), "--replace").code == 0
    assert daemon.run("session", "list", "--json").out.count("sessionId") == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_restore_may_be_killed_at_any_move(killed: tuple[Daemon, Path], is_empty: bool) -> None:
    daemon, copy = killed
    if is_empty:
        shutil.rmtree(daemon.state_dir)
        daemon.state_dir.mkdir(mode=0o700)
    before = contents(daemon.state_dir)
    move = 1
    while killed_restore(daemon, copy, move, "--replace").code:
        daemon.run("restore", str(copy.parent / "lost"))
        assert contents(daemon.state_dir) == before, move
        move += 1
    assert move > 3
    assert daemon.run("session", "list", "--json").out.count("sessionId") == 1


def test_a_restore_that_fails_puts_everything_back(killed: tuple[Daemon, Path]) -> None:
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("only root can mount something")
    daemon, copy = killed
    before = contents(daemon.state_dir)
    restored = shlex.join([*BUDDY, "restore", str(copy), "--replace", *daemon.places()])
    script = f"mount -t tmpfs none {daemon.state_dir}/blobs; {restored}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        capture_output=True,
        text=True,
        env=clean_environment(HOME=str(daemon.folder)),
        check=False,
    )
    assert (done.returncode, "Device or resource busy" in done.stderr) == (64, True), done.stderr
    assert contents(daemon.state_dir) == before
    assert not list(copy.parent.glob("state.*"))


def test_a_log_is_not_created_beside_the_wal_of_another(killed: tuple[Daemon, Path]) -> None:
    daemon, _ = killed
    (daemon.state_dir / "buddy.db").rename(daemon.folder / "elsewhere.db")
    wal = (daemon.state_dir / "buddy.db-wal").read_bytes()
    done = daemon.run("exec", "count")
    assert (done.code, "buddy.db is missing, but" in done.err) == (64, True), done.err
    assert (daemon.state_dir / "buddy.db-wal").read_bytes() == wal

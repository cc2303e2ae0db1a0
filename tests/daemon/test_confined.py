"""Confined commands of a real daemon: nothing freezes it, nothing is left, its own files stay."""

import shutil
import subprocess
from pathlib import Path

import pytest

from buddy.targets.confine.probe import probe
from tests.harness.daemon import Daemon
from tests.harness.processes import wait_until
from tests.harness.scripts import section, shell

CONFINED = ("exec", "--sandbox", "confined", "--approve", "all")
BARE = (
    "mv .git/HEAD .git/HEAD.x; mkdir -p objects refs; echo 'ref: refs/heads/master' >HEAD; "
    "printf '[core]\\n repositoryformatversion = 0\\n bare = false\\n worktree = .\\n' >config; "
    "printf ' fsmonitor = touch {canary};false\\n' >>config"
)


@pytest.fixture(autouse=True)
def provable() -> None:
    if not probe().method:
        pytest.skip(probe().reason)


def test_a_fifo_in_a_repository_stops_neither_commands_nor_the_daemon(tmp_path: Path) -> None:
    script = [
        section("^make", shell("mkdir -p sub/.git; mkfifo sub/.git/config sub/.git/commondir"), {"text": "made"}),
        section("^on", shell("echo on >result"), {"text": "done"}),
    ]
    with Daemon(tmp_path, script=script) as daemon:
        daemon.run(*CONFINED, "make")
        daemon.run(*CONFINED, "on")
        assert (daemon.workspace / "result").read_text() == "on\n"
        assert daemon.stop() == 0


def test_nothing_is_left_in_the_workspace_after_a_kill(tmp_path: Path) -> None:
    script = [section("^wait", shell("echo x >started; exec sleep 600"), {"text": "never"})]
    daemon = Daemon(tmp_path, script=script)
    daemon.start()
    with daemon.spawn(*CONFINED, "wait"):
        wait_until((daemon.workspace / "started").exists, "the command to start")
        assert (daemon.workspace / ".git").exists()
        daemon.kill()
    with daemon:
        assert sorted(path.name for path in daemon.workspace.iterdir()) == ["a.txt", "started"]


@pytest.mark.slow
def test_a_configuration_in_the_workspace_cannot_be_written(tmp_path: Path) -> None:
    script = [
        section("^change", shell("echo '[evil]' >>conf/my.toml; rm -f conf/my.toml; mv conf x"), {"text": "done"})
    ]
    daemon = Daemon(tmp_path, script=script)
    (daemon.workspace / "conf").mkdir()
    daemon.config = Path(shutil.move(daemon.config, daemon.workspace / "conf" / "my.toml"))
    before = daemon.config.read_text()
    with daemon:
        daemon.run(*CONFINED, "change")
    assert daemon.config.read_text() == before


@pytest.mark.slow
def test_the_workspace_is_not_turned_into_a_repository_that_runs_code(tmp_path: Path) -> None:
    canary = tmp_path / "PWNED"
    script = [section("^turn", shell(BARE.format(canary=canary)), {"text": "done"})]
    with Daemon(tmp_path, script=script) as daemon:
        subprocess.run(["git", "init", "-q", "."], cwd=daemon.workspace, check=True)
        daemon.run(*CONFINED, "turn")
        subprocess.run(["git", "status"], cwd=daemon.workspace, check=False, capture_output=True)
        assert (daemon.workspace / "HEAD.set-aside").exists()
        assert not canary.exists()

"""The daemon as a systemd service: the unit is valid, starts exactly this daemon, and holds no key."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from buddy.cli.service import quote
from tests.harness.daemon import Daemon
from tests.harness.installed import need
from tests.harness.processes import BUDDY, Finished, wait_until


def installed(daemon: Daemon, *flags: str, **env: str) -> Finished:
    done = daemon.run("daemon", "install", *flags, XDG_RUNTIME_DIR="", **env)
    assert done.code == 0, done
    return done


def setting(unit: str, name: str) -> str:
    return next(line.partition("=")[2] for line in unit.splitlines() if line.startswith(f"{name}="))


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    return Daemon(tmp_path / 'it is 100% "mine" $HOME')


def test_systemd_accepts_the_unit(daemon: Daemon) -> None:
    need("systemd-analyze")
    installed(daemon)
    unit = daemon.folder / ".config" / "systemd" / "user" / "buddy.service"
    assert unit.stat().st_mode & 0o777 == 0o644
    env = {"PATH": os.environ["PATH"], "HOME": str(daemon.folder), "XDG_RUNTIME_DIR": "/tmp"}  # noqa: S108 - only read
    verified = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)], env=env, capture_output=True, text=True, check=False
    )
    about_ours = [line for line in verified.stderr.splitlines() if "buddy" in line]
    assert (verified.returncode, verified.stdout, about_ours) == (0, "", [])


def test_the_unit_starts_this_daemon_again_after_a_crash(tmp_path: Path) -> None:
    """What systemd would start, started as it would: no shell, an environment of its own."""
    daemon = Daemon(tmp_path)
    unit = installed(daemon, "--print").out
    assert (setting(unit, "Restart"), setting(unit, "RestartPreventExitStatus")) == ("on-failure", "64 75")
    command = [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(setting(unit, "ExecStart"))]
    assert Path(command[0]).is_absolute()
    places = ["--state-dir", str(daemon.state_dir), "--socket", str(daemon.socket), "--config", str(daemon.config)]
    assert command[1:] == ["-P", *BUDDY[1:], "daemon", "run", *places]
    started = subprocess.Popen(command, cwd="/", env={"HOME": str(daemon.folder), "PATH": os.environ["PATH"]})
    try:
        wait_until(daemon.socket.is_socket, "the daemon's socket")
        assert f"pid {started.pid}" in daemon.run("daemon", "status").out
    finally:
        started.kill()
        started.wait()


def test_without_systemd_the_unit_is_written_and_the_command_is_said(daemon: Daemon) -> None:
    done = installed(daemon)
    assert done.out == ""
    assert "systemctl --user enable --now buddy.service" in done.err
    unit = daemon.folder / ".config" / "systemd" / "user" / "buddy.service"
    assert unit.read_text() == installed(daemon, "--print").out
    assert "removed" in installed(daemon, "--remove").err
    assert not unit.exists()
    again = daemon.run("daemon", "install", "--remove", XDG_RUNTIME_DIR="")
    assert (again.code, again.err.splitlines()[0]) == (1, f"error: no service at {unit}")


def test_no_key_gets_into_the_unit(daemon: Daemon) -> None:
    unit = installed(daemon, "--print", OPENAI_API_KEY="sk-very-secret", BUDDY_API_KEY="sk-very-secret").out
    assert "secret" not in unit
    assert setting(unit, "EnvironmentFile") == f"-{daemon.folder}/daemon.env".replace("%", "%%")


def test_a_word_of_the_unit_stays_one_word() -> None:
    assert [quote(word) for word in ("/usr/bin/python3", "a b", "50%", "$HOME", 'say "hi"', "a\\b")] == [
        "/usr/bin/python3",
        '"a b"',
        '"50%%"',
        '"$$HOME"',
        '"say \\"hi\\""',
        '"a\\\\b"',
    ]

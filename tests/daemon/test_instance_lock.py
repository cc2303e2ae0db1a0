"""The daemon's socket and lock: access, one daemon per state directory, cleanup and takeover."""

import contextlib
import os
import pwd
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from buddy.daemon.instance_lock import peer_uid, safe_directory
from buddy.errors import UserError
from tests.harness.clients import send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.processes import is_answering, wait_until

NOBODY = pwd.getpwnam("nobody").pw_uid


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_nothing_is_open_to_others_whatever_the_umask(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, web=True)
    daemon.state_dir = tmp_path / "made" / "on" / "the" / "way"
    daemon.socket = daemon.state_dir / "run" / "buddyd.sock"
    daemon.before_exec = "umask 000"
    with daemon:
        async with wire_client(daemon) as client:
            await send(client, await start(client, daemon), "long")
            await client.wait_for("run_complete")
        found = [tmp_path / "made", *(tmp_path / "made").rglob("*")]
        assert {path.name for path in found} >= {"run", "buddyd.sock", "logs", "daemon.log", "web-token", "daemon.lock"}
        wrong = [f"{path} {mode(path):o}" for path in found if mode(path) != (0o700 if path.is_dir() else 0o600)]
        assert wrong == []


def test_a_stale_socket_is_taken_over(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        daemon.kill()
        assert daemon.socket.exists()
        daemon.start()
        assert is_answering(daemon.socket)
        assert daemon.stop() == 0
        assert not daemon.socket.exists()


def test_a_second_daemon_is_refused_and_opens_nothing(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        # Opening the database would fail here, with another exit code.
        blind = "import sys, apsw; apsw.Connection = None; from buddy.cli import main; sys.exit(main())"
        second = subprocess.run(
            [sys.executable, "-c", blind, "daemon", "run", *daemon.places()],
            env=daemon.command_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 75, second.stderr
        assert f"pid {daemon.pid()}" in second.stderr
        assert "hint:" in second.stderr
        assert is_answering(daemon.socket)


def test_a_socket_that_another_state_directory_uses_is_left_alone(tmp_path: Path) -> None:
    with Daemon(tmp_path / "one") as first:
        second = Daemon(tmp_path / "two")
        second.flags = ["--socket", str(first.socket)]
        assert second.launch().wait(20) == 75
        assert "another daemon listens" in second.output()
        assert is_answering(first.socket)


@pytest.mark.parametrize("what", ["file", "link"])
def test_what_is_in_the_sockets_way_is_not_removed(tmp_path: Path, what: str) -> None:
    daemon = Daemon(tmp_path)
    daemon.socket.parent.mkdir(parents=True, mode=0o700)
    daemon.state_dir.chmod(0o700)
    target = tmp_path / "precious"
    target.write_text("keep me")
    if what == "file":
        daemon.socket.write_text("keep me")
    else:
        daemon.socket.symlink_to(target)
    assert daemon.launch().wait(20) == 64
    assert daemon.socket.read_text() == target.read_text() == "keep me"


def test_linked_foreign_and_open_directories_are_refused(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(real)
    with pytest.raises(UserError, match="not a directory of its own"):
        safe_directory(tmp_path / "link")
    real.chmod(0o770)
    with pytest.raises(UserError, match="writable by others"):
        safe_directory(real)
    if os.geteuid() == 0:
        real.chmod(0o700)
        os.chown(real, NOBODY, -1)
        with pytest.raises(UserError, match="belongs to another user"):
            safe_directory(real)


def test_a_linked_lock_is_refused(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.state_dir.mkdir(mode=0o700)
    (tmp_path / "elsewhere").write_text("keep me")
    (daemon.state_dir / "daemon.lock").symlink_to(tmp_path / "elsewhere")
    assert daemon.launch().wait(20) == 64
    assert (tmp_path / "elsewhere").read_text() == "keep me"


def test_the_uid_of_a_peer_is_known() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_disconnected_before_anything_is_read() -> None:
    with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder)) as daemon:
        asking = (
            f"import os, socket, sys; s = socket.socket(socket.AF_UNIX); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
            "try: s.connect(sys.argv[1])\n"
            "except PermissionError: sys.exit('no way in')\n"
            "try: s.sendall(b'x' * 10); print('got', s.recv(100))\n"
            "except ConnectionError: print('got', b'')\n"
        )

        def ask() -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                [sys.executable, "-c", asking, str(daemon.socket)], capture_output=True, text=True, check=False
            )

        assert ask().stderr.strip() == "no way in"
        # File permissions are opened, so that only the check of the uid refuses.
        for path in (daemon.socket, daemon.socket.parent, daemon.state_dir, daemon.folder):
            path.chmod(0o777)
        assert ask().stdout.strip() == "got b''"
        wait_until(lambda: "refused a peer with another uid" in daemon.log(), "the refusal to be written down")
        assert is_answering(daemon.socket)


def test_a_socket_path_that_is_too_long_says_so(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.flags = ["--socket", str(tmp_path / ("x" * 100) / "s")]
    assert daemon.launch().wait(20) == 64
    assert "too long" in daemon.output()
    assert "hint:" in daemon.output()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "*:0", "example.com:0", "10.1.2.3:0", "nonsense"])
def test_an_address_that_others_can_reach_is_refused(tmp_path: Path, address: str) -> None:
    daemon = Daemon(tmp_path)
    daemon.flags = ["--listen", address]
    assert daemon.launch().wait(20) == 64
    assert "hint:" in daemon.output()
    assert not daemon.state_dir.exists()


def test_a_port_that_is_taken_says_so_and_leaves_no_socket(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        daemon = Daemon(tmp_path)
        daemon.flags = ["--listen", f"127.0.0.1:{taken.getsockname()[1]}"]
        assert daemon.launch().wait(20) == 64
        assert "cannot listen" in daemon.output()
        assert not daemon.socket.exists()


def test_an_explicit_flag_lets_it_listen_on_all_addresses(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.flags = ["--listen", "0.0.0.0:0", "--allow-remote"]
    with daemon:
        assert "WebSocket on 0.0.0.0:" in daemon.log()


def test_clients_that_connect_while_the_daemon_is_busy_wait_in_the_backlog(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, contextlib.ExitStack() as crowd:
        daemon.signal(signal.SIGSTOP)
        try:
            for _ in range(300):
                peer = crowd.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                peer.setblocking(False)
                peer.connect(str(daemon.socket))  # where the queue is full, this is refused at once
        finally:
            daemon.signal(signal.SIGCONT)
        assert is_answering(daemon.socket)

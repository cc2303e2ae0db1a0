"""Real machines to work on: an sshd on loopback with key login, and a container of a few static programs."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec import Struct

from tests.harness.installed import need
from tests.harness.processes import PATIENCE

CONTAINERS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE = """
[storage]
driver = "vfs"
graphroot = "{place}/store"
runroot = "{place}/run"
"""
SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {place}/host_key
AuthorizedKeysFile {place}/authorized_keys
PidFile {place}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
SetEnv HOME={place}/home
"""


class SshServer(Struct, frozen=True):
    """The ssh options to reach it."""

    options: tuple[str, ...]


@contextlib.contextmanager
def ssh_server(place: Path) -> Generator[SshServer]:
    """An sshd of this user on a free port."""
    need("ssh", "ssh-keygen", "sshd")
    for key in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key], check=True)
    (place / "authorized_keys").write_bytes((place / "user_key.pub").read_bytes())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (place / "sshd_config").write_text(SSHD.format(port=port, place=place))
    # Neither a warning about a new host nor the user's own start-up files add to what a command prints.
    (place / "known_hosts").write_text(f"[127.0.0.1]:{port} {(place / 'host_key.pub').read_text()}")
    (place / "home").mkdir()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    sshd = shutil.which("sshd") or ""
    # It daemonizes, so that it is not a child of tests that count their children.
    subprocess.run([sshd, "-E", place / "sshd.log", "-f", place / "sshd_config"], check=True)
    try:
        _wait_open(port)
        known = f"UserKnownHostsFile={place}/known_hosts"
        options = ("-F", "none", "-p", str(port), "-i", str(place / "user_key"), "-o", known)
        yield SshServer((*options, "-o", "StrictHostKeyChecking=accept-new"))
    finally:
        os.kill(int((place / "sshd.pid").read_text()), signal.SIGTERM)


def _wait_open(port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    pytest.skip("sshd does not start here")


class Engine:
    """A podman with its own store, and an image of a few static programs."""

    def __init__(self, place: Path) -> None:
        need("podman", "runc", "busybox", "tar")
        (place / "containers.conf").write_text(CONTAINERS)
        (place / "storage.conf").write_text(STORAGE.format(place=place))
        self.place = place
        self.env = {
            "CONTAINERS_CONF": str(place / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(place / "storage.conf"),
        }
        self.containers: list[str] = []
        _fill(place / "image")
        archive = place / "image.tar"
        subprocess.run(["tar", "-C", place / "image", "-cf", archive, "."], check=True)
        self._podman("import", str(archive), "localhost/buddy:test")

    def start(self, name: str, *flags: str) -> None:
        self.containers.append(name)
        idle = "trap exit TERM; while :; do sleep 1000 & wait; done"
        self._podman("run", "-d", "--name", name, *flags, "localhost/buddy:test", "/bin/sh", "-c", idle)

    def remove(self, name: str) -> None:
        self._podman("rm", "-f", "-t", "0", name)
        self.containers.remove(name)

    def close(self) -> None:
        for name in list(self.containers):
            self.remove(name)

    def _podman(self, *words: str) -> None:
        done = subprocess.run(
            ["podman", *words], env={**os.environ, **self.env}, check=False, capture_output=True, text=True
        )
        if done.returncode != 0:
            pytest.skip(f"podman cannot be used here: {done.stderr.strip()[-200:]}")


def _fill(image: Path) -> None:
    for directory in ("bin", "tmp", "proc", "sys", "dev", "etc", "root", "work", "lib/terminfo/s"):
        (image / directory).mkdir(parents=True)
    (image / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    busybox = shutil.which("busybox") or ""
    shutil.copy(busybox, image / "bin/busybox")
    applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for applet in applets:
        if applet != "busybox":
            (image / "bin" / applet).symlink_to("busybox")
    tmux = shutil.which("tmux")
    if tmux:
        _copy_with_libraries(Path(tmux), image)
        shutil.copytree("/usr/lib/locale/C.utf8", image / "usr/lib/locale/C.utf8")
        for screen in Path("/lib/terminfo/s").glob("screen*"):
            shutil.copy(screen, image / "lib/terminfo/s")


def _copy_with_libraries(program: Path, image: Path) -> None:
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    libraries = [word for word in listed.split() if word.startswith("/")]
    shutil.copy(program, image / "bin")
    for library in libraries:
        place = image / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)

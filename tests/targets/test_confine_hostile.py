"""What a hostile command tries over the network and with other processes, with each confinement method."""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from buddy.targets import orphans
from buddy.targets.confine import devices
from buddy.targets.confine.sharing import one_at_a_time
from buddy.targets.confine.target import Confined
from tests.harness.installed import need
from tests.targets.inspect_files import contents, run


def python(program: str) -> str:
    """A command that runs a Python program."""
    return f"{sys.executable} -I -c {program!r}"


# --- network ---


TALKERS = {
    "tcp": "socket.create_connection(('127.0.0.1', {port}), 2)",
    "tcp over ipv6": "socket.socket(socket.AF_INET6).connect(('::1', {port}))",
    "tcp to a mapped address": "socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', {port}))",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
    "names": "socket.getaddrinfo('example.com', 80)",
    "raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(b'x' * 8, ('127.0.0.1', 0))",
    "packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 768).bind(('eth0', 0))",
}


@pytest.mark.parametrize("how", TALKERS)
async def test_the_network_is_unreachable(confined: Confined, root: Path, nonce: str, listener: int, how: str) -> None:
    code, output = await run(confined, python("import socket; " + TALKERS[how].format(port=listener)), root, nonce)
    assert code != 0
    assert "rror" in output


PROGRAMS = [
    "curl -m 3 http://127.0.0.1:{port}",
    "busybox wget -T 3 -O- http://127.0.0.1:{port}",
    "busybox ping -c 1 -W 2 127.0.0.1",
    "busybox nslookup example.com 127.0.0.1",
    "busybox nc -w 2 127.0.0.1 {port}",
]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_common_network_programs_reach_nothing(
    confined: Confined, root: Path, nonce: str, listener: int, program: str
) -> None:
    need(program.partition(" ")[0])
    code, _ = await run(confined, f"timeout 10 {program.format(port=listener)}", root, nonce)
    assert code != 0


async def test_allowed_network_access_lasts_for_that_command_only(
    confined: Confined, root: Path, nonce: str, listener: int
) -> None:
    connect = f"exec 3<>/dev/tcp/127.0.0.1/{listener}"
    assert (await run(confined.with_network(), connect, root, nonce))[0] == 0
    assert (await run(confined, connect, root, nonce))[0] != 0
    code, _ = await run(confined.with_network(), "echo evil >.git/config", root, nonce)
    assert code != 0


@pytest.fixture
def door() -> Generator[Path]:
    """A socket of another program, such as a container engine, a key agent or this runtime."""
    # Not below /tmp: a command has its own empty one, which alone would hide it.
    place = Path(f"/var/lib/buddy-test-{os.getpid()}.sock") if os.geteuid() == 0 else Path.home() / ".buddy-test.sock"
    with listening(place):
        yield place


@contextmanager
def listening(place: Path) -> Generator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        try:
            yield
        finally:
            place.unlink()


# In two pieces: newer Pythons quote the program in a traceback.
KNOCK = "import socket; socket.socket(socket.AF_UNIX).connect({path!r}); print('thr' + 'ough')"


async def test_a_socket_in_the_file_system_does_not_answer(
    confined: Confined, root: Path, nonce: str, door: Path
) -> None:
    code, output = await run(confined, python(KNOCK.format(path=str(door))), root, nonce)
    assert (code, "through" in output) == (1, False)


async def test_a_socket_in_the_workspace_does_not_answer_either(confined: Confined, root: Path, nonce: str) -> None:
    with listening(root / "s"):
        code, output = await run(confined, python(KNOCK.format(path="s")), root, nonce)
        assert (code, "through" in output) == (1, False)


async def test_an_abstract_socket_does_not_answer(confined: Confined, root: Path, nonce: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{nonce}")
        server.listen()
        code, output = await run(confined, python(KNOCK.format(path=f"\0{nonce}")), root, nonce)
    assert (code, "through" in output) == (1, False)


# --- other processes ---


async def test_our_own_process_is_unreachable(confined: Confined, root: Path, nonce: str) -> None:
    own = os.getpid()
    tries = [
        f"kill -0 {own}",
        f"cat /proc/{own}/environ",
        f"ls /proc/{own}/root/etc",
        f"ls -l /proc/{own}/fd",
        f"cat /proc/{own}/mem",
        f"ls /proc/{os.getppid()}/cwd",
    ]
    for attempt in tries:
        code, _ = await run(confined, attempt, root, nonce)
        assert code != 0, attempt


async def test_no_process_outside_can_be_traced(confined: Confined, root: Path, nonce: str) -> None:
    program = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); "
        f"print('traced' if libc.ptrace(16, {os.getpid()}, 0, 0) == 0 else 'refused')"
    )
    assert (await run(confined, python(program), root, nonce))[1] == "refused\n"


async def test_background_processes_end_with_their_command(confined: Confined, root: Path, nonce: str) -> None:
    command = "(setsid env -i sh -c 'trap \"\" TERM HUP; sleep 600; sleep 600' >/dev/null 2>&1 &); sleep 0.2; echo up"
    marker = root / "alive"
    writer = f"(setsid env -i sh -c 'while :; do echo x >>{marker}; sleep 0.05; done' >/dev/null 2>&1 &); {command}"
    assert (await run(confined, writer, root, nonce))[1] == "up\n"
    assert orphans.find(nonce) == []
    before = marker.stat().st_size
    await asyncio.sleep(0.3)
    assert marker.stat().st_size == before


async def test_no_open_descriptor_is_inherited(confined: Confined, root: Path, nonce: str) -> None:
    with (root / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        _, output = await run(confined, "ls -l /proc/self/fd | grep -c open; readlink /proc/self/fd/0", root, nonce)
    assert output == "0\n/dev/null\n"


async def test_secrets_in_the_environment_are_not_passed_on(
    confined: Confined, root: Path, nonce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-9b1d")
    monkeypatch.setenv("GITHUB_TOKEN", "canary-77aa")
    monkeypatch.setenv("BUDDY_API_KEY", "canary-cc01")
    monkeypatch.setenv("HARMLESS", "stays")
    _, output = await run(confined, "env; cat /proc/*/environ | tr '\\0' '\\n'", root, nonce)
    assert "canary" not in output
    assert "HARMLESS=stays" in output


async def test_there_is_no_terminal_to_type_into(confined: Confined, root: Path, nonce: str) -> None:
    program = "import fcntl, os, termios; fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), termios.TIOCSTI, b'x')"
    code, output = await run(confined, python(program), root, nonce)
    assert code == 1
    assert "Error" in output


async def test_only_harmless_devices_exist(confined: Confined, root: Path, nonce: str) -> None:
    code, output = await run(
        confined, "ls /dev; ls /dev/pts /dev/shm; echo x >/dev/null && head -c1 /dev/urandom >/dev/null", root, nonce
    )
    assert code == 0
    listed = set(output.split())
    assert not listed & {"mem", "kmsg", "sda", "vda", "nvme0n1", "loop0", "fuse", "kvm", "net"}
    assert not any(name.isdigit() for name in listed)


DEVICES = [Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty")]


@pytest.fixture
def device_modes() -> Generator[list[tuple[int, int]]]:
    """The mode and owner of each device, which no other test changes meanwhile."""
    with one_at_a_time(Path(tempfile.gettempdir())):
        before = modes_of_devices()
        yield before
        for device, (mode, _) in zip(DEVICES, before, strict=True):
            if device.lstat().st_mode != mode:
                device.chmod(mode & 0o777)


def modes_of_devices() -> list[tuple[int, int]]:
    return [(device.lstat().st_mode, device.lstat().st_uid) for device in DEVICES]


async def test_devices_of_this_machine_keep_their_modes(
    confined: Confined, root: Path, nonce: str, device_modes: list[tuple[int, int]]
) -> None:
    files = [f"/proc/{process}/fd/{number}" for process in (1, 2, 3, "self") for number in range(9)]
    program = (
        "import os\n"
        f"for path in [0, *range(3, 12), *{files!r}, *{list(map(str, DEVICES))!r}]:\n"
        "    for act in (lambda p: os.chmod(p, 0o640), lambda p: os.chown(p, 0, 1)):\n"
        "        try: act(path)\n"
        "        except OSError: pass\n"
    )
    (root / "modes.py").write_text(program)
    plain = "; ".join(f"chmod 640 {path} /proc/1/fd/0 /proc/self/fd/0" for path in DEVICES)
    for command in (f"{sys.executable} modes.py", plain):
        await run(confined, command, root, nonce)
        assert modes_of_devices() == device_modes


def test_a_device_that_is_not_as_usual_is_not_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of another process may just have changed it."""
    if os.geteuid():
        pytest.skip("only root can change devices")
    monkeypatch.setattr(devices, "_modes", lambda: {"/dev/null": 0o640, "/dev/zero": 0o666})
    assert devices.device_modes.__wrapped__() == {"/dev/zero": 0o666}


async def test_shared_memory_is_private(confined: Confined, root: Path, nonce: str) -> None:
    outside = Path("/dev/shm") / nonce  # noqa: S108 - what is tested
    outside.write_text("theirs")
    try:
        code, output = await run(confined, f"cat {outside}; echo x >/dev/shm/{nonce}-mine", root, nonce)
    finally:
        outside.unlink()
    assert "theirs" not in output
    assert code == 0
    assert not outside.with_name(f"{nonce}-mine").exists()


async def test_the_kernel_cannot_be_configured(confined: Confined, root: Path, nonce: str) -> None:
    for place in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
    ):
        # Opened, not written: if confinement fails, nothing may change.
        code, _ = await run(confined, f": >>{place}", root, nonce)
        assert code != 0, place


async def test_no_capability_is_left_or_can_be_gained(confined: Confined, root: Path, nonce: str) -> None:
    _, output = await run(confined, "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status", root, nonce)
    facts = dict(line.split() for line in output.splitlines())
    assert facts.pop("NoNewPrivs:") == "1"
    assert {int(value, 16) for value in facts.values()} == {0}


async def test_new_namespaces_offer_no_escape(confined: Confined, root: Path, home: Path, nonce: str) -> None:
    need("unshare")
    inner = (
        "umount -l .git/hooks; umount -R .git; mount -o remount,rw,bind .git/hooks; mount -o remount,rw,bind /; "
        f"echo evil >.git/hooks/x; echo evil >{home}/x; mount --move .git /mnt; echo evil >.git/config; true"
    )
    for flags in ("-Urm", "-UrmpfC", "-m"):
        await run(confined, f"unshare {flags} sh -c '{inner}'", root, nonce)
    assert contents(root) == {".git/config": b"[core]\n"}
    assert contents(home) == {}

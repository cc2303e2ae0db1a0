"""Which system calls and sockets a confined command has, with each confinement method."""

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from buddy.targets.confine import seccomp
from buddy.targets.confine.target import Confined
from tests.targets.bpf import decide
from tests.targets.captured_output import CapturedOutput
from tests.targets.inspect_files import mode_of, run

CALLS = {
    "read the keyring": "libc.syscall(250, 6, -3, 0, 0)",
    "make a key": "libc.syscall(248, b'user', b'x', b'x', 1, -3)",
    "ask for a key": "libc.syscall(249, b'user', b'x', 0, -3)",
    "io_uring": "libc.syscall(425, 8, ctypes.create_string_buffer(120))",
    "a user namespace": "libc.unshare(0x10000000)",
    "a mount namespace": "libc.unshare(0x20000)",
    "a user namespace by clone": "libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "a mount": "libc.mount(b'none', b'/mnt', b'tmpfs', 0, None)",
    "another's namespace": "libc.setns(0, 0)",
    "eBPF": "libc.syscall(321, 0, None, 0)",
    "user faults": "libc.syscall(323, 0)",
    "files by handle": "libc.syscall(304, -100, None, 0)",
    "the clock": "libc.syscall(227, 0, None)",
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
async def test_calls_that_reach_beyond_the_sandbox_are_refused(confined: Confined, root: Path, nonce: str) -> None:
    lines = ["import ctypes", "libc = ctypes.CDLL(None, use_errno=True)"]
    lines += [f"print({name!r}, {call}, ctypes.get_errno())" for name, call in CALLS.items()]
    (root / "calls.py").write_text("\n".join(lines))
    _, output = await run(confined, f"{sys.executable} calls.py", root, nonce)
    assert output.splitlines() == [f"{name} -1 {errno.EPERM}" for name in CALLS]


@pytest.mark.parametrize("family", ["AF_VSOCK", "AF_ALG", "AF_PACKET", "AF_CAN", "AF_TIPC", "AF_QIPCRTR"])
@pytest.mark.parametrize("network", [False, True])
async def test_only_known_kinds_of_sockets_exist(
    confined: Confined, root: Path, nonce: str, family: str, network: bool
) -> None:
    number = getattr(socket, family, 40)
    target = confined.with_network() if network else confined
    program = f"import socket; [socket.socket({number}, kind) for kind in (1, 2, 3, 5)]"
    code, output = await run(target, f"{sys.executable} -c '{program}'", root, nonce)
    assert (code, "not permitted" in output) == (1, True)


async def test_a_command_that_needs_no_supervisor_has_the_same_filter(
    confined: Confined, root: Path, nonce: str
) -> None:
    code, output = await run(confined, "cat /proc/self/status", root, nonce)
    facts = dict(line.split(":\t", 1) for line in output.splitlines())
    assert (code, facts["Seccomp"], facts["NoNewPrivs"]) == (0, "2", "1")


async def test_a_search_waits_for_no_supervisor_and_keeps_the_filter(
    confined: Confined, root: Path, nonce: str
) -> None:
    search = confined.without_cgroups
    _, output = await run(search, "if true; then cat /proc/self/status; ls /proc; fi", root, nonce)
    assert "Seccomp:\t2" in output
    connect = "import socket; socket.socket(socket.AF_UNIX)"
    code, output = await run(search, f"{sys.executable} -c '{connect}'", root, nonce)
    assert (code, "not permitted" in output) == (1, True)


# --- the program, for each architecture ---


@pytest.fixture(params=seccomp.MACHINES)
def machine(request: pytest.FixtureRequest) -> seccomp.Machine:
    return seccomp.MACHINES[request.param]


REFUSED = seccomp.REFUSE | errno.EPERM


@pytest.mark.parametrize("supervised", [False, True])
def test_the_filter_decides_by_the_call_and_its_arguments(machine: seccomp.Machine, supervised: bool) -> None:
    program = seccomp.build_filter(machine, supervised=supervised)

    def ask(number: int, *arguments: int) -> int:
        return decide(program, machine.audit, number, *arguments)

    assert {ask(number) for number in machine.denied} == {REFUSED}
    assert ask(seccomp.CLONE3) == seccomp.REFUSE | errno.ENOSYS
    assert ask(machine.clone, 17) == ask(machine.clone, 0x3D0F00) == seccomp.ALLOW  # fork, and a thread
    assert ask(machine.clone, 0x10000000 | 17) == ask(machine.clone, 0x20000) == REFUSED
    assert ask(machine.unshare, 0x80) == ask(machine.unshare, 0x40000000) == REFUSED
    assert ask(machine.unshare, 0x400) == seccomp.ALLOW  # its own table of files
    assert ask(machine.ioctl, 0, 0x5412) == ask(machine.ioctl, 0, 0x5412 | 1 << 40) == REFUSED
    assert ask(machine.ioctl, 0, 0x5401) == seccomp.ALLOW
    assert ask(machine.socket, socket.AF_INET, 1) == ask(machine.socket, socket.AF_INET6, 2) == seccomp.ALLOW
    assert ask(machine.socket, 16, 3, 0) == seccomp.ALLOW
    assert ask(machine.socket, 16, 3, 9) == REFUSED  # auditing
    for kind, flag in ((1, 0), (5, 0o2000000), (1, 0o4000)):
        assert ask(machine.socket, socket.AF_UNIX, kind | flag) == (seccomp.ALLOW if supervised else REFUSED)
        assert ask(machine.socketpair, socket.AF_UNIX, kind | flag) == seccomp.ALLOW
    for kind in (2, 3, 2 | 0o2000000):
        assert ask(machine.socket, socket.AF_UNIX, kind) == ask(machine.socketpair, socket.AF_UNIX, kind) == REFUSED
    assert ask(machine.socketpair, socket.AF_INET, 1) == REFUSED
    assert {ask(machine.socket, family, 1) for family in range(50) if family not in (1, 2, 10, 16)} == {REFUSED}
    assert ask(machine.connect) == (seccomp.NOTIFY if supervised else seccomp.ALLOW)
    assert ask(0) == seccomp.ALLOW


def test_calls_of_another_architecture_end_the_process(machine: seccomp.Machine) -> None:
    program = seccomp.build_filter(machine, supervised=True)
    assert decide(program, 0x40000003, 102) == seccomp.KILL
    assert decide(program, machine.audit, 0x40000000 | 41) == seccomp.REFUSE | errno.ENOSYS


# --- sockets ---


OWN = """
import os, socket, threading
for path in (os.path.abspath('s1'), 's2', '/tmp/s3', '/dev/shm/s4', '\\0own'):
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    if path == 's2':
        os.rename('s2', 'moved')
        path = 'moved'
    client = socket.socket(socket.AF_UNIX)
    thread = threading.Thread(target=client.connect, args=(path,))
    thread.start()
    peer, _ = server.accept()
    thread.join()
    client.send(b'hello')
    print(peer.recv(10) == b'hello', end=' ')
print()
"""


async def test_its_own_sockets_work_wherever_they_are(confined: Confined, root: Path, nonce: str) -> None:
    (root / "own.py").write_text(OWN)
    assert await run(confined, f"{sys.executable} own.py", root, nonce) == (0, "True True True True True \n")
    whole = f"{sys.executable} own.py >part 2>&1; mv part out"
    nested = f"(setsid sh -c '{whole}' &); while [ ! -e out ]; do sleep 0.05; done; cat out"
    for name in ("s1", "moved"):
        (root / name).unlink()
    assert await run(confined, nested, root, nonce) == (0, "True True True True True \n")


KNOCK = """
import os, socket, sys, time
print('up', flush=True)
while not os.path.exists(sys.argv[1]) or not os.path.exists('go'):
    time.sleep(0.02)
for path in sys.argv[1:]:
    os.chdir(os.path.dirname(path))
    for name in (path, os.path.basename(path), '/proc/self/cwd/' + os.path.basename(path)):
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
            try:
                socket.socket(socket.AF_UNIX, kind).connect(name)
                print('through', name)
            except OSError:
                print('refused')
"""


@pytest.fixture
def outside() -> Generator[Path]:
    place = Path("/var/lib" if os.geteuid() == 0 else Path.home()) / f"buddy-test-{os.getpid()}"
    place.mkdir()
    yield place
    for path in place.iterdir():
        path.unlink()
    place.rmdir()


@pytest.mark.parametrize("network", [False, True])
async def test_sockets_of_others_do_not_answer_however_they_came_there(
    confined: Confined, root: Path, nonce: str, outside: Path, network: bool
) -> None:
    (root / "knock.py").write_text(KNOCK)
    target = confined.with_network() if network else confined
    taken = CapturedOutput()
    doors = [outside / "late", outside / "renamed", root / "near"]
    command = f"{sys.executable} knock.py {' '.join(map(str, doors))}"
    running = asyncio.create_task(target.run(command, cwd=str(root), nonce=nonce, on_output=taken))
    await taken.wait_for(b"up")
    held = Path.cwd()
    servers: list[socket.socket] = []
    for door in doors:
        os.chdir(door.parent)  # also bound by a relative path
        server = socket.socket(socket.AF_UNIX)
        server.bind("first" if door.name == "renamed" else door.name)
        server.listen()
        servers.append(server)
    os.chdir(held)
    (outside / "first").rename(outside / "renamed")
    (root / "go").touch()
    await running
    for server in servers:
        server.close()
    assert taken.output["stdout"].decode() == "up\n" + "refused\n" * 27, taken.output


async def test_an_abstract_socket_does_not_answer_a_command_with_network(
    confined: Confined, root: Path, nonce: str
) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{nonce}")
        server.listen()
        program = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + '{nonce}')"
        code, output = await run(confined.with_network(), f'{sys.executable} -c "{program}"', root, nonce)
    assert (code, "rror" in output) == (1, True)


async def test_the_supervisor_cannot_be_traced_or_replaced(confined: Confined, root: Path, nonce: str) -> None:
    program = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); above = os.getppid()\n"
        "while above:\n"
        "    status = open(f'/proc/{above}/status').read().split()\n"
        "    if status[1].startswith('python'):\n"
        "        for name in ('mem', 'environ', 'maps', 'fd/0'):\n"
        "            try: open(f'/proc/{above}/{name}', 'rb').read(1); print('opened', name)\n"
        "            except OSError: print('refused')\n"
        "        print(libc.ptrace(16, above, 0, 0))\n"
        "    above = int(status[status.index('PPid:') + 1])\n"
    )
    (root / "trace.py").write_text(program)
    code, output = await run(confined, f"{sys.executable} trace.py; true", root, nonce)
    assert (code, output) == (0, "refused\nrefused\nrefused\nrefused\n-1\n")


async def test_modes_of_kernel_files_cannot_be_changed(confined: Confined, root: Path, nonce: str) -> None:
    before = mode_of("/proc/version")
    code, _ = await run(confined, "sh -c 'chmod 600 /proc/version'", root, nonce)
    assert (code != 0, mode_of("/proc/version")) == (True, before)

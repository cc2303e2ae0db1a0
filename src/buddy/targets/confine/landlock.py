"""Confine this process with namespaces and Landlock, then become the command: `main([HOW, *PLAN, CWD, *ARGV])`.

`isolate` and `run` do the same in two steps, so that the namespaces can be made before the command is known.

Invariants: either every step succeeded or the command is not started (exit 126, and why on stderr). It uses the
standard library alone, because it runs without any other, and as little of it as `supervisor.py`.
"""

import ctypes
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import NoReturn

NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
AT_FDCWD, AT_RECURSIVE, ATTR_RDONLY = -100, 0x8000, 1
# The same on every architecture, as for all newer system calls.
MOUNT_SETATTR, CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 442, 444, 445, 446
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
MODE_FILTER = 2
AF_INET, DATAGRAM, SET_FLAGS, IS_UP = 2, 2, 0x8914, 1
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
# Everything that changes something: writing, removing, creating of each kind, linking across, truncating.
CHANGES = WRITE_FILE | sum(1 << bit for bit in range(4, 14)) | TRUNCATE
WANTED_ABI = 3

HANGUP, INTERRUPT, KILL, PIPE, TERMINATE, FILE_SIZE = 1, 2, 9, 13, 15, 25
DEFAULT, IGNORE = 0, 1

_libc = ctypes.CDLL(None, use_errno=True)


class Request:
    """What to run, from the words that `methods.py` makes of a plan and a command: each list begins with its length."""

    def __init__(self, words: "Sequence[str]") -> None:
        left = iter(words)
        self.is_supervised = next(left) == "supervised"
        self.root = next(left)
        self.network = next(left) == "network"
        self.is_reading = next(left) == "reading"
        self.files_bytes = int(next(left))
        self.filter = bytes.fromhex(next(left))
        self.private, self.visible, self.pins, self.readonly, self.hidden = (_read_list(left) for _ in range(5))
        self.cwd = next(left)
        self.argv = list(left)


def _read_list(words: "Iterator[str]") -> "list[str]":
    return [next(words) for _ in range(int(next(words)))]


def main(words: "Sequence[str]", supervise: "Callable[[Sequence[str]], NoReturn]") -> "NoReturn":
    """`supervise` runs the command if HOW is `supervised`; otherwise it has a filter of its own."""
    network = Request(words).network
    try:
        child = isolate(os.getppid(), network=network)
    except OSError as error:
        refuse(error)
    if child:
        pass_on(child)
    run(words, supervise, network=network)


def isolate(parent: int, *, network: bool) -> int:
    """Fork a process in new namespaces, of which it is the first; both end when `parent` does.

    Returns 0 in that process, and its pid in this one, which has to `pass_on` its end.
    """
    _unshare(network=network)
    _check(_libc.prctl(PR_SET_PDEATHSIG, KILL, 0, 0, 0), "die with the parent")  # a new user namespace forgets it
    if os.getppid() != parent:
        os._exit(126)
    child = os.fork()
    if child == 0:
        _check(_libc.prctl(PR_SET_PDEATHSIG, KILL, 0, 0, 0), "die with the parent")
    return child


def run(words: "Sequence[str]", supervise: "Callable[[Sequence[str]], NoReturn]", *, network: bool) -> "NoReturn":
    """Confine this process, which was isolated with or without the `network`, and become the command."""
    try:
        request = Request(words)
        _confine(request, network=network)
        if request.is_supervised:
            supervise(request.argv)
        # The first process of a namespace ignores signals and adopts orphans, so the command is the second.
        child = os.fork()
        if child:
            _reap(child)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        for ignored in (PIPE, FILE_SIZE):  # by Python; what this becomes should not
            _libc.signal(ignored, DEFAULT)
        os.execvp(request.argv[0], request.argv)  # noqa: S606 - what it was asked to become
    except OSError as error:
        refuse(error)


def _confine(request: Request, *, network: bool) -> None:
    if request.network != network:
        raise OSError(0, "the process that waited has another network")
    _check(_libc.unshare(NEWNS), "make a namespace of mounts")
    _mount_all(request)
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _set_readonly("/proc", on=True)  # Landlock does not stop root from changing modes, which the machine shares
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    _landlock(request)
    _drop_capabilities()
    os.chdir(request.cwd)
    if request.filter:
        _filter_calls(request.filter)
    # Nobody inside can trace this process, which has no filter if it becomes the supervisor.
    _check(_libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "be untraceable")


def _unshare(*, network: bool) -> None:
    uid, gid = os.geteuid(), os.getegid()
    flags = NEWIPC | NEWPID | (0 if network else NEWNET) | (NEWUSER if uid else 0)
    _check(_libc.unshare(flags), "make namespaces")
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 - no pathlib in here
                file.write(text)
    if not network:
        _start_loopback()


def _start_loopback() -> None:
    """Bring up the only interface of a new network namespace, if that is allowed; without it, less is possible."""
    any_socket = _check(_libc.socket(AF_INET, DATAGRAM, 0), "make a socket")
    _libc.ioctl(any_socket, ctypes.c_ulong(SET_FLAGS), struct.pack("16sh22x", b"lo", IS_UP))
    os.close(any_socket)


def _mount_all(request: Request) -> None:
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    # Opened before their parents are mounted over.
    root, *visible = (os.open(place, os.O_PATH | os.O_DIRECTORY) for place in (request.root, *request.visible))
    _set_readonly("/", on=True, recursive=True)
    size = b"size=%d" % request.files_bytes
    _mount_devices(size)
    for place in filter(os.path.isdir, request.private):
        _mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, size)
    for place, opened in zip(request.visible, visible, strict=True):
        _show(opened, place)
        _set_readonly(place, on=True)
    below = f"{request.root}/"
    _hide([place for place in request.hidden if not place.startswith(below)])
    _show(root, request.root)
    _set_readonly(request.root, on=request.is_reading)
    _hide([place for place in request.hidden if place.startswith(below)])
    for place in (*request.pins, *request.readonly):
        _mount(place, place, None, MS_BIND)
        _set_readonly(place, on=place in request.readonly)


def _show(opened: int, place: str) -> None:
    """Mount an opened file or directory at its own path again."""
    if not os.path.isdir(place):  # noqa: PTH112 - no pathlib in here
        os.makedirs(place)  # noqa: PTH103 - no pathlib in here
    _mount(f"/proc/self/fd/{opened}", place, None, MS_BIND | MS_REC)
    os.close(opened)


def _mount_devices(size: bytes) -> None:
    """A private /dev: without disks, other terminals and shared memory."""
    held = {name: os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES if os.path.exists(f"/dev/{name}")}  # noqa: PTH110 - no pathlib in here
    # Not world-writable with the sticky bit, the default: `>/dev/null` would fail for anyone but root.
    _mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, b"mode=0755")
    for name, opened in held.items():
        os.close(os.open(f"/dev/{name}", os.O_CREAT | os.O_WRONLY))
        _mount(f"/proc/self/fd/{opened}", f"/dev/{name}", None, MS_BIND)
        # It can be written nevertheless, but not be given another mode or owner, which this machine's would have, too.
        _set_readonly(f"/dev/{name}", on=True)
        os.close(opened)
    for name, target in LINKS.items():
        os.symlink(target, f"/dev/{name}")  # noqa: PTH211 - no pathlib in here
    os.mkdir("/dev/pts")  # noqa: PTH102 - no pathlib in here
    _mount("devpts", "/dev/pts", "devpts", MS_NOSUID, b"newinstance,ptmxmode=0666,mode=620")
    os.mkdir("/dev/shm")  # noqa: PTH102, S108 - no pathlib in here
    _mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, size)  # noqa: S108 - a mount of its own
    _set_readonly("/dev", on=True)


def _hide(places: "Sequence[str]") -> None:
    for place in filter(os.path.isdir, places):
        _mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV | MS_RDONLY)


def _mount(source: str, place: str, kind: str | None, flags: int, data: bytes | None = None) -> None:
    named = None if kind is None else kind.encode()
    done = _libc.mount(os.fsencode(source), os.fsencode(place), named, ctypes.c_ulong(flags), data)
    _check(done, f"mount {place}")


def _set_readonly(place: str, *, on: bool, recursive: bool = False) -> None:
    _set_attributes(place, ATTR_RDONLY if on else 0, 0 if on else ATTR_RDONLY, AT_RECURSIVE if recursive else 0)


def _set_attributes(place: str, added: int, removed: int, flags: int = 0) -> None:
    request = struct.pack("QQQQ", added, removed, 0, 0)
    _check(_libc.syscall(MOUNT_SETATTR, AT_FDCWD, os.fsencode(place), flags, request, len(request)), f"protect {place}")


def _landlock(request: Request) -> None:
    abi = _libc.syscall(CREATE_RULESET, None, 0, 1)
    if abi < WANTED_ABI:
        raise OSError(0, f"Landlock {WANTED_ABI} or newer is needed, this kernel has {abi}")
    # No rules for TCP: without network, there is a namespace for it. With newer kernels, neither abstract sockets nor
    # signals reach beyond this process and its children.
    ruleset = struct.pack("QQQ", CHANGES, 0, 3) if abi >= 6 else struct.pack("Q", CHANGES)
    rules = _check(_libc.syscall(CREATE_RULESET, ruleset, len(ruleset), 0), "make Landlock rules")
    for place in (request.root, *request.private, "/dev/pts", "/dev/shm"):  # noqa: S108 - a mount of its own
        _allow(rules, place, CHANGES)
    for name in DEVICES:
        _allow(rules, f"/dev/{name}", WRITE_FILE | TRUNCATE)
    _check(_libc.syscall(RESTRICT_SELF, rules, 0), "apply Landlock rules")
    os.close(rules)


def _allow(rules: int, place: str, rights: int) -> None:
    try:
        opened = os.open(place, os.O_PATH)
    except FileNotFoundError:
        return
    _check(_libc.syscall(ADD_RULE, rules, 1, struct.pack("=Qi", rights, opened), 0), f"allow {place}")
    os.close(opened)


def _filter_calls(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    request = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(code))
    _check(_libc.prctl(PR_SET_SECCOMP, MODE_FILTER, request, 0, 0), "filter system calls")


def _drop_capabilities() -> None:
    for number in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            break  # there are no more
    head, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    _check(_libc.capset(head, none), "drop capabilities")


def pass_on(child: int) -> "NoReturn":
    """Wait for the command; a signal that ends this process ends it and its entire namespace."""
    for number in (TERMINATE, INTERRUPT, HANGUP):
        _libc.signal(number, IGNORE)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _reap(child: int) -> "NoReturn":
    """Wait for the command; when this process ends, so does the rest of the namespace."""
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def refuse(error: OSError) -> "NoReturn":
    sys.stderr.write(f"the command could not be confined: {error.strerror or error}\n")
    sys.stderr.flush()
    os._exit(126)

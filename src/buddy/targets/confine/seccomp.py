"""The system calls that a confined command cannot make, as a program for the kernel's filter.

Invariants: calls of another architecture end the process; sockets have one of the listed families; Unix sockets are
streams, because only these are connected by a single call: it is refused, or left to `supervisor.py`.
"""

import errno
import platform
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LOAD, EQUAL, AT_LEAST, ANY_OF, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
ALLOW, REFUSE, NOTIFY, KILL = 0x7FFF0000, 0x00050000, 0x7FC00000, 0x80000000
X32 = 0x40000000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
STREAM, SEQPACKET, TYPE_BITS = 1, 5, 0xF
NETLINK_ROUTE, NETLINK_SOCK_DIAG = 0, 4
# Every kind of namespace; NEWTIME shares its bit with the exit signal of `clone`, so it is added for `unshare` alone.
NAMESPACES, NEWTIME = 0x7E020000, 0x80
# Typing into a terminal, and the console's own way to do it.
TERMINAL_INPUT = (0x5412, 0x541C)


class Machine(NamedTuple):
    """The kernel's name of an architecture and its numbers for the calls that are filtered."""

    audit: int
    clone: int
    unshare: int
    socket: int
    socketpair: int
    connect: int
    ioctl: int
    seccomp: int
    denied: tuple[int, ...]


CLONE3, IO_URING_SETUP = 435, 425
# Newer calls have one number everywhere: io_uring, the calls that make mounts, descriptors of others, quotas.
_NEWER = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443, 467)
# In both: the keyring (3), user faults, BPF, perf; mounts (2), roots (2), setns, files by handle; kexec (2),
# modules (3), reboot, swap (2), accounting, quotas; the clock (3), the kernel's log, kcmp, fanotify, hangup.
_X86_64 = (
    *(248, 249, 250, 323, 321, 298, 165, 166, 155, 161, 308, 304, 246, 320, 175, 313, 176, 169, 167, 168, 163, 179),
    *(164, 227, 305, 103, 312, 300, 153),
    *(134, 139, 154, 156, 172, 173, 174, 180, 212),  # only here: ports, segments, and what old kernels had
)
_AARCH64 = (
    *(217, 218, 219, 282, 280, 241, 40, 39, 41, 51, 268, 265, 104, 294, 105, 273, 106, 142, 224, 225, 89, 60),
    *(170, 112, 266, 116, 272, 262, 58),
    *(18, 42),
)
MACHINES = {
    "x86_64": Machine(0xC000003E, 56, 272, 41, 53, 42, 16, 317, (*_X86_64, *_NEWER)),
    "aarch64": Machine(0xC00000B7, 220, 97, 198, 199, 203, 29, 277, (*_AARCH64, *_NEWER)),
}

Step = tuple[int, int, int, int]


def this_machine() -> Machine | None:
    """None if there is no filter for this architecture: then nothing can be confined."""
    return MACHINES.get(platform.machine())


def build_filter(machine: Machine, *, supervised: bool) -> bytes:
    """If `supervised`, each connect is left to the supervisor; if not, there are no Unix sockets but pairs."""
    steps: list[Step] = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, machine.audit), (RETURN, 0, 0, KILL)]
    steps += [(LOAD, 0, 0, NUMBER), *_if(AT_LEAST, X32, [_refuse(errno.ENOSYS)])]
    for number in machine.denied:
        steps += _if(EQUAL, number, [_refuse(errno.EPERM)])
    # Its flags are behind a pointer; the C library then uses `clone`.
    steps += _if(EQUAL, CLONE3, [_refuse(errno.ENOSYS)])
    for number, flags in ((machine.clone, NAMESPACES), (machine.unshare, NAMESPACES | NEWTIME)):
        steps += _if(EQUAL, number, [_argument(0), *_if(ANY_OF, flags, [_refuse(errno.EPERM)]), _return(ALLOW)])
    typing = [step for request in TERMINAL_INPUT for step in _if(EQUAL, request, [_refuse(errno.EPERM)])]
    steps += _if(EQUAL, machine.ioctl, [_argument(1), *typing, _return(ALLOW)])
    steps += _if(EQUAL, machine.socket, list(_socket(supervised=supervised)))
    steps += _if(EQUAL, machine.socketpair, [_argument(0), *_unless_equal(AF_UNIX), *_stream_type()])
    if supervised:
        steps += _if(EQUAL, machine.connect, [_return(NOTIFY)])
    steps.append(_return(ALLOW))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _socket(*, supervised: bool) -> Iterator[Step]:
    yield _argument(0)
    for family in (AF_INET, AF_INET6):
        yield from _if(EQUAL, family, [_return(ALLOW)])
    routes = [step for kind in (NETLINK_ROUTE, NETLINK_SOCK_DIAG) for step in _if(EQUAL, kind, [_return(ALLOW)])]
    yield from _if(EQUAL, AF_NETLINK, [_argument(2), *routes, _refuse(errno.EPERM)])
    if supervised:
        yield from _if(EQUAL, AF_UNIX, list(_stream_type()))
    yield _refuse(errno.EPERM)


def _stream_type() -> Iterator[Step]:
    """Allow streams: a datagram can be sent anywhere by calls whose address no filter can see."""
    yield _argument(1)
    yield (0x54, 0, 0, TYPE_BITS)
    for kind in (STREAM, SEQPACKET):
        yield from _if(EQUAL, kind, [_return(ALLOW)])
    yield _refuse(errno.EPERM)


def _if(test: int, value: int, steps: Sequence[Step]) -> list[Step]:
    return [(test, 0, len(steps), value), *steps]


def _unless_equal(value: int) -> list[Step]:
    return [(EQUAL, 1, 0, value), _refuse(errno.EPERM)]


def _argument(index: int) -> Step:
    """Its lower half, which is all that the filtered calls use; both architectures store it first."""
    return (LOAD, 0, 0, ARGUMENTS + 8 * index)


def _return(action: int) -> Step:
    return (RETURN, 0, 0, action)


def _refuse(error: int) -> Step:
    return _return(REFUSE | error)

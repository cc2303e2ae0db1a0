"""Run a command under a filter and connect its sockets for it.

It runs inside the confinement, as the parent of the command: `main([FILTER, SECCOMP, PLACES, NETWORK, LIMITS, *ARGV])`.

Invariants: a path is resolved once, here, and what it was resolved to is what gets connected, so that nothing can be
swapped in between; a Unix socket is connected only if it was bound inside the same confinement; nothing is imported
once the command has begun, which may have changed the file. Each command waits for this process to start, so it imports
little: what `signal`, `socket` and `threading` would do is asked of the C library, as they take as long as Python.
"""

import _thread  # noqa: TID251 - documented, and `threading` takes a quarter of the time until the command starts
import ctypes
import errno
import fcntl
import os
import resource
import select
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import NoReturn

_libc = ctypes.CDLL(None, use_errno=True)


def _function(name: str) -> "Callable[..., int]":
    found = getattr(_libc, name)
    found.restype = ctypes.c_long
    return found


# The kernel's interface; sizes and numbers are the same on every architecture.
SET_MODE_FILTER, NEW_LISTENER = 1, 8
RECEIVE, SEND, IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
NOTIFICATION, CONNECT_CALL = 80, struct.Struct("=QIIiIQQQQ")
PIDFD_GETFD = 438
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, SHOW_VFS, VFS_ATTRIBUTE = 20, 0x301, 2, 1
AF_UNIX, AF_NETLINK, NETLINK_SOCK_DIAG = 1, 16, 4
STREAM, RAW, CLOSE_ON_EXEC = 1, 3, 0o2000000
SOL_SOCKET, SO_DOMAIN, SCM_RIGHTS = 1, 39, 1
HANGUP, INTERRUPT, PIPE, TERMINATE, FILE_SIZE = 1, 2, 13, 15, 25
DEFAULT, IGNORE = 0, 1
# A message without an address: one part, one control message, no flags.
MESSAGE, PART, CONTROL = struct.Struct("@QI4xQQQQi4x"), struct.Struct("@QQ"), struct.Struct("@QIIi4x")
TYPE_BITS, SOCKET_TYPE = 0o170000, 0o140000
MAX_ADDRESS = 128
MAX_WAITING = 64
LOOK_AGAIN_MS = 1000


_syscall = _function("syscall")
_prctl = _function("prctl")
_signal = _function("signal")
_libc_connect = _function("connect")
_socket = _function("socket")
_socketpair = _function("socketpair")
_getsockopt = _function("getsockopt")
_sendmsg = _function("sendmsg")
_recvmsg = _function("recvmsg")


class Supervisor:
    """`places` are directories that only this confinement can see; `network` if others share its abstract names."""

    def __init__(self, listener: int, places: "Sequence[str]", *, network: bool) -> None:
        self.listener = listener
        self._private = {os.stat(place).st_dev for place in places if os.path.isdir(place)}  # noqa: PTH112, PTH116 - no pathlib in here
        self._network = network
        self._waiting = 0

    def serve(self) -> None:
        """Answer one call."""
        notification = bytearray(NOTIFICATION)
        try:
            fcntl.ioctl(self.listener, RECEIVE, notification)
        except OSError:
            return  # the caller is gone
        call, thread, _, _, _, _, number, address, size = CONNECT_CALL.unpack_from(notification)
        try:
            ours = _take_descriptor(thread, number)
        except OSError as error:
            self._answer(call, error.errno or errno.EACCES)
            return
        is_patient = not fcntl.fcntl(ours, fcntl.F_GETFL) & os.O_NONBLOCK
        if is_patient and self._waiting < MAX_WAITING:
            self._waiting += 1
            _thread.start_new_thread(self._connect_later, (call, thread, ours, address, size))
        else:
            # If too many wait, it has to try again.
            self._answer(call, errno.EAGAIN if is_patient else self._connect(call, thread, ours, address, size))
            os.close(ours)

    def _connect_later(self, call: int, thread: int, ours: int, address: int, size: int) -> None:
        self._answer(call, self._connect(call, thread, ours, address, size))
        os.close(ours)
        self._waiting -= 1

    def _connect(self, call: int, thread: int, ours: int, address: int, size: int) -> int:
        """The error number, 0 for none."""
        try:
            name = _read_memory(thread, address, min(size, MAX_ADDRESS))
            # The thread may have ended, and another have its number: then this was the wrong memory.
            fcntl.ioctl(self.listener, IS_VALID, struct.pack("=Q", call))
            if _domain_of(ours) != AF_UNIX or len(name) <= 2:
                return _connect(ours, name)
            if name[2] == 0:
                return errno.ECONNREFUSED if self._network else _connect(ours, name)
            return self._connect_path(thread, ours, name[2:].partition(b"\0")[0])
        except OSError as error:
            return error.errno or errno.EACCES

    def _connect_path(self, thread: int, ours: int, path: bytes) -> int:
        base = b"" if path.startswith(b"/") else b"/proc/%d/cwd/" % thread
        door = os.open(base + path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not self._is_own(door):
                return errno.ECONNREFUSED
            return _connect(ours, struct.pack("=H", AF_UNIX) + b"/proc/self/fd/%d\0" % door)
        finally:
            os.close(door)

    def _is_own(self, door: int) -> bool:
        info = os.fstat(door)
        if info.st_mode & TYPE_BITS != SOCKET_TYPE:
            return False
        if info.st_dev in self._private:
            return True
        # A network namespace of its own lists its own sockets alone.
        return not self._network and (info.st_ino & 0xFFFFFFFF, _device_of(door)) in set(_bound_sockets())

    def _answer(self, call: int, error: int) -> None:
        try:
            fcntl.ioctl(self.listener, SEND, bytearray(struct.pack("=QqiI", call, 0, -error, 0)))
        except OSError:
            return  # the caller is gone


def main(words: "Sequence[str]") -> "NoReturn":
    program, number, places, network, limits, *argv = words
    ours, theirs = _make_pair()
    child = os.fork()
    if child == 0:
        _limit(*map(int, limits.split(":")))
        _become(theirs, bytes.fromhex(program), int(number), argv)
    os.close(theirs)
    for ignored in (TERMINATE, INTERRUPT, HANGUP):
        _signal(ignored, IGNORE)
    # Nobody inside can trace this process, and the children of the command stay below it, so that it can look at them.
    _prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    listener = _receive_descriptor(ours)
    os.close(ours)
    if listener is not None:
        _follow(child, Supervisor(listener, places.split(":"), network=network == "network"))
    _exit_as(os.waitpid(child, 0)[1])


def _follow(child: int, supervisor: Supervisor) -> "NoReturn":
    news = select.poll()
    news.register(supervisor.listener, select.POLLIN)
    ended = os.pidfd_open(child)
    news.register(ended, select.POLLIN)
    while True:
        for opened, what in news.poll(LOOK_AGAIN_MS):
            if opened == ended:
                _exit_as(os.waitpid(child, 0)[1])
            if what & select.POLLIN:
                supervisor.serve()
            else:
                news.unregister(opened)
        _bury(child)


def _bury(child: int) -> None:
    """Reap what the command left to this process, but not the command itself."""
    while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and found.si_pid != child:
        os.waitpid(found.si_pid, 0)


def _become(theirs: int, program: bytes, number: int, argv: "Sequence[str]") -> "NoReturn":
    try:
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        listener = install_filter(program, number, NEW_LISTENER)
        _send_descriptor(theirs, listener)
        os.close(listener)
        os.close(theirs)
        for ignored in (PIPE, FILE_SIZE):  # by Python; what this becomes should not
            _signal(ignored, DEFAULT)
        os.execvp(argv[0], list(argv))  # noqa: S606 - what it was asked to become
    except OSError as error:
        sys.stderr.write(f"the command could not be confined: {error.strerror or error}\n")
        sys.stderr.flush()
        os._exit(126)


def _limit(processes: int, memory: int) -> None:
    """What no control group limits: the number of processes, and the memory of each; 0 is no limit."""
    for what, value in ((resource.RLIMIT_NPROC, processes), (resource.RLIMIT_DATA, memory)):
        most = resource.getrlimit(what)[1]
        if value and (most == resource.RLIM_INFINITY or value < most):
            resource.setrlimit(what, (value, value))


def install_filter(program: bytes, number: int, flags: int = 0) -> int:
    """Apply a filter to this process and its children; `number` is that of the system call."""
    pointer = memoryview(ctypes.c_char_p(program)).cast("B").tobytes()
    request = struct.pack("=H6x", len(program) // 8) + pointer
    done: int = _syscall(number, SET_MODE_FILTER, flags, request)
    if done < 0:
        raise _error("filter system calls")
    return done


def _take_descriptor(thread: int, number: int) -> int:
    process = os.pidfd_open(_process_of(thread))
    try:
        ours: int = _syscall(PIDFD_GETFD, process, number & 0x7FFFFFFF, 0)
    finally:
        os.close(process)
    if ours < 0:
        raise _error("use the socket")
    return ours


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status", "rb") as file:  # noqa: PTH123 - no pathlib in here
        return next(int(line[5:]) for line in file if line.startswith(b"Tgid:"))


def _read_memory(thread: int, address: int, size: int) -> bytes:
    opened = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(opened, size, address)
    finally:
        os.close(opened)


def _make_pair() -> "tuple[int, int]":
    """Two ends of a connection, which no program that is started gets."""
    pair = (ctypes.c_int * 2)()
    if _socketpair(AF_UNIX, STREAM | CLOSE_ON_EXEC, 0, pair) < 0:
        raise _error("make a connection")
    return pair[0], pair[1]


def _send_descriptor(end: int, descriptor: int) -> None:
    with_room = ctypes.create_string_buffer(CONTROL.pack(20, SOL_SOCKET, SCM_RIGHTS, descriptor), CONTROL.size)
    if _exchange(_sendmsg, end, with_room) < 0:
        raise _error("pass on the filter")


def _receive_descriptor(end: int) -> "int | None":
    """None if the other end was closed without one."""
    with_room = ctypes.create_string_buffer(CONTROL.size)
    if _exchange(_recvmsg, end, with_room) <= 0:
        return None
    _, level, kind, descriptor = CONTROL.unpack(with_room.raw)
    return descriptor if (level, kind) == (SOL_SOCKET, SCM_RIGHTS) else None


def _exchange(call: "Callable[..., int]", end: int, control: "ctypes.Array[ctypes.c_char]") -> int:
    """Send or receive one byte and a control message."""
    byte = ctypes.create_string_buffer(b"x", 1)
    part = ctypes.create_string_buffer(PART.pack(ctypes.addressof(byte), 1), PART.size)
    places = ctypes.addressof(part), 1, ctypes.addressof(control), len(control)
    message = ctypes.create_string_buffer(MESSAGE.pack(0, 0, *places, 0), MESSAGE.size)
    return call(end, message, 0)


def _domain_of(ours: int) -> int:
    found, size = ctypes.c_int(), ctypes.c_uint(4)
    if _getsockopt(ours, SOL_SOCKET, SO_DOMAIN, ctypes.byref(found), ctypes.byref(size)) < 0:
        raise _error("look at the socket")
    return found.value


def _connect(ours: int, name: bytes) -> int:
    return 0 if _libc_connect(ours, name, len(name)) == 0 else ctypes.get_errno()


def _device_of(door: int) -> int:
    """The kernel's own number of its file system, which `stat` does not always give."""
    with open(f"/proc/self/fdinfo/{door}", "rb") as file:  # noqa: PTH123 - no pathlib in here
        mount = next(line.split()[1] for line in file if line.startswith(b"mnt_id:"))
    with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123 - no pathlib in here
        major, minor = next(line.split()[2].split(b":") for line in file if line.split()[0] == mount)
    return int(major) << 20 | int(minor)


def _bound_sockets() -> "Iterator[tuple[int, int]]":
    """The inode and device of each socket of this network namespace that has a place in the file system."""
    kernel = _socket(AF_NETLINK, RAW | CLOSE_ON_EXEC, NETLINK_SOCK_DIAG)
    if kernel < 0:
        raise _error("list the sockets")
    any_state = 0xFFFFFFFF
    request = struct.pack("=BBHIIIII", AF_UNIX, 0, 0, any_state, 0, SHOW_VFS, 0xFFFFFFFF, 0xFFFFFFFF)
    try:
        os.write(kernel, struct.pack("=IHHII", 16 + len(request), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 1, 0) + request)
        while True:
            answer = os.read(kernel, 1 << 16)
            while len(answer) >= 16:
                size, kind = struct.unpack_from("=IH", answer)
                if kind != SOCK_DIAG_BY_FAMILY:
                    return  # the end, or an error
                yield from _places_of(answer[32:size])
                answer = answer[(size + 3) & ~3 :]
    finally:
        os.close(kernel)


def _places_of(attributes: bytes) -> "Iterator[tuple[int, int]]":
    while len(attributes) >= 4:
        size, kind = struct.unpack_from("=HH", attributes)
        if kind == VFS_ATTRIBUTE:
            yield struct.unpack_from("=II", attributes, 4)
        attributes = attributes[max((size + 3) & ~3, 4) :]


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def _exit_as(status: int) -> "NoReturn":
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)

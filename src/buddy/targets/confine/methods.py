"""The methods of confining a command, in order of preference, and the filter of system calls that both use."""

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import msgspec

from buddy.targets.confine import bubblewrap, seccomp
from buddy.targets.confine.limits import resource_limits
from buddy.targets.confine.policy import OWN_CODE, Plan

Wrap = Callable[[Plan, Sequence[str], str], list[str]]
# Imported, not run as files: so their bytecode is kept.
_OWN = "import sys; sys.path.append(sys.argv[1]); "
_START = (sys.executable, "-I", "-S", "-c")
SUPERVISE = (*_START, _OWN + "from supervisor import main; main(sys.argv[2:])", OWN_CODE)
# Landlock's helper is Python already, so it becomes the supervisor instead of starting it, and opens the empty input.
_CONFINE = "from landlock import main; from supervisor import main as supervise; main(sys.argv[2:], supervise)"
LANDLOCK = (*_START, _OWN + _CONFINE, OWN_CODE)
FORK_SERVER = (*_START, _OWN + "from fork_server import serve; serve()", OWN_CODE)
"""Forks such processes ahead of commands."""

MAX_FILTER = 1 << 16
# The supervisor does the same.
NO_INPUT = ("/bin/sh", "-c", 'exec "$@" </dev/null', "sh")


def _with_landlock(plan: Plan, argv: Sequence[str], cwd: str) -> list[str]:
    if plan.filter is not None:
        return [*LANDLOCK, "plain", *_plan_words(plan), cwd, *argv]
    return [*LANDLOCK, "supervised", *_plan_words(plan), cwd, *_supervisor_words(plan), *argv]


def _with_bubblewrap(plan: Plan, argv: Sequence[str], cwd: str) -> list[str]:
    outer = NO_INPUT if plan.filter is not None else (*SUPERVISE, *_supervisor_words(plan))
    return bubblewrap.wrap(plan, [*outer, *argv], cwd)


def _plan_words(plan: Plan) -> list[str]:
    words = [plan.root, "network" if plan.network else "none", "reading" if plan.is_reading else "writing"]
    words += [str(plan.files_bytes), "" if plan.filter is None else os.pread(plan.filter, MAX_FILTER, 0).hex()]
    for places in (plan.private, plan.visible, plan.pins, plan.readonly, plan.hidden):
        words += [str(len(places)), *places]
    return words


LANDLOCK_METHOD = "landlock"
# The fastest first: its helper waits for the next command (`standby.py`), so nothing has to start.
METHODS: dict[str, Wrap] = {LANDLOCK_METHOD: _with_landlock, "bubblewrap": _with_bubblewrap}


def confine(how: str, plan: Plan, argv: Sequence[str], cwd: str) -> list[str]:
    """The command line that runs `argv` confined: under the filter of the plan, or with a supervisor of its sockets."""
    return METHODS[how](plan, argv, cwd)


@contextmanager
def empty_file() -> Generator[int]:
    """What a command reads until it has its own `/dev/null`: root could change the mode of this machine's."""
    opened = os.memfd_create("nothing")
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def simple_filter(plan: Plan) -> Generator[Plan]:
    """The plan for a command that needs no sockets, and so no supervisor: with an open file to be passed on."""
    opened = os.memfd_create("filter")
    try:
        os.pwrite(opened, seccomp.build_filter(_machine(), supervised=False), 0)
        yield msgspec.structs.replace(plan, filter=opened)
    finally:
        os.close(opened)


def _supervisor_words(plan: Plan) -> list[str]:
    machine = _machine()
    program = seccomp.build_filter(machine, supervised=True).hex()
    network = "network" if plan.network else "none"
    limits = ":".join(map(str, resource_limits()))
    return [program, str(machine.seccomp), ":".join(plan.private), network, limits]


def _machine() -> seccomp.Machine:
    machine = seccomp.this_machine()
    if machine is None:
        raise OSError(
            f"there is no filter of system calls for this architecture, only for {', '.join(seccomp.MACHINES)}"
        )
    return machine

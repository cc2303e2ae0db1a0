"""The methods of confining a command, in order of preference, and the filter of system calls that both use."""

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from buddy.targets.confine import bubblewrap, seccomp
from buddy.targets.confine.limits import resource_limits
from buddy.targets.confine.policy import OWN_CODE, Plan

Wrap = Callable[[Plan, Sequence[str], str], list[str]]
START = "import sys; sys.path.append(sys.argv[1]); from supervisor import main; main(sys.argv[2:])"

# The supervisor does the same.
NO_INPUT = ("/bin/sh", "-c", 'exec "$@" </dev/null', "sh")


def wrap_with_landlock(plan: Plan, argv: Sequence[str], cwd: str) -> list[str]:
    helper = Path(__file__).with_name("landlock.py")
    return [sys.executable, "-I", "-S", str(helper), msgspec.json.encode(plan).decode(), cwd, "--", *argv]


METHODS: dict[str, Wrap] = {"bubblewrap": bubblewrap.wrap, "landlock": wrap_with_landlock}


def confine(how: str, plan: Plan, argv: Sequence[str], cwd: str) -> list[str]:
    """The command line that runs `argv` confined: under the filter of the plan, or with a supervisor of its sockets."""
    inner = [*NO_INPUT, *argv] if plan.filter is not None else _supervise(plan, argv)
    return METHODS[how](plan, inner, cwd)


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


def _supervise(plan: Plan, argv: Sequence[str]) -> list[str]:
    machine = _machine()
    program = seccomp.build_filter(machine, supervised=True).hex()
    network = "network" if plan.network else "none"
    limits = ":".join(map(str, resource_limits()))
    words = (OWN_CODE, program, str(machine.seccomp), ":".join(plan.private), network, limits)
    return [sys.executable, "-I", "-S", "-c", START, *words, *argv]


def _machine() -> seccomp.Machine:
    machine = seccomp.this_machine()
    if machine is None:
        raise OSError(
            f"there is no filter of system calls for this architecture, only for {', '.join(seccomp.MACHINES)}"
        )
    return machine

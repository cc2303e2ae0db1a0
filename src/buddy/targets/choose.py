"""From what a session asked for to the target it gets.

What always holds: what was asked for and cannot be had is refused and told why; it is never replaced by something less,
and never by this machine.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.errors import ProtocolError, ToolError
from buddy.targets import names
from buddy.targets.carriers import ENGINES, Carrier, Container, Here, Ssh, engines, hang_up
from buddy.targets.contract import Distant, Target
from buddy.targets.environment import environment, find_program
from buddy.targets.local import Local

if TYPE_CHECKING:
    from buddy.targets.confine.prove import Proof

# The name of a socket has 108 bytes at most, and ssh adds some sixty to the directory's.
MAX_CONTROL_DIR = 45
# Where other packages name the targets that they bring: KIND = a callable that makes a carrier of NAME.
GROUP = "buddy.targets"


class Wish(Struct, frozen=True):
    """`target` is local, container:NAME or ssh:HOST; `sandbox` host, confined or container, where it was said."""

    target: str
    root: str
    sandbox: str | None = None
    tmux: bool | str | None = None


class Chosen(Struct, frozen=True):
    target: Target
    root: str
    sandbox: str


class Own(Struct, frozen=True):
    """The directories of this program itself."""

    config_dir: Path
    state_dir: Path
    run_dir: Path


def choose(wish: Wish, own: Own, prove: "Callable[[], Proof] | None" = None) -> Chosen:
    """The target; `prove` says how commands can be confined here, by trying it unless it is given."""
    kind, _, name = wish.target.partition(":")
    match kind:
        case "local" if not name:
            return _local(wish, own, prove)
        case "confined" if not name:
            return _local(Wish("local", wish.root, wish.sandbox or "confined", wish.tmux), own, prove)
        case "container":
            return _container(wish, name, own)
        case "ssh":
            return _ssh(wish, name, own)
        case _:
            return _brought(wish, kind, name)


async def check_reach(chosen: Target, root: str) -> None:
    """Refuse a target that cannot be reached, or has no such workspace, before anything is made of it."""
    if isinstance(chosen, Distant):
        try:
            await chosen.reach(root)
        except ToolError as error:
            raise _unavailable(str(error)) from error


async def let_go(own: Own) -> None:
    """End what targets keep open between calls."""
    await hang_up(_control_dir(own))


def levels() -> dict[str, str]:
    """What each sandbox level stands on here, as far as that is known already."""
    found = engines()
    container = f"untried: {', '.join(found)}; each container is looked at before its first use"
    return {
        "host": "proven: nothing is confined, approvals are a courtesy",
        "confined": _confined_word(),
        "container": container if found else f"unavailable: none of {', '.join(ENGINES)} is installed",
    }


async def try_levels(own: Own) -> dict[str, str]:
    """The same after each was really tried."""
    from buddy.targets.confine.prove import prove
    from buddy.targets.isolation import describe

    await asyncio.to_thread(prove)
    return {**levels(), "container": await describe(own.state_dir)}


def _local(wish: Wish, own: Own, prove: "Callable[[], Proof] | None") -> Chosen:
    root = os.path.realpath(wish.root)
    if not os.path.isdir(root):  # noqa: PTH112 - plain text
        raise ProtocolError("INVALID_REQUEST", f"repo.rootPath {root} is not a directory here")
    match wish.sandbox:
        case None | "host":
            return Chosen(_with_tmux(Local(), Here(), root, wish), root, "host")
        case "confined":
            return Chosen(_confined(root, wish, own, prove), root, "confined")
        case "container":
            raise _unavailable("sandbox container needs a container to work in: ask for the target container:NAME")
        case other:
            raise _unavailable(f"there is no sandbox {other[:80]!r}; there are host, confined and container")


def _confined(root: str, wish: Wish, own: Own, prove: "Callable[[], Proof] | None") -> Target:
    if wish.tmux:
        raise _unavailable("a shared tmux pane cannot be confined; leave out tmux, or use a container")
    # Paid for by who uses it.
    from buddy.targets.confine.fence import Fence
    from buddy.targets.confine.prove import prove as prove_here
    from buddy.targets.confine.target import Confined

    places = tuple(str(place) for place in (own.config_dir, own.state_dir))
    if root == "/":
        raise _unavailable(
            "the workspace is the whole machine, and a confined command writes only in it; name a folder"
        )
    for place in map(os.path.realpath, places):
        if f"{root}/".startswith(f"{place}/"):
            raise _unavailable(f"the workspace {root} lies in {place}, which a confined command may not see")
    return Confined(Fence(root, home=str(Path.home()), own=places), prove or prove_here)


def _container(wish: Wish, name: str, own: Own) -> Chosen:
    if wish.sandbox not in (None, "container", "host"):
        raise _unavailable(f"sandbox {wish.sandbox[:80]} works on this machine only; a container is one of its own")
    if not engines():
        raise _unavailable(f"none of {', '.join(ENGINES)} is installed here")
    if wish.sandbox == "host":
        return _remote(wish, Container(name), "host")
    from buddy.targets.isolation import Isolated

    return _remote(wish, Isolated(name, own.state_dir), "container")


def _ssh(wish: Wish, host: str, own: Own) -> Chosen:
    if wish.sandbox not in (None, "host"):
        raise _unavailable(f"sandbox {wish.sandbox[:80]} works on this machine only, not over ssh")
    if find_program("ssh") is None:
        raise _unavailable("ssh is not installed here")
    return _remote(wish, Ssh(host, _control_dir(own)), "host")


def _brought(wish: Wish, kind: str, name: str) -> Chosen:
    """A target of another package: whatever carries programs there, it is worked on like a container or a host."""
    from importlib.metadata import entry_points

    point = next(iter(entry_points(group=GROUP, name=kind)), None)
    if point is None or not name:
        raise _unavailable(f"there is no target {wish.target[:80]!r}; there are local, container:NAME and ssh:HOST")
    if wish.sandbox not in (None, "host"):
        raise _unavailable(f"sandbox {wish.sandbox[:80]} cannot be proven on {wish.target[:80]}")
    checked = names.container(name)
    try:
        carrier: object = point.load()(checked)
    except Exception as error:  # whatever somebody else's code does wrong
        raise _unavailable(f"the target {kind} ({point.value}) cannot be used: {error}") from error
    if not isinstance(carrier, Carrier):
        raise _unavailable(f"the target {kind} ({point.value}) cannot be used: it gave no name, argv and typed")
    return _remote(wish, carrier, "host")


def _remote(wish: Wish, carrier: Carrier, sandbox: str) -> Chosen:
    from buddy.targets.remote import Remote

    if not wish.root.startswith("/"):
        raise ProtocolError("INVALID_REQUEST", f"repo.rootPath {wish.root[:200]!r} must be absolute on {carrier.name}")
    return Chosen(_with_tmux(Remote(carrier), carrier, wish.root, wish), wish.root, sandbox)


def _with_tmux(base: Target, carrier: Carrier, root: str, wish: Wish) -> Target:
    if not wish.tmux:
        return base
    from buddy.targets.tmux.pane import WINDOW, Pane, default_session
    from buddy.targets.tmux.target import Tmux

    session = wish.tmux if isinstance(wish.tmux, str) else default_session(root)
    pane = Pane(carrier, session, root)
    if isinstance(carrier, Here):
        if find_program("tmux") is None:
            raise _unavailable("tmux is not installed here; install it, or leave out --tmux")
        if own_window() == f"{session}:{WINDOW}":
            raise ProtocolError(
                "INVALID_REQUEST", f"this program runs in the window {session}:{WINDOW} itself; use another terminal"
            )
    return Tmux(base, carrier, pane)


def own_window() -> str:
    """The tmux session and window that this process runs in; empty where it runs in none."""
    pane = os.environ.get("TMUX_PANE")
    if not pane or not os.environ.get("TMUX"):
        return ""
    words = ["tmux", "display-message", "-p", "-t", pane, "#{session_name}:#{window_name}"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False, env=environment())
        return done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _control_dir(own: Own) -> Path:
    """Of this process alone, so that it can end its connections without ending another's."""
    name = f"ssh-{os.getpid()}"
    near = own.run_dir / name
    return near if len(str(near)) <= MAX_CONTROL_DIR else Path(f"/tmp/buddy-{os.geteuid()}-{name}")  # noqa: S108 - checked


def _confined_word() -> str:
    untried = "untried: proven when it is first asked for"
    if "buddy.targets.confine.prove" not in sys.modules:
        return untried  # nobody can have asked for it, and a hello need not load it
    from buddy.targets.confine.prove import is_tried, prove

    if not is_tried():
        return untried
    proof = prove()
    return f"proven: {proof.how}" if proof.how else f"unavailable: {proof.why}"


def _unavailable(why: str) -> ProtocolError:
    return ProtocolError("SANDBOX_UNAVAILABLE", why)

"""Resolve the target that a session asked for.

Invariants: what was requested and is not available is refused with the reason; it is never replaced by something
weaker, and never by this machine.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.capabilities import has
from buddy.errors import ProtocolError, ToolError
from buddy.targets import names
from buddy.targets.confine.deferred import DeferredConfined, end_standby
from buddy.targets.contract import Target, Verifiable
from buddy.targets.environment import environment, find_program
from buddy.targets.launchers import ENGINES, ContainerLauncher, Launcher, LocalLauncher, SshLauncher, engines
from buddy.targets.launchers import close_connections as close_ssh_connections
from buddy.targets.local import Local

if TYPE_CHECKING:
    from buddy.targets.confine.policy import ConfinementPolicy
    from buddy.targets.confine.probe import ProbeResult

# A socket path has at most 108 bytes, and ssh adds about sixty to the directory's.
MAX_CONTROL_DIR = 45
# The entry point group for targets of other packages: KIND = a callable that makes a launcher from NAME.
GROUP = "buddy.targets"


class TargetRequest(Struct, frozen=True):
    """`target` is local, container:NAME or ssh:HOST; `sandbox` is host, confined, container or unset."""

    target: str
    root: str
    sandbox: str | None = None
    tmux: bool | str | None = None


class TargetChoice(Struct, frozen=True):
    target: Target
    root: str
    sandbox: str


class OwnDirectories(Struct, frozen=True):
    """Buddy's own directories, and its configuration file wherever that is."""

    config_dir: Path
    state_dir: Path
    run_dir: Path
    config_file: Path | None = None


def choose(
    request: TargetRequest, own: OwnDirectories, probe: "Callable[[], ProbeResult] | None" = None
) -> TargetChoice:
    """The target; `probe` says how commands can be confined here, by trying it unless it is given."""
    kind, _, name = request.target.partition(":")
    match kind:
        case "local" if not name:
            return _local(request, own, probe)
        case "confined" if not name:
            return _local(TargetRequest("local", request.root, request.sandbox or "confined", request.tmux), own, probe)
        case "container":
            return _container(request, name, own)
        case "ssh":
            return _ssh(request, name, own)
        case _:
            return _from_plugin(request, kind, name)


async def verify_target(chosen: Target, root: str) -> None:
    """Refuse a target or workspace that cannot be reached, before a session is created on it."""
    if has(chosen, Verifiable):
        try:
            await chosen.verify(root)
        except ToolError as error:
            raise _unavailable(str(error)) from error


async def close_connections(own: OwnDirectories) -> None:
    """Close what targets keep open between calls."""
    end_standby()
    await close_ssh_connections(_control_dir(own))


def sandbox_levels() -> dict[str, str]:
    """What each sandbox level is based on here, as far as already known."""
    found = engines()
    container = f"untried: {', '.join(found)}; each container is checked before its first use"
    return {
        "host": "no confinement: approved commands can do anything you can",
        "confined": _confined_level(),
        "container": container if found else f"unavailable: none of {', '.join(ENGINES)} is installed",
    }


async def probe_levels() -> dict[str, str]:
    """The same after testing confinement. Nothing is started in a user's container."""
    from buddy.targets.confine.limits import describe_limits
    from buddy.targets.confine.probe import probe
    from buddy.targets.isolation import describe

    proof = await asyncio.to_thread(probe)
    levels = {**sandbox_levels(), "container": await describe()}
    if proof.method:
        levels["confined"] += f"; {await asyncio.to_thread(describe_limits)}"
    return levels


def _local(request: TargetRequest, own: OwnDirectories, probe: "Callable[[], ProbeResult] | None") -> TargetChoice:
    root = os.path.realpath(request.root)
    if not os.path.isdir(root):  # noqa: PTH112 - plain text
        is_file = os.path.exists(root)  # noqa: PTH110 - plain text
        problem = f"{root} is not a directory" if is_file else f"the folder {root} does not exist"
        raise ProtocolError("INVALID_REQUEST", f"{problem} on this machine")
    match request.sandbox:
        case None | "host":
            return TargetChoice(_with_tmux(Local(), LocalLauncher(), root, request), root, "host")
        case "confined":
            return TargetChoice(_choose_confined(root, request, own, probe), root, "confined")
        case "container":
            raise _unavailable("sandbox container requires a container: request the target container:NAME")
        case other:
            raise _unavailable(f"unknown sandbox {other[:80]!r}. Available: host, confined, container")


def _choose_confined(
    root: str, request: TargetRequest, own: OwnDirectories, probe: "Callable[[], ProbeResult] | None"
) -> Target:
    if request.tmux:
        raise _unavailable("a shared tmux pane cannot be confined; omit tmux or use a container")
    places = tuple(str(place) for place in (own.config_dir, own.state_dir))
    if root == "/":
        raise _unavailable("the workspace / is the entire machine, so nothing would be confined; choose a folder")
    for place in map(os.path.realpath, places):
        if f"{root}/".startswith(f"{place}/"):
            raise _unavailable(f"the workspace {root} is inside {place}, which confined commands cannot see")
    run_dir = os.path.realpath(own.run_dir)
    places += (run_dir,) if f"{run_dir}/".startswith(f"{root}/") and run_dir != root else ()
    files = () if own.config_file is None else (str(own.config_file),)

    def make_policy() -> "ConfinementPolicy":
        from buddy.targets.confine.policy import ConfinementPolicy

        return ConfinementPolicy(root, home=str(Path.home()), own=places, files=files, state_dir=own.state_dir)

    if probe is None:
        return DeferredConfined(make_policy, str(own.state_dir))
    from buddy.targets.confine.target import Confined

    return Confined(make_policy(), probe)


async def clean_up(own: OwnDirectories) -> None:
    """Remove what confined commands of a process that was killed have left in their workspaces."""
    if os.path.isdir(own.state_dir / "confined"):  # noqa: ASYNC240, PTH112 - usually there is nothing more to do
        from buddy.targets.confine.journal import clean_up

        await asyncio.to_thread(clean_up, own.state_dir)


def _container(request: TargetRequest, name: str, own: OwnDirectories) -> TargetChoice:
    if request.sandbox not in (None, "container", "host"):
        raise _unavailable(f"sandbox {request.sandbox[:80]} is only available on this machine, not in a container")
    if not engines():
        raise _unavailable(f"none of {', '.join(ENGINES)} is installed")
    if request.sandbox == "host":
        return _remote(request, ContainerLauncher(name), "host")
    from buddy.targets.isolation import IsolatedContainer

    return _remote(request, IsolatedContainer(name, own.state_dir), "container")


def _ssh(request: TargetRequest, host: str, own: OwnDirectories) -> TargetChoice:
    if request.sandbox not in (None, "host"):
        raise _unavailable(f"sandbox {request.sandbox[:80]} is only available on this machine, not over ssh")
    if find_program("ssh") is None:
        raise _unavailable("ssh is not installed")
    return _remote(request, SshLauncher(host, _control_dir(own)), "host")


def _from_plugin(request: TargetRequest, kind: str, name: str) -> TargetChoice:
    """A target from another package, used like a container or an ssh host."""
    from importlib.metadata import entry_points

    point = next(iter(entry_points(group=GROUP, name=kind)), None)
    if point is None or not name:
        raise _unavailable(f"unknown target {request.target[:80]!r}. Available: local, container:NAME, ssh:HOST")
    if request.sandbox not in (None, "host"):
        raise _unavailable(f"sandbox {request.sandbox[:80]} cannot be proven on {request.target[:80]}")
    checked = names.container(name)
    try:
        launcher: object = point.load()(checked)
    except Exception as error:  # third-party code may raise anything
        raise _unavailable(f"the target {kind} ({point.value}) cannot be used: {error}") from error
    if not isinstance(launcher, Launcher):
        raise _unavailable(f"the target {kind} ({point.value}) cannot be used: it lacks name, argv or shell_command")
    return _remote(request, launcher, "host")


def _remote(request: TargetRequest, launcher: Launcher, sandbox: str) -> TargetChoice:
    from buddy.targets.remote import Remote

    if not request.root.startswith("/"):
        raise ProtocolError(
            "INVALID_REQUEST", f"the folder {request.root[:200]!r} must be an absolute path on {launcher.name}"
        )
    return TargetChoice(_with_tmux(Remote(launcher), launcher, request.root, request), request.root, sandbox)


def _with_tmux(base: Target, launcher: Launcher, root: str, request: TargetRequest) -> Target:
    if not request.tmux:
        return base
    from buddy.targets.tmux.pane import WINDOW, Pane, default_session
    from buddy.targets.tmux.target import Tmux

    session = request.tmux if isinstance(request.tmux, str) else default_session(root)
    pane = Pane(launcher, session, root)
    if isinstance(launcher, LocalLauncher):
        if find_program("tmux") is None:
            raise _unavailable("tmux is not installed; install it or omit --tmux")
        if current_tmux_window() == f"{session}:{WINDOW}":
            raise ProtocolError(
                "INVALID_REQUEST", f"Buddy itself runs in the window {session}:{WINDOW}; use another terminal"
            )
    return Tmux(base, launcher, pane)


def current_tmux_window() -> str:
    """The tmux session and window of this process; empty if it runs in none."""
    pane = os.environ.get("TMUX_PANE")
    if not pane or not os.environ.get("TMUX"):
        return ""
    words = ["tmux", "display-message", "-p", "-t", pane, "#{session_name}:#{window_name}"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False, env=environment())
        return done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _control_dir(own: OwnDirectories) -> Path:
    """Private to this process, so that it can close its connections without closing others'."""
    name = f"ssh-{os.getpid()}"
    near = own.run_dir / name
    return near if len(str(near)) <= MAX_CONTROL_DIR else Path(f"/tmp/buddy-{os.geteuid()}-{name}")  # noqa: S108 - checked


def _confined_level() -> str:
    untried = "untried: tested on first use"
    if "buddy.targets.confine.probe" not in sys.modules:
        return untried  # never probed in this process; hello must not load it
    from buddy.targets.confine.probe import probe, was_probed

    if not was_probed():
        return untried
    proof = probe()
    return f"proven: {proof.method}" if proof.method else f"unavailable: {proof.reason}"


def _unavailable(why: str) -> ProtocolError:
    return ProtocolError("SANDBOX_UNAVAILABLE", why)

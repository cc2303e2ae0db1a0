"""A session gets the target it asked for, or is refused."""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from buddy.errors import ProtocolError, ToolError
from buddy.targets.choose import OwnDirectories, TargetRequest, choose, probe_levels, sandbox_levels, verify_target
from buddy.targets.confine import probe
from buddy.targets.confine.deferred import DeferredConfined
from buddy.targets.contract import Terminal
from buddy.targets.local import Local
from tests.harness.installed import need
from tests.targets.captured_output import CapturedOutput


@pytest.fixture
def own(tmp_path: Path) -> OwnDirectories:
    return OwnDirectories(tmp_path / "config", tmp_path / "state", tmp_path / "run")


@pytest.fixture
def root(tmp_path: Path) -> str:
    place = tmp_path / "root"
    place.mkdir()
    return str(place)


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without these programs."""
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_default_is_this_machine_without_confinement(own: OwnDirectories, root: str) -> None:
    chosen = choose(TargetRequest("local", root), own)
    assert type(chosen.target) is Local
    assert (chosen.root, chosen.sandbox) == (root, "host")


@pytest.mark.parametrize("asked", [("confined", None), ("local", "confined"), ("confined", "confined")])
def test_confined_is_available_where_proven(own: OwnDirectories, root: str, asked: tuple[str, str | None]) -> None:
    proof = probe.probe()
    if not proof.method:
        pytest.skip(proof.reason)
    chosen = choose(TargetRequest(asked[0], root, asked[1]), own)
    assert isinstance(chosen.target, DeferredConfined)
    assert chosen.sandbox == "confined"
    assert sandbox_levels()["confined"] == f"proven: {proof.method}"


async def test_confined_is_refused_where_it_is_not_proven(own: OwnDirectories, root: str) -> None:
    chosen = choose(
        TargetRequest("confined", root), own, lambda: probe.ProbeResult(reason="bubblewrap: bwrap is not installed")
    )
    with pytest.raises(ProtocolError, match=r"bwrap is not installed.*install bubblewrap") as refused:
        await verify_target(chosen.target, root)
    with pytest.raises(ToolError, match="cannot be proven"):
        await chosen.target.run("true", cwd=root, nonce="n", on_output=CapturedOutput())
    assert refused.value.code == "SANDBOX_UNAVAILABLE"


def test_a_workspace_inside_our_own_directories_cannot_be_confined(own: OwnDirectories) -> None:
    if not probe.probe().method:
        pytest.skip(probe.probe().reason)
    inside = own.state_dir / "work"
    inside.mkdir(parents=True)
    with pytest.raises(ProtocolError, match="cannot see"):
        choose(TargetRequest("confined", str(inside)), own)


def test_the_root_of_the_file_system_cannot_be_a_confined_workspace(own: OwnDirectories) -> None:
    with pytest.raises(ProtocolError, match="the entire machine"):
        choose(TargetRequest("confined", "/"), own)


@pytest.mark.parametrize("target", ["ssh:me@host", "container:box"])
def test_a_target_must_be_named_completely(own: OwnDirectories, target: str) -> None:
    need("ssh", "podman")
    chosen = choose(TargetRequest(target, "/srv/app"), own)
    assert chosen.target.name == target
    assert (chosen.root, chosen.sandbox) == ("/srv/app", "container" if "box" in target else "host")


UNAVAILABLE = [
    ("modal", None),
    ("local:x", None),
    ("local", "container"),
    ("local", "jail"),
    ("ssh:host", "confined"),
    ("container:box", "confined"),
]


@pytest.mark.parametrize(("target", "sandbox"), UNAVAILABLE)
def test_an_unknown_target_or_sandbox_is_refused(
    own: OwnDirectories, root: str, target: str, sandbox: str | None
) -> None:
    with pytest.raises(ProtocolError) as refused:
        choose(TargetRequest(target, root, sandbox), own)
    assert refused.value.code == "SANDBOX_UNAVAILABLE"


@pytest.mark.usefixtures("empty_path")
@pytest.mark.parametrize("asked", [("ssh:host", None), ("container:box", None), ("local", True)])
def test_a_missing_program_is_reported(own: OwnDirectories, root: str, asked: tuple[str, bool | None]) -> None:
    with pytest.raises(ProtocolError, match=r"is installed|is not installed") as refused:
        choose(TargetRequest(asked[0], root, tmux=asked[1]), own)
    assert refused.value.code == "SANDBOX_UNAVAILABLE"


@pytest.mark.parametrize("target", ["ssh:-oProxyCommand=id", "container:x --privileged", "ssh:", "container:"])
def test_an_invalid_target_name_is_refused(own: OwnDirectories, root: str, target: str) -> None:
    need("ssh", "podman")
    with pytest.raises(ProtocolError) as refused:
        choose(TargetRequest(target, root), own)
    assert refused.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize("target", ["local", "ssh:host", "container:box"])
def test_each_target_can_have_a_pane(own: OwnDirectories, root: str, target: str) -> None:
    need("tmux", "ssh", "podman")
    assert isinstance(choose(TargetRequest(target, root, tmux=True), own).target, Terminal)
    with pytest.raises(ProtocolError, match="tmux session name"):
        choose(TargetRequest(target, root, tmux="a;kill-server"), own)


def test_a_workspace_that_is_missing_or_a_file_is_refused(own: OwnDirectories, root: str) -> None:
    with pytest.raises(ProtocolError, match="the folder /no/such/place does not exist on this machine"):
        choose(TargetRequest("local", "/no/such/place"), own)
    file = Path(root, "file")
    file.touch()
    with pytest.raises(ProtocolError, match=f"{file} is not a directory on this machine"):
        choose(TargetRequest("local", str(file)), own)
    need("ssh")
    with pytest.raises(ProtocolError, match="must be an absolute path"):
        choose(TargetRequest("ssh:host", "relative"), own)


@pytest.fixture
def panes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """A tmux server for one test, if tmux is installed; the path is short because of the socket."""
    tmux = shutil.which("tmux")
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path_factory.mktemp("s")))
    yield
    if tmux is not None:
        subprocess.run([tmux, "kill-server"], check=False, capture_output=True)


PROGRAMS = ["docker", "podman", "nerdctl", "ssh", "tmux", "bwrap", "bash", "sh", "env", "git"]


@pytest.mark.usefixtures("panes")
async def test_programs_in_the_workspace_are_not_used(
    own: OwnDirectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.` is on the PATH, and the current folder has programs of these names."""
    work = tmp_path / "work"
    work.mkdir()
    for name in PROGRAMS:
        (work / name).write_text(f"#!/bin/sh\necho {name} >>{tmp_path}/ran\n")
        (work / name).chmod(0o755)
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}:")
    for target in ("local", "container:none", "ssh:127.0.0.1:1", "ssh:nowhere.invalid"):
        with suppress(ProtocolError, ToolError):
            chosen = choose(TargetRequest(target, str(work), tmux=target == "local" or None), own)
            await verify_target(chosen.target, chosen.root)
    await probe_levels()
    here = choose(TargetRequest("local", str(work)), own).target
    await here.run("git --version; env true", cwd=str(work), nonce="n", on_output=CapturedOutput())
    assert not (tmp_path / "ran").exists()

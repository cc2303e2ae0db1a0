"""A container counts as a sandbox only if an inspection from inside proves it."""

import os
import shutil
import socket
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from buddy.errors import ProtocolError, ToolError
from buddy.targets.choose import OwnDirectories, TargetRequest, choose, probe_levels, verify_target
from buddy.targets.contract import Finished, Unconnected
from buddy.targets.isolation import IsolatedContainer, inspect_isolation
from buddy.targets.launchers import ContainerLauncher
from buddy.targets.remote import Remote
from tests.targets.captured_output import CapturedOutput
from tests.targets.machines import Engine

Started = Callable[..., str]


@pytest.fixture
def places(tmp_path: Path) -> OwnDirectories:
    return OwnDirectories(tmp_path / "config", tmp_path / "state", tmp_path / "run")


@pytest.fixture
def started(engine: Engine) -> Generator[Started]:
    """Starts a container and removes it afterwards."""
    names: list[str] = []

    def start(*flags: str) -> str:
        name = f"buddy-odd-{os.getpid()}-{len(names)}"
        engine.start(name, *flags)
        names.append(name)
        return name

    yield start
    for name in names:
        engine.remove(name)


async def test_a_container_is_inspected_before_its_first_use(
    container: str, places: OwnDirectories, nonce: str
) -> None:
    chosen = choose(TargetRequest(f"container:{container}", "/work"), places)
    assert chosen.sandbox == "container"
    await verify_target(chosen.target, chosen.root)
    assert await chosen.target.run("exit 3", cwd="/work", nonce=nonce, on_output=CapturedOutput()) == Finished(3)
    assert list(places.state_dir.iterdir()) == []


ODD = {
    "shares this machine's processes": ("--pid=host",),
    "privileged": ("--privileged",),
    "can see Buddy's own files": ("-v", "OWN:OWN"),
    "can control the container engine": ("-v", "DOOR:/var/run/docker.sock"),
}


@pytest.mark.parametrize("why", ODD)
async def test_a_container_that_is_not_isolated_is_refused(
    started: Started, places: OwnDirectories, nonce: str, why: str
) -> None:
    places.state_dir.mkdir()
    door = places.state_dir.parent / "door"
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(door))
        flags = [flag.replace("OWN", str(places.state_dir)).replace("DOOR", str(door)) for flag in ODD[why]]
        name = started(*flags)
    chosen = choose(TargetRequest(f"container:{name}", "/work"), places)
    with pytest.raises(ProtocolError, match=why) as refused:
        await verify_target(chosen.target, chosen.root)
    assert refused.value.code == "SANDBOX_UNAVAILABLE"
    with pytest.raises(ToolError, match=why):
        await chosen.target.run("touch here", cwd="/work", nonce=nonce, on_output=CapturedOutput())
    with pytest.raises(ToolError, match=why):
        await chosen.target.write_file("here", b"", root="/work")


@pytest.mark.parametrize(("network", "is_offline"), [("none", True), ("host", False)])
async def test_a_container_is_offline_only_if_no_route_leads_out(
    started: Started, places: OwnDirectories, network: str, is_offline: bool
) -> None:
    target = choose(TargetRequest(f"container:{started(f'--network={network}')}", "/work"), places).target
    assert isinstance(target, Unconnected)
    assert await target.is_offline() is is_offline


async def test_such_a_container_can_be_used_without_a_sandbox_level(
    started: Started, places: OwnDirectories, nonce: str
) -> None:
    name = started("--privileged")
    chosen = choose(TargetRequest(f"container:{name}", "/work", "host"), places)
    assert chosen.sandbox == "host"
    await verify_target(chosen.target, chosen.root)
    assert await chosen.target.run("exit 3", cwd="/work", nonce=nonce, on_output=CapturedOutput()) == Finished(3)


async def test_this_machine_is_not_mistaken_for_a_container(
    tmp_path: Path, places: OwnDirectories, monkeypatch: pytest.MonkeyPatch, nonce: str
) -> None:
    """An engine that runs everything on this machine."""
    pretended = tmp_path / "bin" / "docker"
    pretended.parent.mkdir()
    pretended.write_text('#!/bin/sh\n[ "$1" = exec ] || { echo true; exit; }\nshift 3\nexec "$@"\n')
    pretended.chmod(0o755)
    monkeypatch.setenv("PATH", f"{pretended.parent}:{os.environ['PATH']}")
    with pytest.raises(ToolError, match="not a sandbox"):
        await Remote(IsolatedContainer("box", places.state_dir)).run(
            "true", cwd="/", nonce=nonce, on_output=CapturedOutput()
        )


async def test_listing_the_levels_enters_no_container(
    tmp_path: Path, places: OwnDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "bin" / "docker"
    engine.parent.mkdir()
    engine.write_text(f'#!/bin/sh\necho "$1" >>{tmp_path}/asked\necho theirs\n')
    engine.chmod(0o755)
    monkeypatch.setattr("buddy.targets.isolation.engines", lambda: ["docker"])
    monkeypatch.setenv("PATH", f"{engine.parent}:{os.environ['PATH']}")
    level = (await probe_levels())["container"]
    assert level == "untried: docker: 1 container is running; each is checked before its first use"
    assert (tmp_path / "asked").read_text() == "ps\n"
    assert not places.state_dir.exists()


async def test_an_engine_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tmp_path / "docker"
    engine.write_text("#!/bin/sh\necho cannot connect >&2\nexit 1\n")
    engine.chmod(0o755)
    monkeypatch.setattr("buddy.targets.isolation.engines", lambda: ["docker"])
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert (await probe_levels())["container"] == "unavailable: docker: cannot connect"


@pytest.fixture
def nerdctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine) -> Path:
    """A machine that only has nerdctl: podman with the same options."""
    assert engine.place
    programs = tmp_path / "only"
    programs.mkdir()
    shim = programs / "nerdctl"
    shim.write_text(f'#!/bin/sh\nPATH={os.environ["PATH"]}\necho "$1" >>{tmp_path}/asked\nexec podman "$@"\n')
    shim.chmod(0o755)
    for name in ("sh", "env"):
        (programs / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(programs))
    return tmp_path / "asked"


async def test_nerdctl_is_called_with_its_own_options(
    container: str, nerdctl: Path, places: OwnDirectories, nonce: str
) -> None:
    target = choose(TargetRequest(f"container:{container}", "/work"), places).target
    taken = CapturedOutput()
    assert await target.run("pwd; exit 3", cwd="/work", nonce=nonce, on_output=taken) == Finished(3)
    assert taken.output["stdout"] == b"/work\n"
    await target.write_file("by-nerdctl", b"\0x", root="/work")
    assert await target.read_file("by-nerdctl", root="/work", limit=9) == b"\0x"
    assert ContainerLauncher(container).shell_command(["sh"]).startswith("nerdctl exec -it ")
    assert set(nerdctl.read_text().split()) == {"container", "exec"}  # noqa: ASYNC240 - a look


async def test_a_container_without_information_proves_nothing(
    tmp_path: Path, places: OwnDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "bin" / "docker"
    silent.parent.mkdir()
    silent.write_text("#!/bin/sh\nprintf 'mnt=\\npid=\\nboot=\\ndone=yes\\n'\n")
    silent.chmod(0o755)
    monkeypatch.setenv("PATH", f"{silent.parent}:{os.environ['PATH']}")
    found = await inspect_isolation(ContainerLauncher("box", "docker"), places.state_dir)
    assert "shares this machine's files" in found.flaw
    assert not found.is_offline

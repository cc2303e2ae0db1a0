"""The targets that the contract is tested with."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

from buddy.targets.confine.methods import METHODS
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.probe import ProbeResult, probe, probe_method
from buddy.targets.confine.target import Confined
from buddy.targets.launchers import ContainerLauncher, LocalLauncher, SshLauncher, close_connections
from buddy.targets.local import Local
from buddy.targets.remote import Remote
from buddy.targets.tmux.pane import Pane
from buddy.targets.tmux.target import Tmux
from tests.harness.installed import need
from tests.targets.machines import Engine, SshServer, ssh_server
from tests.targets.target_case import TargetCase, there


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Generator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        engine = Engine(tmp_path_factory.mktemp("podman"))
        for name, value in engine.env.items():
            patch.setenv(name, value)
        try:
            yield engine
        finally:
            engine.close()


@pytest.fixture(scope="session")
def container(engine: Engine) -> str:
    name = f"buddy-test-{os.getpid()}"
    engine.start(name)
    return name


@pytest.fixture(scope="session")
def control_dir(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """Short: a socket path has at most 108 bytes."""
    place = tmp_path_factory.mktemp("c")
    yield place
    asyncio.run(close_connections(place))


@pytest.fixture
def nonce() -> str:
    return uuid4().hex


PIPED = ["local", "confined", "container", "ssh"]


@pytest.fixture(params=[*PIPED, "tmux"])
async def where(request: pytest.FixtureRequest, tmp_path: Path) -> TargetCase:
    """Every target."""
    return await make(request, tmp_path)


@pytest.fixture(params=PIPED)
async def piped(request: pytest.FixtureRequest, tmp_path: Path) -> TargetCase:
    """Every target whose commands have pipes; for those in a pane see test_tmux."""
    return await make(request, tmp_path)


async def make(request: pytest.FixtureRequest, tmp_path: Path) -> TargetCase:
    kind: str = request.param
    if kind == "container":
        launcher = ContainerLauncher(request.getfixturevalue("container"), "podman")
        found = TargetCase(kind, Remote(launcher, grace=0.2), f"/work/{uuid4().hex[:12]}", launcher)
        await there(found, f"mkdir {found.root}")
        return found
    if kind == "ssh":
        server: SshServer = request.getfixturevalue("sshd")
        ssh = SshLauncher("127.0.0.1", request.getfixturevalue("control_dir"), server.options)
        return TargetCase(kind, Remote(ssh, grace=0.2), str(tmp_path), LocalLauncher())
    if kind == "tmux":
        request.getfixturevalue("tmux_server")
        pane = Pane(LocalLauncher(), "buddy-table", str(tmp_path))
        return TargetCase(kind, Tmux(Local(grace=0.2), LocalLauncher(), pane), str(tmp_path), LocalLauncher())
    if kind == "confined":
        proof = probe()
        if not proof.method:
            pytest.skip(proof.reason)
        policy = ConfinementPolicy(str(tmp_path), home=str(tmp_path.parent), own=())
        return TargetCase(kind, Confined(policy, probe, grace=0.2), str(tmp_path), LocalLauncher())
    return TargetCase(kind, Local(grace=0.2), str(tmp_path), LocalLauncher())


@pytest.fixture
def tmux_server(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A tmux server for one test; its socket path must be short."""
    need("tmux")
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)
    place = Path(tempfile.mkdtemp(prefix="bt"))
    monkeypatch.setenv("TMUX_TMPDIR", str(place))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    monkeypatch.setenv("SHELL", "/bin/bash")
    try:
        yield place
    finally:
        subprocess.run(["tmux", "kill-server"], check=False, capture_output=True)
        shutil.rmtree(place)


why_not = cache(probe_method)


@pytest.fixture(params=sorted(METHODS))
def way(request: pytest.FixtureRequest) -> str:
    """Every confinement method that works here."""
    how: str = request.param
    why = why_not(how)
    if why:
        pytest.skip(f"{how} does not hold here: {why}")
    return how


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    (place / ".git" / "hooks").mkdir(parents=True)
    (place / ".git" / "config").write_text("[core]\n")
    return place


@pytest.fixture
def own(tmp_path: Path) -> Path:
    place = tmp_path / "own"
    place.mkdir()
    (place / "auth.json").write_text("secret")
    return place


@pytest.fixture
def confined(way: str, root: Path, home: Path, own: Path) -> Confined:
    policy = ConfinementPolicy(str(root), home=str(home), own=(str(own),))
    return Confined(policy, lambda: ProbeResult(way), grace=0.2)


@pytest.fixture
def listener() -> Generator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]

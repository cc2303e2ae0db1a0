"""The places that the contract of targets is held against."""

import os
from collections.abc import Generator
from pathlib import Path
from uuid import uuid4

import pytest

from buddy.targets.carriers import Container, Here, Ssh
from buddy.targets.local import Local
from buddy.targets.remote import Remote
from targets.machines import Engine, SshServer, ssh_server
from targets.where import Where


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
def control_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short: the name of a socket has 108 bytes at most."""
    return tmp_path_factory.mktemp("c")


@pytest.fixture
def nonce() -> str:
    return uuid4().hex


@pytest.fixture(params=["local", "container", "ssh"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    kind: str = request.param
    if kind == "local":
        return Where(Local(grace=0.2), Here(), str(tmp_path), Here())
    if kind == "ssh":
        server: SshServer = request.getfixturevalue("sshd")
        ssh = Ssh("127.0.0.1", request.getfixturevalue("control_dir"), server.options)
        return Where(Remote(ssh, grace=0.2), ssh, str(tmp_path), Here())
    name: str = request.getfixturevalue("container")
    carrier = Container(name, "podman")
    return Where(Remote(carrier, grace=0.2), carrier, f"/work/{uuid4().hex[:12]}", carrier)

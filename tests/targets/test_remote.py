"""What is specific to containers and hosts: names, engines, lost connections."""

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from buddy.errors import ProtocolError, ToolError
from buddy.targets import names, orphans
from buddy.targets.contract import Finished
from buddy.targets.launchers import ContainerLauncher, SshLauncher, close_connections
from buddy.targets.remote import Remote
from tests.harness.installed import need
from tests.harness.processes import PATIENCE
from tests.targets.captured_output import CapturedOutput
from tests.targets.machines import Engine, SshServer, ssh_server


@pytest.mark.parametrize("name", ["x --privileged", "-it", "", "a;b", "a/b", "$(id)", "a\nb", "x" * 300])
def test_an_invalid_container_name_is_refused(name: str) -> None:
    with pytest.raises(ProtocolError, match="container name"):
        ContainerLauncher(name)


HOSTS = ["-oProxyCommand=id", "a b", "", "a;id", "u@-oX", "-l@host", "a\nb", "$(id)", "user@", "@host", "h:22"]


@pytest.mark.parametrize("host", HOSTS)
def test_an_invalid_host_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="ssh host"):
        SshLauncher(host, tmp_path)


@pytest.mark.parametrize("host", ["host", "me@host.example", "10.0.0.1", "::1", "me@[fe80::1]", "alias_1"])
def test_common_forms_of_a_host_are_accepted(host: str) -> None:
    assert names.host(host) == host


@pytest.fixture
def open_dir(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def names_in(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


async def test_a_control_directory_that_is_open_to_others_is_refused(open_dir: Path, nonce: str) -> None:
    with pytest.raises(ToolError, match="accessible to other users"):
        await Remote(SshLauncher("host", open_dir)).run("true", cwd="/", nonce=nonce, on_output=CapturedOutput())


async def test_a_host_that_does_not_respond_is_unreachable(control_dir: Path, tmp_path: Path, nonce: str) -> None:
    need("ssh")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        ssh = SshLauncher("127.0.0.1", control_dir, ("-F", "none", "-p", str(port)))
        target = Remote(ssh)
        for asked in (
            target.run("touch here", cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput()),
            target.read_file("x", root=str(tmp_path), limit=1),
            target.write_file("x", b"", root=str(tmp_path)),
            target.stat("x", root=str(tmp_path)),
            target.list_dir(".", root=str(tmp_path)),
        ):
            with pytest.raises(ToolError) as gone:
                await asked
            assert gone.value.code == "SANDBOX_UNREACHABLE"
        assert await target.kill_orphans(nonce) == 0
    assert names_in(tmp_path) == []


@pytest.fixture
def own_sshd(tmp_path_factory: pytest.TempPathFactory) -> Generator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("own")) as server:
        yield server


async def test_a_lost_connection_leaves_the_outcome_unknown(
    own_sshd: SshServer, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, nonce: str
) -> None:
    ssh = SshLauncher("127.0.0.1", tmp_path_factory.mktemp("d"), own_sshd.options)
    taken = CapturedOutput()
    command = "echo up; sleep 600"
    running = asyncio.create_task(Remote(ssh).run(command, cwd=str(tmp_path), nonce=nonce, on_output=taken))
    await taken.wait_for(b"up")
    argv = await ssh.argv(["true"])
    ending = await asyncio.create_subprocess_exec(*argv[:-3], "-O", "exit", *argv[-2:-1], stderr=subprocess.DEVNULL)
    assert await ending.wait() == 0
    with pytest.raises(ToolError) as lost:
        await running
    assert lost.value.code == "UNKNOWN_OUTCOME"
    assert orphans.kill(nonce) >= 1


async def test_calls_share_one_connection(sshd: SshServer, control_dir: Path, tmp_path: Path, nonce: str) -> None:
    target = Remote(SshLauncher("127.0.0.1", control_dir, sshd.options))
    await target.run("true", cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput())
    sockets = names_in(control_dir)
    await target.run("true", cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput())
    assert len(sockets) == 1
    assert names_in(control_dir) == sockets


async def test_no_connection_is_left_after_closing(
    sshd: SshServer, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, nonce: str
) -> None:
    shared = tmp_path_factory.mktemp("h")
    target = Remote(SshLauncher("127.0.0.1", shared, sshd.options))
    await target.run("true", cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput())
    assert len(names_in(shared)) == 1
    await close_connections(shared)
    assert shared.name not in names_in(shared.parent)


async def test_a_container_that_was_removed_fails_the_call(engine: Engine, nonce: str) -> None:
    name = f"buddy-gone-{os.getpid()}"
    engine.start(name)
    target = Remote(ContainerLauncher(name))
    taken = CapturedOutput()
    running = asyncio.create_task(target.run("echo up; sleep 600", cwd="/work", nonce=nonce, on_output=taken))
    await taken.wait_for(b"up")
    await asyncio.to_thread(engine.remove, name)
    with pytest.raises(ToolError) as lost:
        await running
    assert lost.value.code == "UNKNOWN_OUTCOME"
    with pytest.raises(ToolError) as gone:
        await target.run("echo here", cwd="/work", nonce=nonce, on_output=taken)
    assert gone.value.code == "SANDBOX_UNREACHABLE"
    assert b"here" not in taken.output["stdout"]


@pytest.fixture
def docker(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Generator[None]:
    """A docker command that runs podman."""
    need("docker")
    door = tmp_path_factory.mktemp("s") / "p"
    words = ["podman", "system", "service", "--time=0", f"unix://{door}"]
    with subprocess.Popen(words, env={**os.environ, **engine.env}, stderr=subprocess.DEVNULL) as service:
        try:
            _wait_for(door)
            monkeypatch.setenv("DOCKER_HOST", f"unix://{door}")
            yield
        finally:
            service.terminate()


@pytest.mark.usefixtures("docker")
async def test_the_docker_command_works_as_well(container: str, nonce: str) -> None:
    target = Remote(ContainerLauncher(container, "docker"))
    taken = CapturedOutput()
    assert await target.run("pwd; exit 3", cwd="/work", nonce=nonce, on_output=taken) == Finished(3)
    assert taken.output["stdout"] == b"/work\n"
    await target.write_file("by-docker", b"\0x", root="/work")
    assert await target.read_file("by-docker", root="/work", limit=9) == b"\0x"


def _wait_for(door: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as attempt:
            if attempt.connect_ex(str(door)) == 0:
                return
        time.sleep(0.05)
    pytest.skip("podman's service does not start here")


async def test_the_engine_that_has_the_container_is_found(engine: Engine, container: str, nonce: str) -> None:
    assert shutil.which("podman")
    assert engine.containers
    assert await Remote(ContainerLauncher(container)).run(
        "exit 4", cwd="/", nonce=nonce, on_output=CapturedOutput()
    ) == Finished(4)

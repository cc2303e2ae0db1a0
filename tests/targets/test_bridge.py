"""A port on a target, reached through a port here."""

import asyncio
import os
import time
from pathlib import Path
from uuid import uuid4

import pytest

from buddy.targets import orphans
from buddy.targets.bridge import Bridge
from buddy.targets.launchers import ContainerLauncher, Launcher, LocalLauncher, SshLauncher
from buddy.targets.remote import Remote
from tests.targets.machines import SshServer


@pytest.fixture(params=["here", "ssh"])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    """Both share this machine's loopback."""
    if request.param == "here":
        return LocalLauncher()
    server: SshServer = request.getfixturevalue("sshd")
    control_dir: Path = request.getfixturevalue("control_dir")
    return SshLauncher("127.0.0.1", control_dir, server.options)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echoes everything until `bye`."""
    while line := await reader.readline():
        writer.write(line)
        if line == b"bye\n":
            break
    writer.close()


async def test_connections_are_separate_and_end_with_either_side(launcher: Launcher) -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0, limit=2**20)
    nonce = uuid4().hex
    bridge = Bridge(launcher, server.sockets[0].getsockname()[1], nonce)
    await bridge.open()
    try:
        (first, to_first), (second, to_second) = [
            await asyncio.open_connection("127.0.0.1", bridge.port) for _ in range(2)
        ]
        big = os.urandom(300_000).replace(b"\n", b" ") + b"\n"
        to_first.write(big)
        to_second.write(b"two\n")
        assert await second.readline() == b"two\n"
        assert await first.readexactly(len(big)) == big
        to_first.write(b"bye\n")
        assert await first.read() == b"bye\n"
        to_first.close()
        to_second.write(b"still here\n")
        assert await second.readline() == b"still here\n"
        to_second.close()
    finally:
        await bridge.close()
        server.close()
    await asyncio.to_thread(_wait_gone, nonce)


async def test_a_port_of_a_container_without_bash_is_reachable(container: str) -> None:
    launcher, nonce = ContainerLauncher(container, "podman"), uuid4().hex
    words = ["env", f"{orphans.NONCE_VARIABLE}={nonce}", "nc", "-ll", "-p", "7007", "-e", "cat"]
    listening = await asyncio.create_subprocess_exec(*await launcher.argv(words))
    bridge = Bridge(launcher, 7007, nonce)
    await bridge.open()
    try:
        said = b""
        while not said:  # until it listens
            reader, writer = await asyncio.open_connection("127.0.0.1", bridge.port)
            writer.write(b"heard\n")
            said = await reader.readline()
            writer.close()
        assert said == b"heard\n"
    finally:
        await bridge.close()
        await Remote(launcher).kill_orphans(nonce)
        await listening.wait()


async def test_without_a_listener_the_connection_just_ends(launcher: Launcher) -> None:
    silent = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    silent.close()
    await silent.wait_closed()
    bridge = Bridge(launcher, port, uuid4().hex)
    await bridge.open()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", bridge.port)
        assert await reader.read() == b""
        writer.close()
    finally:
        await bridge.close()


def _wait_gone(nonce: str) -> None:
    while orphans.find(nonce):
        time.sleep(0.01)

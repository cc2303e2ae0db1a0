"""No process is left on any target after a cancellation or after the daemon was killed."""

import os
import shlex
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec import Struct

from buddy.targets.confine.probe import probe
from buddy.targets.launchers import ContainerLauncher, Launcher, LocalLauncher
from buddy.targets.oneshot import ask
from tests.harness.clients import attach, read_log, send, wire_client
from tests.harness.daemon import Daemon
from tests.harness.scripts import section, shell_call
from tests.harness.wire_client import WireClient
from tests.targets.machines import SshServer

# It ignores SIGTERM, and so does its child, which has its own session.
STUBBORN = "trap '' TERM HUP; (trap '' TERM HUP; setsid sleep 600 &); echo up $BUDDY_CALL; sleep 600; sleep 600"
FAR = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("container", "ssh")]
KINDS = ["local", "confined", *FAR]


class Site(Struct, frozen=True):
    """A daemon, the options for a session on the target, and direct access to the same machine."""

    kind: str
    daemon: Daemon
    root: str
    options: dict[str, object]
    beside: Launcher

    async def launchers(self, nonce: str) -> int:
        counted = f"grep -lszxF BUDDY_CALL={nonce} /proc/[0-9]*/environ 2>/dev/null | wc -l"
        return int((await ask(self.beside, ["sh", "-c", counted])).output)

    async def begin(self, client: WireClient) -> tuple[str, str, str]:
        """Start a session with a running command; returns its id, its run's and the mark of the command."""
        repo = {"rootPath": self.root}
        request = {"mode": "interactive", "provider": "default", "sandboxProvider": "local", "repo": repo}
        reply = await client.ask("start_session", {**request, "options": {"approvalPolicy": "all", **self.options}})
        session_id = str(reply["sessionId"])
        run_id = await send(client, session_id, "stay")
        up = await client.wait_for("tool_output", lambda payload: "up" in payload["text"])
        return session_id, run_id, up["payload"]["text"].split()[1]


@pytest.fixture(params=KINDS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Generator[Site]:
    kind: str = request.param
    place = tmp_path_factory.mktemp("o")
    beside: Launcher = LocalLauncher()
    options: dict[str, object] = {}
    root = str(place / "d" / "workspace")
    if kind == "confined":
        if not probe().method:
            pytest.skip(probe().reason)
        options = {"sandbox": "confined"}
    elif kind == "container":
        name: str = request.getfixturevalue("container")
        beside, root = ContainerLauncher(name, "podman"), "/work"
        options = {"target": f"container:{name}"}
    elif kind == "ssh":
        server: SshServer = request.getfixturevalue("sshd")
        options = {"target": "ssh:127.0.0.1"}
        monkeypatch.setenv("PATH", f"{_ssh_with(server, place)}:{os.environ['PATH']}")
    with Daemon(place / "d", script=[section("^stay", {"calls": [shell_call(STUBBORN)]}, {"text": "ok"})]) as daemon:
        yield Site(kind, daemon, root, options, beside)


def _ssh_with(server: SshServer, place: Path) -> Path:
    """An ssh with the server's options: ssh finds its configuration by user id, not by HOME."""
    folder = place / "bin"
    folder.mkdir()
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {shlex.join(server.options)} "$@"\n')
    program.chmod(0o755)
    return folder


# test_contract covers cancelling on the other targets, without a daemon.
HERE = pytest.mark.parametrize("site", ["local", "confined"], indirect=True)


@HERE
async def test_cancelling_a_run_leaves_no_process(site: Site) -> None:
    async with wire_client(site.daemon) as client:
        session_id, run_id, nonce = await site.begin(client)
        assert await site.launchers(nonce) >= 2
        await client.ask("cancel_run", {"sessionId": session_id, "runId": run_id}, session_id)
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "cancelled"
        assert await site.launchers(nonce) == 0


@HERE
async def test_stopping_the_daemon_leaves_no_process(site: Site) -> None:
    async with wire_client(site.daemon) as client:
        _, _, nonce = await site.begin(client)
    assert site.daemon.stop() == 0
    assert await site.launchers(nonce) == 0


async def test_orphans_of_a_killed_daemon_are_ended_at_the_next_start(site: Site) -> None:
    async with wire_client(site.daemon) as client:
        session_id, _, nonce = await site.begin(client)
    site.daemon.kill()
    # A confined process dies with the one that confined it; the others keep running there.
    assert site.kind == "confined" or await site.launchers(nonce) >= 2
    site.daemon.start()
    async with wire_client(site.daemon) as client:
        await attach(client, session_id)
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        (result,) = [event["payload"] for event in await read_log(client, session_id) if event["type"] == "tool_result"]
    assert result["structuredError"]["type"] == "UNKNOWN_OUTCOME"
    assert await site.launchers(nonce) == 0

"""Sessions on each target, over the protocol, with a real daemon."""

import asyncio
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from buddy.targets.confine import probe
from tests.harness.clients import attach, decide, read_log, send, wire_client
from tests.harness.daemon import Daemon
from tests.harness.installed import need
from tests.harness.scripts import section, shell_call
from tests.harness.wire_client import ErrorResponse, Message, WireClient

SCRIPT = [
    section(
        "^wait",
        {"calls": [shell_call("echo early; while ! [ -e go ]; do sleep 0.05; done; echo x >after; echo late")]},
        {"text": "ok"},
    ),
    section(
        "^write",
        {"calls": [shell_call("echo in >inside; echo out >/var/buddy-probe; echo x >.git/config")]},
        {"text": "ok"},
    ),
    section(
        "^where",
        {"calls": [shell_call("pwd"), {"name": "write_file", "args": {"path": "a", "content": "b"}}]},
        {"text": "ok"},
    ),
]


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short: it contains sockets."""
    return tmp_path_factory.mktemp("s")


@pytest.fixture
def daemon(place: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Daemon]:
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TMUX_TMPDIR", str(place))
    with Daemon(place / "d", script=SCRIPT) as found:
        yield found
    subprocess.run(["tmux", "kill-server"], check=False, capture_output=True)


async def begin(client: WireClient, root: str, mode: str = "interactive", **options: object) -> str:
    request = {"mode": mode, "provider": "default", "sandboxProvider": "local", "repo": {"rootPath": root}}
    reply = await client.ask("start_session", {**request, "options": {"approvalPolicy": "all", **options}})
    return str(reply["sessionId"])


async def results(client: WireClient, session_id: str) -> list[Message]:
    return [event["payload"] for event in await read_log(client, session_id) if event["type"] == "tool_result"]


async def test_a_command_in_a_pane_outlives_the_daemon_and_its_result_is_used(daemon: Daemon, place: Path) -> None:
    need("tmux")
    work = place / "work"
    work.mkdir()
    async with wire_client(daemon) as client:
        session_id = await begin(client, str(work), tmux=True)
        await send(client, session_id, "wait")
        await client.wait_for("tool_output")
    daemon.kill()
    (work / "go").touch()
    daemon.start()
    async with wire_client(daemon) as client:
        await attach(client, session_id)
        async with asyncio.timeout(60):
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        events = await read_log(client, session_id)
        assert [event["payload"]["action"] for event in events if "action" in event["payload"]] == ["reattached"]
        (result,) = await results(client, session_id)
        assert result["text"] == "exit code: 0\nstdout:\nearly\nlate"
        assert result["target"] == "local"
        [changed] = [event["payload"]["files"] for event in events if event["type"] == "files_changed"]
        assert "after" in [file["path"] for file in changed]
    verified = daemon.run("replay", session_id, "--verify")
    assert verified.code == 0, verified.out


async def test_a_confined_session_writes_only_in_its_workspace(daemon: Daemon, place: Path) -> None:
    proof = probe.probe()
    if not proof.method:
        pytest.skip(proof.reason)
    work = place / "work"
    work.mkdir()
    async with wire_client(daemon) as client:
        session_id = await begin(client, str(work), sandbox="confined")
        await send(client, session_id, "write")
        await client.wait_for("run_complete")
        (result,) = await results(client, session_id)
    assert result["exitCode"] == 1
    assert not Path("/var/buddy-probe").exists()  # noqa: ASYNC240 - a look
    assert [path.name for path in work.iterdir()] == ["inside"]


ALLOW = """
[[permissions.rules]]
decision = "allow"
tool = "run_shell"
argv = ["./connect", "PORT"]
"""


async def test_a_confined_command_has_network_only_if_its_call_was_approved_with_it(place: Path, listener: int) -> None:
    proof = probe.probe()
    if not proof.method:
        pytest.skip(proof.reason)
    words = f"./connect {listener}"
    call = {"name": "run_shell", "args": {"command": words, "network": True}}
    script = [section("^try", {"calls": [shell_call(words)]}, {"calls": [call]}, {"text": "ok"})]
    daemon = Daemon(place / "n", script=script)
    daemon.config.write_text(daemon.config.read_text() + ALLOW.replace("PORT", str(listener)))
    program = daemon.workspace / "connect"
    program.write_text("#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/$1\n")
    program.chmod(0o755)
    with daemon:
        async with wire_client(daemon) as client:
            session_id = await begin(client, str(daemon.workspace), sandbox="confined", approvalPolicy="ask")
            await send(client, session_id, "try")
            asked = await client.wait_for("approval_required")
            assert asked["payload"]["details"]["network"] == "on"
            assert asked["payload"]["title"] == "run a shell command with network"
            assert asked["payload"]["details"]["alwaysRule"]["network"] is True
            await decide(client, asked)
            await client.wait_for("run_complete")
            without, allowed = await results(client, session_id)
    assert (without["exitCode"], allowed["exitCode"]) == (1, 0)


async def test_approving_all_in_a_headless_run_does_not_open_the_network(place: Path) -> None:
    proof = probe.probe()
    if not proof.method:
        pytest.skip(proof.reason)
    call = {"name": "run_shell", "args": {"command": "touch inside", "network": True}}
    script = [section("^try", {"calls": [call]}, {"calls": [shell_call("touch confined")]}, {"text": "ok"})]
    with Daemon(place / "a", script=script) as daemon:
        async with wire_client(daemon) as client:
            session_id = await begin(client, str(daemon.workspace), "headless", sandbox="confined")
            await send(client, session_id, "try")
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
            denied, _ = await results(client, session_id)
    assert "denied by rule:network" in denied["text"]
    assert sorted(path.name for path in daemon.workspace.iterdir()) == ["a.txt", "confined"]


async def test_in_a_container_without_network_the_policy_auto_asks_nothing(container: str, place: Path) -> None:
    with Daemon(place / "d", script=SCRIPT) as daemon:
        async with wire_client(daemon) as client:
            session_id = await begin(client, "/work", target=f"container:{container}", approvalPolicy="auto")
            await send(client, session_id, "where")
            await client.wait_for("run_complete")
            events = await read_log(client, session_id)
    assert "approval_required" not in [event["type"] for event in events]
    decided = [event["payload"]["by"] for event in events if event["type"] == "approval_received"]
    assert decided == ["policy", "policy"]


async def test_events_in_a_container_name_it(container: str, place: Path) -> None:
    with Daemon(place / "c", script=SCRIPT) as daemon:
        async with wire_client(daemon) as client:
            session_id = await begin(client, "/work", target=f"container:{container}")
            await send(client, session_id, "where")
            await client.wait_for("run_complete")
            for event in await read_log(client, session_id):
                if event["type"] in ("tool_call", "tool_claimed", "tool_result"):
                    assert event["payload"]["target"] == f"container:{container}"
            shown, written = await results(client, session_id)
            assert shown["text"] == "exit code: 0\nstdout:\n/work"
            assert not written["isError"]
            with pytest.raises(ErrorResponse, match=f"the files are on container:{container}"):
                await client.ask("restore_files", {}, session_id)


async def test_an_unavailable_target_or_sandbox_is_refused(daemon: Daemon, place: Path) -> None:
    need("ssh", "podman")
    async with wire_client(daemon) as client:
        with pytest.raises(ErrorResponse, match="SANDBOX_UNAVAILABLE"):
            await begin(client, "/work", target="container:no-such-container")
        for options in ({"target": "ssh:-oProxyCommand=id"}, {"sandbox": "container"}, {"tmux": "a;kill-server"}):
            with pytest.raises(ErrorResponse, match=r"SANDBOX_UNAVAILABLE|INVALID_REQUEST"):
                await begin(client, str(place), **options)

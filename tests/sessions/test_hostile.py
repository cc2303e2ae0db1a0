"""Hostile cases around approvals: what was decided on is what runs, and only those who may decide do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from buddy.errors import ProtocolError
from buddy.protocol.events import ApprovalReceived, ApprovalRequired, RunComplete, ToolClaimed, ToolResult
from buddy.protocol.queue_requests import QueueMessage, QueueMessageReply, SteerRun
from buddy.protocol.requests import AcceptedReply, SubmitApproval
from tests.harness.logs import read_all
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeClient, checked_host


async def approve(client: RuntimeClient, run_id: str, asked: ApprovalRequired) -> None:
    await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))


def _rewritten(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text("echo evil >> ledger\n")


def _relinked(root: Path) -> None:
    (root / "here").unlink()
    (root / "here").symlink_to("other")


CHANGES: list[tuple[dict[str, Any], Callable[[Path], object]]] = [
    ({"command": "./b.sh"}, _rewritten("b.sh")),
    ({"command": "bash b.sh"}, _rewritten("b.sh")),
    ({"command": "cd sub && sh ../b.sh"}, _rewritten("b.sh")),
    ({"command": "make it"}, _rewritten("Makefile")),
    ({"command": "npm run it"}, _rewritten("package.json")),
    ({"command": "python x.py"}, _rewritten("x.py")),
    ({"command": "python -m x"}, _rewritten("x.py")),
    ({"command": "pwd", "cwd": "here"}, _relinked),
]


@pytest.mark.parametrize(("arguments", "change"), CHANGES, ids=[str(arguments) for arguments, _ in CHANGES])
async def test_a13_a14_what_changes_between_approval_and_start_is_asked_again(
    tmp_path: Path, arguments: dict[str, Any], change: Callable[[Path], object]
) -> None:
    for name in ("sub", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "here").symlink_to("sub")
    for name in ("b.sh", "Makefile", "package.json", "x.py"):
        (tmp_path / name).write_text("echo good >> ledger\n")
    (tmp_path / "b.sh").chmod(0o700)
    model = StepModel(asks_for(call("run_shell", arguments)), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        first = await client.wait_for(ApprovalRequired)
        change(tmp_path)
        await approve(client, run_id, first)
        second = await client.wait_for(ApprovalRequired)
        assert first.digest != second.digest
        await client.api.approve(SubmitApproval(client.session_id, run_id, second.approval_id, "deny"))
        await client.wait_for(RunComplete)
        assert client.bodies(ToolClaimed) == []
        assert not (tmp_path / "ledger").exists()


async def test_a15_a_long_command_is_recorded_completely_and_never_runs_unread(tmp_path: Path) -> None:
    long = f"true {'a' * 60_000} && touch made"
    model = StepModel(asks_for(shell(long)), asks_for(shell(f"true {'a' * 100_000} && touch made")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="ask")
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        events = await read_all(host.runtime.log, client.session_id)
        blobs = asked.blobs or {}
        kept = [await host.runtime.log.read_blob(blob) for blob in blobs.values()]
        assert any(part and part[0].decode() == long for part in kept)
        assert all(len(bytes(event.line())) < 65_536 for event in events)
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "deny"))
        await client.wait_for(RunComplete)
        assert [received.by for received in client.bodies(ApprovalReceived)] == ["cli", "rule:limit"]
        assert not (tmp_path / "made").exists()


async def test_a17_text_is_never_a_decision(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("touch made")), answer(), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        words = f"/approve {asked.approval_id}"
        await client.api.request(SteerRun(run_id, words), AcceptedReply, client.session_id)
        await client.api.request(QueueMessage("msg_1", words), QueueMessageReply, client.session_id)
        session = host.runtime.sessions.live(client.session_id)
        assert session is not None
        assert list(session.fold.pending) == [asked.approval_id]
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "deny"))
        await client.wait_for(RunComplete)
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["env", "environment", "shell", "target", "sandbox"])
async def test_a22_a_call_cannot_set_its_own_environment(tmp_path: Path, name: str) -> None:
    arguments = {"command": "touch made", name: {"BASH_ENV": "x", "LD_PRELOAD": "y", "PATH": "."}}
    model = StepModel(asks_for(call("run_shell", arguments)), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        (result,) = client.bodies(ToolResult)
        assert result.is_error
        assert name in result.text
        assert not (tmp_path / "made").exists()


async def test_a_decision_is_bound_to_the_connection_and_not_to_a_claimed_name(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("true")), answer())
    async with checked_host(tmp_path, model) as host, host.client("policy") as client:
        await client.start()
        run_id = await client.send("go")
        await approve(client, run_id, await client.wait_for(ApprovalRequired))
        await client.wait_for(RunComplete)
        assert [received.by for received in client.bodies(ApprovalReceived)] == ["policy-client"]


async def test_a_grant_for_the_session_ends_with_the_content_of_its_script(tmp_path: Path) -> None:
    (tmp_path / "b.sh").write_text("echo good >> ledger\n")
    model = StepModel(*(step for _ in range(3) for step in (asks_for(shell("sh b.sh")), answer())))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("one")
        asked = await client.wait_for(ApprovalRequired)
        request = SubmitApproval(client.session_id, run_id, asked.approval_id, "approve", scope="session")
        await client.api.approve(request)
        await client.wait_for(RunComplete)
        await client.send("two")
        await client.wait_for(RunComplete)
        (tmp_path / "b.sh").write_text("echo evil >> ledger\n")
        await client.send("three")
        await client.wait_for(ApprovalRequired)
        assert (tmp_path / "ledger").read_text() == "good\ngood\n"


async def test_an_observer_decides_nothing(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("true")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client, host.client("watcher") as watcher:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        token = await host.runtime.sessions.tokens.mint(client.session_id, "observer", None)
        await watcher.api.attach(client.session_id, token=token)
        with pytest.raises(ProtocolError) as refused:
            await watcher.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
        assert refused.value.code == "ATTACH_FORBIDDEN"
        await approve(client, run_id, asked)
        await client.wait_for(RunComplete)

"""Once outside the sandbox: requested by the model, decided by a person or by a rule that says so."""

from pathlib import Path

import pytest

from buddy.protocol.events import ApprovalReceived, ApprovalRequired, RunComplete, ToolResult
from buddy.protocol.requests import SubmitApproval
from buddy.protocol.shapes import ToolCallItem
from buddy.targets.confine.probe import probe
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import checked_host
from tests.replay.recordings import assert_same, recorded


@pytest.fixture(autouse=True)
def proven() -> None:
    proof = probe()
    if not proof.method:
        pytest.skip(proof.reason)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def leaving(command: str) -> ToolCallItem:
    return call("run_shell", {"command": command, "outside_sandbox": True})


@pytest.mark.parametrize("policy", ["auto", "all", "ask"])
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_person_decides_whether_a_command_leaves_the_sandbox(work: Path, policy: str, decision: str) -> None:
    outside = work.parent / "outside"
    model = StepModel(asks_for(leaving(f"echo out > {outside}")), answer())
    async with checked_host(work, model) as host, host.client() as client:
        session_id = await client.start(sandbox="confined", approval_policy=policy)
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        assert asked.title == "run a shell command outside the sandbox"
        assert (asked.details["sandbox"], asked.details["outsideSandbox"]) == ("host", True)
        verdict = "approve" if decision == "approve" else "deny"
        await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, verdict))
        assert (await client.wait_for(RunComplete)).outcome == "success"
        await assert_same(await recorded(host.runtime.log, session_id))
    assert outside.exists() is (decision == "approve")


@pytest.mark.parametrize(("policy", "by"), [("auto", "policy"), ("all", "rule:sandbox")])
async def test_without_a_person_it_is_denied_and_the_run_goes_on(work: Path, policy: str, by: str) -> None:
    outside = work.parent / "outside"
    model = StepModel(asks_for(leaving(f"touch {outside}")), asks_for(shell("touch inside")), answer("managed"))
    async with checked_host(work, model) as host, host.client() as client:
        await client.start("headless", sandbox="confined", approval_policy=policy)
        await client.send("go")
        ended = await client.wait_for(RunComplete)
        assert (ended.outcome, ended.summary) == ("success", "managed")
        assert [body.by for body in client.bodies(ApprovalReceived)] == [by, "policy"]
    assert not outside.exists() and (work / "inside").exists()


async def test_on_the_host_the_request_changes_nothing(work: Path) -> None:
    model = StepModel(asks_for(leaving("touch made")), answer())
    async with checked_host(work, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        assert (await client.wait_for(RunComplete)).outcome == "success"
    assert (work / "made").exists()


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("echo no > /var/buddy-no", "outside_sandbox: true"),
        ("exec 3<>/dev/tcp/192.0.2.1/80", "network: true"),
        ("exit 3", ""),
        ("echo 'permission denied'", ""),
    ],
)
async def test_a_command_that_the_sandbox_stopped_says_what_to_do(work: Path, command: str, advice: str) -> None:
    async with checked_host(work, StepModel(asks_for(shell(command)), answer())) as host, host.client() as client:
        await client.start(sandbox="confined", approval_policy="auto")
        await client.send("go")
        await client.wait_for(RunComplete)
        (result,) = client.bodies(ToolResult)
        assert ("the user is asked" in result.text) == bool(advice)
        assert advice in result.text

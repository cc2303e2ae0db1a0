"""Once outside the sandbox: requested by the model, decided by a person or by a rule that says so."""

from pathlib import Path

import pytest

from buddy.protocol.events import ApprovalReceived, ApprovalRequired, Recovery, RunComplete, ToolResult
from buddy.protocol.requests import SetApprovalPolicy, SetApprovalPolicyReply, SubmitApproval
from buddy.protocol.shapes import ToolCallItem
from buddy.targets.confine.probe import probe
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import checked_host, crash
from tests.replay.recordings import assert_same, recorded
from tests.sessions.recovering import Logs, recovered_client


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


@pytest.mark.parametrize("seconds", [None, 60.0])
@pytest.mark.parametrize("wanted", [{"outside_sandbox": True}, {"network": True}])
async def test_a_lenient_policy_leaves_what_waits_to_leave_the_sandbox_to_the_person(
    work: Path, wanted: dict[str, bool], seconds: float | None
) -> None:
    """Another question that the policy does cover is decided by it at once."""
    leaves = call("run_shell", {"command": "touch left", **wanted})
    model = StepModel(asks_for(leaves, shell("touch inside")), answer())
    async with checked_host(work, model) as host, host.client() as client:
        session_id = await client.start(sandbox="confined")
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        policy = SetApprovalPolicy("all") if seconds is None else SetApprovalPolicy("until", seconds)
        await client.api.request(policy, SetApprovalPolicyReply, session_id)
        assert client.bodies(ApprovalReceived) == []
        assert not (work / "left").exists()
        await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "deny"))
        assert (await client.wait_for(RunComplete)).outcome == "success"
        decided = {(body.by, body.decision) for body in client.bodies(ApprovalReceived)}
        assert decided == {("cli", "deny"), ("policy", "approve")}
        await assert_same(await recorded(host.runtime.log, session_id))
    assert (work / "inside").exists() and not (work / "left").exists()


async def test_denying_everything_denies_what_waits_to_leave_the_sandbox(work: Path) -> None:
    async with (
        checked_host(work, StepModel(asks_for(leaving("touch left")), answer())) as host,
        host.client() as client,
    ):
        session_id = await client.start(sandbox="confined")
        await client.send("go")
        await client.wait_for(ApprovalRequired)
        await client.api.request(SetApprovalPolicy("none"), SetApprovalPolicyReply, session_id)
        await client.wait_for(RunComplete)
        assert [(body.by, body.decision) for body in client.bodies(ApprovalReceived)] == [("policy", "deny")]
        await assert_same(await recorded(host.runtime.log, session_id))


@pytest.mark.parametrize("leaves", [True, False])
async def test_after_a_crash_a_lenient_policy_decides_what_it_covers_alone(
    work: Path, logs: Logs, leaves: bool
) -> None:
    """The policy is set before the call has been prepared again, or afterwards: both end alike."""
    item = leaving("touch made") if leaves else shell("touch made")
    async with checked_host(work, StepModel(asks_for(item)), log=logs()) as host, host.client() as client:
        session_id = await client.start(sandbox="confined")
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        await crash(host, session_id)
        async with recovered_client(host, session_id, StepModel(answer()), logs()) as after:
            await after.api.request(SetApprovalPolicy("all"), SetApprovalPolicyReply, session_id)
            if leaves:
                await after.wait_for(Recovery)
                await after.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "deny"))
            await after.wait_for(RunComplete)
            decided = [(body.by, body.decision) for body in after.bodies(ApprovalReceived)]
            assert decided == [("cli", "deny") if leaves else ("policy", "approve")]
    assert (work / "made").exists() is not leaves


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


@pytest.mark.parametrize("name", [".github/workflows/ci.yml", ".vscode/settings.json", ".envrc"])
@pytest.mark.parametrize("policy", ["auto", "all"])
async def test_a_protected_file_is_written_if_a_person_approves_it_and_by_no_policy(
    work: Path, name: str, policy: str
) -> None:
    model = StepModel(asks_for(call("write_file", {"path": name, "content": "on: push\n"})), answer())
    async with checked_host(work, model) as host, host.client() as client:
        session_id = await client.start(sandbox="confined", approval_policy=policy)
        run_id = await client.send("go")
        if policy == "auto":
            asked = await client.wait_for(ApprovalRequired)
            assert asked.title == "write a protected file, which can make programs run"
            await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert [result.is_error for result in client.bodies(ToolResult)] == [policy == "all"]
    assert (work / name).is_file() is (policy == "auto")

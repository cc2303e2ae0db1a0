"""The policy `auto`: what stays in the sandbox runs, whatever needs more is asked, and nothing of it ends a run."""

import asyncio
from pathlib import Path

import pytest

from buddy.protocol.events import (
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    RunComplete,
    ToolResult,
)
from buddy.protocol.requests import SetApprovalPolicy, SetApprovalPolicyReply, SubmitApproval
from buddy.protocol.shapes import RunOptions, ToolCallItem
from buddy.targets.confine.probe import probe
from tests.harness.clock import ManualClock
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeClient, checked_host, crash
from tests.sessions.recovering import Logs, recovered_client


@pytest.fixture
def confined() -> str:
    proof = probe()
    if not proof.method:
        pytest.skip(proof.reason)
    return "confined"


def online(command: str) -> ToolCallItem:
    return call("run_shell", {"command": command, "network": True})


async def set_policy(client: RuntimeClient, request: SetApprovalPolicy) -> None:
    await client.api.request(request, SetApprovalPolicyReply, client.session_id)


async def answer_question(client: RuntimeClient, run_id: str, question: ApprovalRequired) -> None:
    await client.api.approve(SubmitApproval(client.session_id, run_id, question.approval_id, "approve"))


async def test_calls_inside_the_sandbox_run_and_are_recorded_as_decided_by_policy(
    tmp_path: Path, confined: str
) -> None:
    write = call("write_file", {"path": "b", "content": "b"})
    edit = call("edit_file", {"path": "b", "old": "b", "new": "c"})
    model = StepModel(asks_for(shell("for x in a; do echo $x > $x; done"), write), asks_for(edit), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(sandbox=confined, approval_policy="auto")
        await client.send("go")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert client.bodies(ApprovalRequired) == []
        assert [(body.by, body.decision) for body in client.bodies(ApprovalReceived)] == [("policy", "approve")] * 3
        assert [body.is_error for body in client.bodies(ToolResult)] == [False] * 3
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("a\n", "c")


@pytest.mark.parametrize("wanted", ["network", "fetch"])
async def test_what_needs_more_than_the_sandbox_is_asked(tmp_path: Path, confined: str, wanted: str) -> None:
    more = online("true") if wanted == "network" else call("fetch_url", {"url": "http://127.0.0.1:9/"})
    async with checked_host(tmp_path, StepModel(asks_for(more), answer())) as host, host.client() as client:
        await client.start(sandbox=confined, approval_policy="auto")
        run_id = await client.send("go")
        await answer_question(client, run_id, await client.wait_for(ApprovalRequired))
        assert (await client.wait_for(RunComplete)).outcome == "success"


async def test_on_the_host_auto_asks_like_ask(tmp_path: Path) -> None:
    for item in (shell("touch made"), call("write_file", {"path": "made", "content": ""})):
        async with checked_host(tmp_path, StepModel(asks_for(item))) as host, host.client() as client:
            await client.start(approval_policy="auto")
            run_id = await client.send("go")
            question = await client.wait_for(ApprovalRequired)
            assert question.details["sandbox"] == "host"
            await client.api.cancel(client.session_id, run_id)
            await client.wait_for(RunComplete)
    assert not (tmp_path / "made").exists()


async def test_without_a_person_the_denial_goes_back_to_the_model_and_the_run_goes_on(
    tmp_path: Path, confined: str
) -> None:
    model = StepModel(asks_for(online("touch online")), asks_for(shell("touch offline")), answer("managed"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start("headless", sandbox=confined, approval_policy="auto")
        await client.send("go")
        ended = await client.wait_for(RunComplete)
        assert (ended.outcome, ended.summary) == ("success", "managed")
        assert client.bodies(ApprovalRequired) == []
        decided = [(body.by, body.decision) for body in client.bodies(ApprovalReceived)]
        assert decided == [("policy", "deny"), ("policy", "approve")]
        assert "nobody can be asked" in client.bodies(ToolResult)[0].text
    assert not (tmp_path / "online").exists() and (tmp_path / "offline").exists()


async def test_an_attended_headless_session_asks(tmp_path: Path, confined: str) -> None:
    model = StepModel(asks_for(online("touch online")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start("headless", sandbox=confined, approval_policy="auto", attended=True)
        run_id = await client.send("go")
        await answer_question(client, run_id, await client.wait_for(ApprovalRequired))
        assert (await client.wait_for(RunComplete)).outcome == "success"
    assert (tmp_path / "online").exists()


async def test_without_a_person_the_first_denial_under_ask_still_ends_the_run(tmp_path: Path, confined: str) -> None:
    model = StepModel(asks_for(shell("touch made")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start("headless", sandbox=confined)
        await client.send("go")
        assert (await client.wait_for(RunComplete)).outcome == "denied"


async def test_switching_to_auto_leaves_what_waits_to_the_person(tmp_path: Path, confined: str) -> None:
    async with checked_host(tmp_path, StepModel(asks_for(shell("true")), answer())) as host, host.client() as client:
        await client.start(sandbox=confined)
        run_id = await client.send("go")
        question = await client.wait_for(ApprovalRequired)
        await set_policy(client, SetApprovalPolicy("auto"))
        await answer_question(client, run_id, question)
        await client.wait_for(RunComplete)
        assert [body.by for body in client.bodies(ApprovalReceived)] == ["cli"]


@pytest.mark.parametrize("given_at", ["start", "later"])
async def test_after_a_window_auto_is_in_force_again(
    tmp_path: Path, confined: str, clock: ManualClock, given_at: str
) -> None:
    model = StepModel(asks_for(shell("touch inside")), answer(), asks_for(online("true")), answer())
    async with checked_host(tmp_path, model, clock=clock) as host, host.client() as client:
        await client.start(sandbox=confined, approval_policy="auto" if given_at == "start" else "ask")
        if given_at == "later":
            await set_policy(client, SetApprovalPolicy("auto"))
        await set_policy(client, SetApprovalPolicy("until", 60))
        clock.advance(60)
        await client.send("inside")
        await client.wait_for(RunComplete)
        assert client.bodies(ApprovalRequired) == []
        run_id = await client.send("outside")
        await answer_question(client, run_id, await client.wait_for(ApprovalRequired))
        await client.wait_for(RunComplete)


async def test_after_the_window_of_a_run_the_sessions_policy_is_in_force(
    tmp_path: Path, confined: str, clock: ManualClock
) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *asks_for(shell("touch inside"))], answer())
    async with checked_host(tmp_path, model, clock=clock) as host, host.client() as client:
        await client.start(sandbox=confined, approval_policy="auto")
        await client.send("go", options=RunOptions(approval_policy="1m"))
        clock.advance(61)
        gate.set()
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert client.bodies(ApprovalRequired) == []


async def test_a_restart_ends_a_window_and_auto_is_in_force_again(tmp_path: Path, confined: str, logs: Logs) -> None:
    model = StepModel([asyncio.Event()])
    async with checked_host(tmp_path, model, log=logs()) as host, host.client() as client:
        session_id = await client.start(sandbox=confined, approval_policy="auto")
        await set_policy(client, SetApprovalPolicy("until", 3600))
        await client.send("go")
        await model.waiting.wait()
        await crash(host, session_id)
        async with recovered_client(host, session_id, StepModel(asks_for(shell("true")), answer()), logs()) as after:
            assert (await after.wait_for(RunComplete)).outcome == "success"
            assert after.bodies(ApprovalRequired) == []
            changes = [(body.policy, body.by) for body in after.bodies(ApprovalPolicyChanged)]
            assert changes == [("until", "cli"), ("auto", "restart")]

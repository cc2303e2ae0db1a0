"""Approvals: one decision each, bound to exactly what runs, and what becomes of a denial."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Literal

import pytest

from buddy.approvals.permissions import Permissions
from buddy.approvals.questions import Question
from buddy.config.settings import AgentSettings
from buddy.errors import ProtocolError
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalReceived,
    ApprovalRequired,
    RunComplete,
    ToolCall,
    ToolClaimed,
    ToolResult,
)
from buddy.protocol.intents import Exec
from buddy.protocol.requests import (
    GetSnapshot,
    GetSnapshotReply,
    ListApprovals,
    ListApprovalsReply,
    SubmitApproval,
)
from buddy.protocol.shapes import BudgetLimits, RunOptions, ToolCallItem
from tests.harness.clock import ManualClock
from tests.harness.files import names_in
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeClient, checked_host, recorded_types


async def decide(
    client: RuntimeClient,
    asked: ApprovalRequired,
    decision: Literal["approve", "deny"] = "approve",
    *,
    run_id: str | None = None,
    session_id: str | None = None,
    comment: str | None = None,
    scope: Literal["once", "session", "always"] = "once",
    stop: bool = False,
) -> None:
    """As a client decides; without a run id, for the run that asked."""
    run = (
        run_id
        or next(event.run_id for event in client.received if asked.approval_id.encode() in bytes(event.payload))
        or ""
    )
    target = session_id or client.session_id
    await client.api.approve(SubmitApproval(target, run, asked.approval_id, decision, comment, scope, stop))


async def code_of(work: "asyncio.Task[None]") -> str:
    with pytest.raises(ProtocolError) as refusal:
        await work
    return refusal.value.code


async def refusal_of(client: RuntimeClient, asked: ApprovalRequired, run_id: str, session_id: str | None = None) -> str:
    deciding = decide(client, asked, run_id=run_id, session_id=session_id)
    return await code_of(asyncio.get_running_loop().create_task(deciding))


@pytest.mark.parametrize("clients", [2, 50])
async def test_the_first_decision_wins_and_the_others_are_refused(tmp_path: Path, clients: int) -> None:
    model = StepModel(asks_for(shell("touch made")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("make it")
        asked = await client.wait_for(ApprovalRequired)

        async def submit(number: int) -> str:
            async with host.client(f"client{number}") as other:
                other.session_id = client.session_id
                try:
                    await decide(other, asked, "deny" if number % 2 else "approve", run_id=run_id)
                except ProtocolError as error:
                    return error.code
                return f"client{number}"

        told = await asyncio.gather(*(submit(number) for number in range(clients)))
        winners = [name for name in told if name.startswith("client")]
        assert len(winners) == 1
        assert set(told) - set(winners) == {"APPROVAL_EXPIRED"}
        await client.wait_for(RunComplete)
        assert [received.by for received in client.bodies(ApprovalReceived)] == winners
        assert await refusal_of(client, asked, run_id) == "APPROVAL_EXPIRED"


async def test_a_decision_that_stores_a_rule_is_not_overtaken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storing = threading.Event()

    def remember(_permissions: Permissions, _asked: ApprovalRequired) -> None:
        storing.set()
        time.sleep(0.1)

    monkeypatch.setattr(Permissions, "remember", remember)
    model = StepModel(asks_for(shell("touch made")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client, host.client("late") as other:
        other.session_id = await client.start()
        run_id = await client.send("make it")
        asked = await client.wait_for(ApprovalRequired)
        first = asyncio.get_running_loop().create_task(decide(client, asked, scope="always"))
        assert await asyncio.to_thread(storing.wait, 10)
        late = asyncio.get_running_loop().create_task(decide(other, asked, "deny", run_id=run_id))
        assert await code_of(late) == "APPROVAL_EXPIRED"
        await first
        received = await client.wait_for(ApprovalReceived)
        assert (received.decision, received.scope) == ("approve", "always")
        assert (await client.wait_for(RunComplete)).outcome == "success"


async def test_an_approval_of_another_run_or_session_is_not_found(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("true")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        mine = await client.start()
        other = await client.start()
        client.session_id = mine
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        assert await refusal_of(client, asked, "run_other") == "APPROVAL_NOT_FOUND"
        assert await refusal_of(client, asked, run_id, other) == "APPROVAL_NOT_FOUND"
        unknown = ApprovalRequired(
            approval_id="appr_unknown", kind="exec", title="", summary="", details={}, options=("deny",), expires_at=0
        )
        assert await refusal_of(client, unknown, run_id) == "APPROVAL_NOT_FOUND"
        await decide(client, asked)
        assert (await client.wait_for(RunComplete)).outcome == "success"


async def test_an_approval_without_a_decision_expires_and_the_run_ends_as_denied(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("touch made")), answer("I see"))
    async with (
        checked_host(tmp_path, model, agent=AgentSettings(model="test", approval_timeout_seconds=0.05)) as host,
        host.client() as client,
    ):
        await client.start()
        run_id = await client.send("make it")
        asked = await client.wait_for(ApprovalRequired)
        expired = await client.wait_for(ApprovalExpired)
        assert expired.approval_id == asked.approval_id
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.headless and done.headless.exit_code_hint) == ("denied", 3)
        assert done.summary == "nobody decided in time whether run_shell may run"
        assert client.bodies(ToolResult)[-1].text == "Not run: nobody decided in time."
        assert not (tmp_path / "made").exists()
        assert await refusal_of(client, asked, run_id) == "APPROVAL_EXPIRED"


async def test_a_denial_and_its_reason_go_to_the_model_and_the_run_continues(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("rm -r .")), answer("then not"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("clean up")
        await decide(client, await client.wait_for(ApprovalRequired), "deny", comment="keep my files")
        assert (await client.wait_for(RunComplete)).summary == "then not"
        assert "denied by cli: keep my files" in model.tool_results()[0]
        assert client.bodies(ToolClaimed) == []


async def test_a_denial_that_stops_ends_the_run_as_denied(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("rm -r ."), shell("true")))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("clean up")
        await decide(client, await client.wait_for(ApprovalRequired), "deny", stop=True)
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.reason) == ("denied", "denied")
        assert done.headless is not None
        assert done.headless.exit_code_hint == 3
        assert [result.is_error for result in client.bodies(ToolResult)] == [True, True]


async def test_a_grant_for_the_session_is_for_exactly_that_call(tmp_path: Path) -> None:
    same, other = "echo once >> ledger", "echo other >> ledger"
    model = StepModel(
        asks_for(shell(same)), answer(), asks_for(shell(same)), answer(), asks_for(shell(other)), answer()
    )
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("one")
        await decide(client, await client.wait_for(ApprovalRequired), scope="session")
        await client.wait_for(RunComplete)
        await client.send("two")
        await client.wait_for(RunComplete)
        assert [received.by for received in client.bodies(ApprovalReceived)] == ["cli", "rule:session"]
        await client.send("three")
        asked = await client.wait_for(ApprovalRequired)
        assert asked.details["command"] == other
        await decide(client, asked, "deny")
        await client.wait_for(RunComplete)
        assert (tmp_path / "ledger").read_text() == "once\nonce\n"


async def test_what_changed_after_its_approval_is_asked_again(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("before")
    model = StepModel(asks_for(call("write_file", {"path": "a.txt", "content": "after"})), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("write it")
        first = await client.wait_for(ApprovalRequired)
        target.write_text("changed by somebody else")
        await decide(client, first)
        second = await client.wait_for(ApprovalRequired)
        assert first.digest != second.digest
        assert "changed by somebody else" in second.details["diff"]
        await decide(client, second)
        await client.wait_for(RunComplete)
        assert target.read_text() == "after"
        assert [claimed.digest for claimed in client.bodies(ToolClaimed)] == [second.digest]


async def test_a_headless_run_without_approvals_ends_with_its_first_denial(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("touch one"), shell("touch two")))
    async with checked_host(tmp_path, model) as host, host.client("headless") as client:
        await client.start("headless")
        await client.send("go")
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.headless and done.headless.exit_code_hint) == ("denied", 3)
        assert client.bodies(ApprovalRequired) == []
        assert [received.decision for received in client.bodies(ApprovalReceived)] == ["deny"]
        assert names_in(tmp_path, "*o*") == []
        snapshot = await client.api.request(GetSnapshot(), GetSnapshotReply, client.session_id)
        assert snapshot.state == "failed"


async def test_a_headless_run_may_be_allowed_to_ask(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("true")), answer())
    async with checked_host(tmp_path, model) as host, host.client("headless") as client:
        await client.start("headless")
        await client.send("go", options=RunOptions(approval_policy="ask"))
        await decide(client, await client.wait_for(ApprovalRequired), "deny", comment="no")
        assert (await client.wait_for(RunComplete)).outcome == "success"


async def test_what_waits_is_listed_and_in_the_snapshot(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("true")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        listed = (await client.api.request(ListApprovals(), ListApprovalsReply)).approvals
        assert [(found.approval_id, found.session_id, found.run_id) for found in listed] == [
            (asked.approval_id, session_id, run_id)
        ]
        snapshot = await client.api.request(GetSnapshot(), GetSnapshotReply, session_id)
        assert (snapshot.state, snapshot.active_run_id) == ("awaiting_approval", run_id)
        assert snapshot.pending_approval is not None
        assert snapshot.pending_approval.digest == asked.digest
        await decide(client, asked)
        await client.wait_for(RunComplete)
        assert (await client.api.request(ListApprovals(), ListApprovalsReply)).approvals == ()


@pytest.mark.parametrize(
    "wanted",
    [
        shell("touch made"),
        call("write_file", {"path": "a", "content": "b"}),
        call("fetch_url", {"url": "http://example.com/"}),
    ],
)
async def test_every_question_says_where_and_how_confined(tmp_path: Path, wanted: ToolCallItem) -> None:
    async with checked_host(tmp_path, StepModel(asks_for(wanted), answer())) as host, host.client() as client:
        await client.start()
        await client.send("do it")
        asked = await client.wait_for(ApprovalRequired)
        assert (asked.details["target"], asked.details["sandbox"]) == ("local", "host")
        await decide(client, asked, "deny")
        await client.wait_for(RunComplete)


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_the_time_to_decide_is_not_the_tools(tmp_path: Path, decision: Literal["approve", "deny"]) -> None:
    clock = ManualClock()
    model = StepModel(asks_for(shell("true")), answer())
    async with checked_host(tmp_path, model, clock=clock) as host, host.client() as client:
        await client.start()
        await client.send("do it")
        asked = await client.wait_for(ApprovalRequired)
        clock.advance(60)
        await decide(client, asked, decision)
        await client.wait_for(RunComplete)
        (result,) = client.bodies(ToolResult)
        assert result.duration_ms < 60_000


async def test_without_an_active_run_the_answer_is_no(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel()) as host, host.client() as client:
        session_id = await client.start(approval_policy="all")
        session = host.runtime.sessions.live(session_id)
        assert session is not None
        question = Question("call_1", "privileged", Exec(title="", summary="", command="", cwd=""), "digest")
        ruling = await session.approvals.ask(question)
        assert (ruling.approved, ruling.comment) == (False, "no run is active")
        assert await recorded_types(host, session_id) == ["session_started"]


async def test_a_run_that_ends_while_it_waits_leaves_no_question_behind(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("true")))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(budget=BudgetLimits(max_seconds=1))
        run_id = await client.send("go")
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.reason) == ("failed", "budget_exceeded")
        # On a machine that is slow beyond reason the time is over before anything was asked.
        asked = client.bodies(ApprovalRequired)
        assert [body.approval_id for body in client.bodies(ApprovalExpired)] == [body.approval_id for body in asked]
        assert [await refusal_of(client, body, run_id) for body in asked] == ["APPROVAL_EXPIRED"] * len(asked)


async def test_a_call_is_seen_before_it_is_asked_for_and_claimed_before_it_runs(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("echo hi")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await decide(client, await client.wait_for(ApprovalRequired))
        await client.wait_for(RunComplete)
        order = ["tool_call", "approval_required", "approval_received", "tool_claimed", "tool_output", "tool_result"]
        assert [kind for kind in client.types() if kind in order] == order
        assert client.bodies(ToolCall)[0].args == {"command": "echo hi"}

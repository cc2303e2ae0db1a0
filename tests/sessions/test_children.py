"""Sub-agents: a call of one session starts another, waits for it and pays for it."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from buddy.models.contract import TokenUsage
from buddy.protocol.events import (
    ApprovalReceived,
    ApprovalRequired,
    ChildFinished,
    ChildStarted,
    RunComplete,
    RunStarted,
    SessionStarted,
    ToolResult,
    Usage,
    UserMessage,
)
from buddy.protocol.queue_requests import SteerRun
from buddy.protocol.requests import (
    AcceptedReply,
    CancelRun,
    CancelRunReply,
    ListApprovals,
    ListApprovalsReply,
    ListSessions,
    ListSessionsReply,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SubmitApproval,
)
from buddy.protocol.shapes import BudgetLimits, ToolCallItem
from tests.harness.logs import read_all
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeClient, RuntimeHost, checked_host


def delegate(task: str = "look around", **more: object) -> ToolCallItem:
    return call("delegate", {"task": task, **more})


async def bodies(host: RuntimeHost, session_id: str) -> list[object]:
    return [event.body() for event in await read_all(host.runtime.log, session_id)]


async def child_of(client: RuntimeClient) -> ChildStarted:
    return await client.wait_for(ChildStarted)


async def test_a_sub_agent_answers_in_a_session_of_its_own(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate("count the files")), answer("there are 3"), answer("all done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        started, finished = client.bodies(ChildStarted)[0], client.bodies(ChildFinished)[0]
        assert (started.agent, finished.outcome, finished.usage.input_tokens) == ("general", "success", 10)
        assert [result.text for result in client.bodies(ToolResult)] == ["there are 3"]
        assert model.user_messages(1)[-1].endswith("count the files")
        theirs = await bodies(host, started.session_id)
        start = next(body for body in theirs if isinstance(body, SessionStarted))
        assert start.delegated is not None and start.delegated.parent == client.session_id
        assert [body.by for body in theirs if isinstance(body, UserMessage)] == ["parent"]
        rows = (await client.api.request(ListSessions(), ListSessionsReply)).sessions
        row = next(row for row in rows if row.session_id == started.session_id)
        assert (row.parent, row.agent, row.title) == (client.session_id, "general", "count the files")


async def test_its_tokens_count_in_the_parent(tmp_path: Path) -> None:
    used = TokenUsage(1000, 100)
    model = StepModel(asks_for(delegate()), answer("x", usage=used), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all", budget=BudgetLimits(max_tokens=100_000))
        await client.send("go")
        await client.wait_for(RunComplete)
        assert client.bodies(Usage)[-1].budget.tokens == 15 + 1100 + 15
        share = client.bodies(ChildStarted)[0].budget.max_tokens
        assert share is not None and 49_000 < share < 50_000
        record = await host.runtime.log.get(client.session_id)
        assert record is not None and record.facts.tokens == 1130


async def test_sub_agents_of_one_turn_work_at_the_same_time_and_share_the_budget(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate("one"), delegate("two")), answer("1"), answer("2"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all", budget=BudgetLimits(max_tokens=90_015, max_tool_calls=8))
        await client.send("go")
        await client.wait_for(RunComplete)
        kinds = [event.type for event in client.received if event.type.startswith("child_")]
        assert kinds == ["child_started", "child_started", "child_finished", "child_finished"]
        assert {started.budget.max_tokens for started in client.bodies(ChildStarted)} == {30_000}
        assert sorted(result.text for result in client.bodies(ToolResult)) == ["1", "2"]


async def test_a_question_of_a_sub_agent_is_decided_by_a_client_of_its_parent(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate("touch it")), asks_for(shell("touch made")), answer("made"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="ask")
        await client.send("go")
        own = await client.wait_for(ApprovalRequired)
        assert own.details["agent"] == "general" and own.parent is None
        await decide(client, client.received[-1].session_id, own)
        theirs = await client.wait_for(ApprovalRequired)
        assert (theirs.parent, theirs.agent) == (client.session_id, "general")
        event = client.received[-1]
        assert event.session_id == client.bodies(ChildStarted)[0].session_id
        listed = (await client.api.request(ListApprovals(), ListApprovalsReply)).approvals
        assert [(one.session_id, one.agent) for one in listed] == [(event.session_id, "general")]
        await decide(client, event.session_id, theirs)
        decided = await client.wait_for(ApprovalReceived, lambda body: body.approval_id == theirs.approval_id)
        assert decided.by == "cli"
        await client.wait_for(RunComplete)
        assert (tmp_path / "made").exists()


async def decide(client: RuntimeClient, session_id: str, asked: ApprovalRequired, verdict: str = "approve") -> None:
    run_id = client.received[-1].run_id or ""
    submission = SubmitApproval(session_id, run_id, asked.approval_id, "approve" if verdict == "approve" else "deny")
    await client.api.request(submission, AcceptedReply, session_id)


async def test_a_client_that_attaches_later_receives_what_still_waits(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate()), asks_for(shell("touch made")), answer("no"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="ask")
        await client.send("go")
        await decide(client, client.session_id, await client.wait_for(ApprovalRequired))
        await client.wait_for(ApprovalRequired)
        async with host.client("console") as late:
            await late.api.attach(client.session_id)
            asked = await late.wait_for(ApprovalRequired, lambda body: body.agent is not None)
            await decide(late, late.received[-1].session_id, asked, "deny")
            await late.wait_for(RunComplete)
        assert not (tmp_path / "made").exists()


async def test_cancelling_the_parent_cancels_its_sub_agents(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate()), asks_for(shell("sleep 60")))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        run_id = await client.send("go")
        child = (await child_of(client)).session_id
        await client.api.attach(child)
        await client.wait_for(RunStarted, lambda body: body.run_id != run_id)
        await client.api.request(CancelRun(client.session_id, run_id), CancelRunReply, client.session_id)
        await client.wait_for(RunComplete, lambda body: body.run_id == run_id)
        assert client.bodies(ChildFinished)[0].outcome == "cancelled"
        theirs = [body for body in await bodies(host, child) if isinstance(body, RunComplete)]
        assert [body.outcome for body in theirs] == ["cancelled"]


async def test_a_cancelled_sub_agent_does_not_end_its_parent(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate()), asks_for(shell("sleep 60")), answer("without it"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        run_id = await client.send("go")
        child = (await child_of(client)).session_id
        await client.api.attach(child)
        theirs = await client.wait_for(RunStarted, lambda body: body.run_id != run_id)
        await client.api.request(CancelRun(child, theirs.run_id), CancelRunReply, child)
        complete = await client.wait_for(RunComplete, lambda body: body.run_id == run_id)
        assert (complete.outcome, model.tool_results()[0][:48]) == (
            "success",
            "The sub-agent did not succeed (cancelled): cance",
        )


async def test_a_sub_agent_is_steered_like_any_run(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = StepModel(asks_for(delegate()), [gate, *asks_for(call("time", {}))], answer("ok"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        run_id = await client.send("go")
        child = (await child_of(client)).session_id
        await client.api.attach(child)
        theirs = await client.wait_for(RunStarted, lambda body: body.run_id != run_id)
        await model.waiting.wait()
        await client.api.request(SteerRun(theirs.run_id, "look at the tests, too"), AcceptedReply, child)
        gate.set()
        await client.wait_for(RunComplete, lambda body: body.run_id == run_id)
        assert model.user_messages(2)[-1] == "look at the tests, too"
        assert "look at the tests, too" not in model.user_messages(3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"task": "x", "agent": "nobody"}, "unknown agent 'nobody'. Available: general"),
        ({"task": "x", "tools": ["nonsense"]}, "none of its tools is available: nonsense"),
        ({"task": ""}, "delegate: task: "),
    ],
)
async def test_the_model_learns_what_is_wrong_with_a_delegation(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    model = StepModel(asks_for(call("delegate", arguments)), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        assert said in model.tool_results()[0]
        assert client.bodies(ChildStarted) == []


async def test_too_deep_and_too_many_are_refused(tmp_path: Path) -> None:
    model = StepModel(
        asks_for(delegate()), asks_for(delegate()), answer("deep"), answer("back"), asks_for(delegate()), answer("done")
    )
    async with checked_host(tmp_path, model) as host, host.client() as client:
        children = host.runtime.children
        children.limits = structs.replace(children.limits, depth=1)
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        theirs = await bodies(host, client.bodies(ChildStarted)[0].session_id)
        refused = next(body for body in theirs if isinstance(body, ToolResult))
        assert refused.text.endswith("sub-agents may not delegate further: they are 1 level deep, the maximum")
        children.limits = structs.replace(children.limits, at_once=0)
        await client.send("again")
        await client.wait_for(RunComplete)
        assert model.tool_results()[-1].endswith("delegate again once one of them has finished")


async def test_a_budget_that_is_nearly_used_up_is_not_shared(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate()), answer("alone"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all", budget=BudgetLimits(max_tool_calls=2))
        await client.send("go")
        await client.wait_for(RunComplete)
        assert "too little is left of the budget for a sub-agent" in model.tool_results()[0]


async def test_a_sub_agent_has_at_most_the_tools_of_its_parent(tmp_path: Path) -> None:
    model = StepModel(
        asks_for(delegate(tools=["Read", "grep", "write_file"])),
        asks_for(shell("touch made")),
        answer("no"),
        answer("done"),
    )
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all", tools=("read_file", "grep", "delegate"))
        await client.send("go")
        await client.wait_for(RunComplete)
        theirs = await bodies(host, client.bodies(ChildStarted)[0].session_id)
        start = next(body for body in theirs if isinstance(body, SessionStarted))
        assert start.options is not None and start.options.tools == ("read_file", "grep")
        result = next(body for body in theirs if isinstance(body, ToolResult))
        assert result.text.endswith("unknown tool 'run_shell'. Available: grep, read_file")


async def test_the_policy_of_the_parent_holds_for_its_sub_agents(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate()), asks_for(shell("touch made")), answer("made"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="ask")
        await client.send("go")
        await decide(client, client.session_id, await client.wait_for(ApprovalRequired))
        await client.wait_for(ApprovalRequired)
        child = client.received[-1].session_id
        with pytest.raises(Exception, match="cannot be wider than its parent's, which is ask"):
            await client.api.request(SetApprovalPolicy("all"), SetApprovalPolicyReply, child)
        await client.api.request(SetApprovalPolicy("all"), SetApprovalPolicyReply, client.session_id)
        await client.wait_for(RunComplete)
        assert (tmp_path / "made").exists()

"""The audit: every decision of every session, read from their logs."""

from pathlib import Path

from buddy.config.settings import AgentSettings
from buddy.protocol.events import ApprovalExpired, ApprovalRequired, RunComplete
from buddy.protocol.requests import (
    ListDecisions,
    ListDecisionsReply,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SubmitApproval,
)
from buddy.protocol.shapes import DecisionMade
from tests.harness.clock import ManualClock
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeClient, checked_host


async def decided(
    client: RuntimeClient, limit: int = 100, session_id: str | None = None, since: int = 0
) -> list[DecisionMade]:
    reply = await client.api.request(ListDecisions(limit, session_id, since), ListDecisionsReply)
    return list(reply.decisions)


async def test_the_audit_lists_what_people_policies_and_grants_decided(tmp_path: Path) -> None:
    clock = ManualClock()
    write = call("write_file", {"path": "a.txt", "content": "x"})
    model = StepModel(
        asks_for(shell("echo hi")), answer(), asks_for(shell("echo hi")), answer(), asks_for(write), answer()
    )
    async with checked_host(tmp_path, model, clock=clock) as host, host.client("console") as client:
        first = await client.start()
        run_id = await client.send("one")
        asked = await client.wait_for(ApprovalRequired)
        request = SubmitApproval(first, run_id, asked.approval_id, "approve", "fine", "session")
        await client.api.approve(request)
        await client.wait_for(RunComplete)
        clock.advance(60)
        await client.send("two")
        await client.wait_for(RunComplete)
        clock.advance(60)
        second = await client.start()
        await client.api.request(SetApprovalPolicy("all"), SetApprovalPolicyReply, second)
        await client.send("three")
        await client.wait_for(RunComplete)
        found = await decided(client)
        told = [(made.session_id, made.decision, made.by, made.tool, made.summary) for made in found]
        assert told == [
            (first, "approve", "console", "run_shell", "echo hi"),
            (first, "approve", "rule:session", "run_shell", "echo hi"),
            (second, "policy", "console", None, "all"),
            (second, "approve", "policy", "write_file", "a.txt"),
        ]
        assert (found[0].scope, found[0].comment, found[0].digest) == ("session", "fine", asked.digest)
        assert (found[0].run_id, found[0].call_id, found[0].target) == (run_id, asked.call_id, "local")
        assert [made.ts for made in found] == sorted(made.ts for made in found)
        assert await decided(client, 2) == found[2:]
        assert await decided(client, 100, first) == found[:2]
        assert await decided(client, since=clock.now) == found[2:]


async def test_the_audit_lists_expired_approvals(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("touch made")), answer("I see"))
    agent = AgentSettings(model="test", approval_timeout_seconds=0.05)
    async with checked_host(tmp_path, model, agent=agent) as host, host.client() as client:
        await client.start()
        await client.send("make it")
        expired = await client.wait_for(ApprovalExpired)
        await client.wait_for(RunComplete)
        (made,) = await decided(client)
        assert (made.decision, made.by, made.summary) == ("expired", "timeout", "touch made")
        assert (made.approval_id, made.tool) == (expired.approval_id, "run_shell")

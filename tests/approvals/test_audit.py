"""The audit: every decision of every session, told from their logs."""

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
from harness import Guest
from sessions.stage import Clock, Puppet, answer, asks_for, call, shell, stage


async def decided(guest: Guest, limit: int = 100, session_id: str | None = None, since: int = 0) -> list[DecisionMade]:
    reply = await guest.client.request(ListDecisions(limit, session_id, since), ListDecisionsReply)
    return list(reply.decisions)


async def test_people_policies_and_grants_are_reported_with_what_they_decided(tmp_path: Path) -> None:
    clock = Clock()
    write = call("write_file", {"path": "a.txt", "content": "x"})
    puppet = Puppet(
        asks_for(shell("echo hi")), answer(), asks_for(shell("echo hi")), answer(), asks_for(write), answer()
    )
    async with stage(tmp_path, puppet, clock=clock) as home, home.client("console") as guest:
        first = await guest.start()
        run_id = await guest.send("one")
        asked = await guest.until(ApprovalRequired)
        request = SubmitApproval(first, run_id, asked.approval_id, "approve", "fine", "session")
        await guest.client.approve(request)
        await guest.until(RunComplete)
        clock.advance(60)
        await guest.send("two")
        await guest.until(RunComplete)
        clock.advance(60)
        second = await guest.start()
        await guest.client.request(SetApprovalPolicy("all"), SetApprovalPolicyReply, second)
        await guest.send("three")
        await guest.until(RunComplete)
        found = await decided(guest)
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
        assert await decided(guest, 2) == found[2:]
        assert await decided(guest, 100, first) == found[:2]
        assert await decided(guest, since=clock.now) == found[2:]


async def test_what_nobody_decided_in_time_is_reported(tmp_path: Path) -> None:
    puppet = Puppet(asks_for(shell("touch made")), answer("I see"))
    agent = AgentSettings(model="test", approval_timeout_seconds=0.05)
    async with stage(tmp_path, puppet, agent=agent) as home, home.client() as guest:
        await guest.start()
        await guest.send("make it")
        expired = await guest.until(ApprovalExpired)
        await guest.until(RunComplete)
        (made,) = await decided(guest)
        assert (made.decision, made.by, made.summary) == ("expired", "timeout", "touch made")
        assert (made.approval_id, made.tool) == (expired.approval_id, "run_shell")

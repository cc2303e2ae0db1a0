"""A session whose log forgets its beginning: what is gone is gone at once, and what was set stays."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.protocol.codes import Policy
from buddy.protocol.events import ApprovalPolicyChanged, ApprovalReceived, ApprovalRequired, RunComplete
from buddy.protocol.grant_requests import ListGrants, ListGrantsReply
from buddy.protocol.requests import (
    AcceptedReply,
    GetSnapshot,
    GetSnapshotReply,
    ListApprovals,
    ListApprovalsReply,
    PruneSession,
    PruneSessionReply,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SubmitApproval,
)
from buddy.protocol.shapes import Grant
from tests.harness.logs import read_all
from tests.harness.models import StepModel, answer, asks_for, shell
from tests.harness.runtime import RuntimeClient, checked_host, crash


async def prune(client: RuntimeClient, before: int = 10**6) -> int:
    return (await client.api.request(PruneSession(before), PruneSessionReply, client.session_id)).first_seq


async def run(client: RuntimeClient, text: str, message_id: str | None = None) -> None:
    await client.send(text, message_id=message_id)
    await client.wait_for(RunComplete)


async def snapshot(client: RuntimeClient, at: int | None = None) -> GetSnapshotReply:
    return await client.api.request(GetSnapshot(at), GetSnapshotReply, client.session_id)


async def grants(client: RuntimeClient) -> tuple[Grant, ...]:
    return (await client.api.request(ListGrants(), ListGrantsReply, client.session_id)).grants


@pytest.mark.parametrize("before", ["ask", "none"])
async def test_a_prune_leaves_the_policy_and_its_window(tmp_path: Path, before: Policy) -> None:
    model = StepModel(answer("one"), answer("two"))
    async with checked_host(tmp_path, model, pruned=True) as host, host.client() as client:
        await client.start()
        await run(client, "first")
        for request in (SetApprovalPolicy(before), SetApprovalPolicy("until", 600)):
            until = await client.api.request(request, SetApprovalPolicyReply, client.session_id)
        await run(client, "second")
        await prune(client)
        assert (await snapshot(client)).approval_policy == "all"
        session = host.runtime.sessions.live(client.session_id)
        assert session is not None
        policy = session.approvals.session_policy()
        assert (policy.policy, policy.expires_at, policy.before) == ("until", until.expires_at, before)
        bodies = [event.body() for event in await read_all(host.runtime.log, client.session_id)]
        changes = [(body.policy, body.by) for body in bodies if isinstance(body, ApprovalPolicyChanged)]
        assert changes == [(before, "cli"), ("until", "cli")]


async def test_a_model_no_longer_sees_what_was_pruned(tmp_path: Path, logs: Callable[[], Log]) -> None:
    model = StepModel(answer("one"), answer("two"), answer("three"))
    async with checked_host(tmp_path, model, log=logs(), pruned=True) as host, host.client() as client:
        session_id = await client.start()
        await run(client, "forget me")
        await run(client, "keep me")
        kept = [event.seq for event in client.received if event.type == "user_message"][1]
        assert await prune(client, kept) == kept
        await run(client, "next")
        assert model.user_messages() == ["keep me", "next"]
        await crash(host, session_id)
        later = StepModel(answer("four"))
        async with checked_host(tmp_path, later, log=logs(), pruned=True) as after, after.client() as again:
            again.session_id = session_id
            await again.api.attach(session_id)
            await run(again, "last")
            assert later.user_messages() == ["keep me", "next", "last"]


async def test_a_message_whose_run_was_pruned_is_refused_at_once(tmp_path: Path) -> None:
    model = StepModel(answer("one"), answer("two"))
    async with checked_host(tmp_path, model, pruned=True) as host, host.client() as client:
        await client.start()
        await run(client, "go", message_id="msg_1")
        await prune(client)
        with pytest.raises(ProtocolError, match="its run was pruned") as refusal:
            await client.send("go", message_id="msg_1")
        assert refusal.value.code == "INVALID_REQUEST"
        await run(client, "go on", message_id="msg_2")
        assert model.user_messages() == ["go on"]


async def test_what_was_granted_for_the_session_survives_prunes_and_a_restart(
    tmp_path: Path, logs: Callable[[], Log]
) -> None:
    same = shell("echo once >> ledger")
    model = StepModel(asks_for(same), answer(), asks_for(same), answer())
    async with checked_host(tmp_path, model, log=logs(), pruned=True) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("one")
        asked = await client.wait_for(ApprovalRequired)
        approve = SubmitApproval(session_id, run_id, asked.approval_id, "approve", scope="session")
        await client.api.request(approve, AcceptedReply, session_id)
        await client.wait_for(RunComplete)
        granted = await grants(client)
        assert [grant.summary for grant in granted] == ["run_shell echo once >> ledger"]
        for _ in range(2):
            await prune(client)
            assert await grants(client) == granted
        await run(client, "two")
        assert [received.by for received in client.bodies(ApprovalReceived)] == ["cli", "rule:session"]
        assert (tmp_path / "ledger").read_text() == "once\nonce\n"
        await crash(host, session_id)
        async with checked_host(tmp_path, StepModel(), log=logs(), pruned=True) as after, after.client() as again:
            again.session_id = session_id
            listed = await again.api.request(ListApprovals(grants=True), ListApprovalsReply)
            assert listed.grants == granted  # before it is opened
            await again.api.attach(session_id)
            assert await grants(again) == granted


async def test_a_state_that_was_pruned_is_not_invented(tmp_path: Path) -> None:
    model = StepModel(answer("one"), answer("two"))
    async with checked_host(tmp_path, model, pruned=True) as host, host.client() as client:
        await client.start()
        await run(client, "first")
        last = client.received[-1].seq
        await prune(client, last)
        for seq in (1, last):
            with pytest.raises(ProtocolError, match=f"earliest known state is that after event {last + 1}") as refusal:
                await snapshot(client, seq)
            assert refusal.value.code == "INVALID_REQUEST"
        assert (await snapshot(client, last + 1)).meta == (await snapshot(client)).meta
        assert (await snapshot(client)).last_assistant_text is None


async def test_a_prune_takes_what_is_recorded_meanwhile(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer("one")), pruned=True) as host, host.client() as client:
        await client.start(approval_policy="ask")
        await run(client, "first")
        policies: tuple[Policy, ...] = ("auto", "none", "all")
        changes = (SetApprovalPolicy(policy) for policy in policies)
        requests = (client.api.request(change, SetApprovalPolicyReply, client.session_id) for change in changes)
        await asyncio.gather(prune(client), *requests)
        assert (await snapshot(client)).approval_policy == "all"

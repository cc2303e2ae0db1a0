"""Runs of another agent, replayed without it."""

import asyncio
from pathlib import Path

import pytest

from buddy.daemon.runtime import unix_ms
from buddy.log.memory import MemoryLog
from buddy.protocol.events import ApprovalRequired, AssistantToken, ModelRequest, RunComplete
from buddy.protocol.requests import SubmitApproval
from buddy.protocol.shapes import BudgetLimits, Criterion, RunOptions
from buddy.replay.verify import Recording, Verdict, verify
from tests.backends.agents import AGENTS, Agent, agent_host
from tests.harness.runtime import RuntimeClient, RuntimeHost, crash
from tests.replay.recordings import recorded

DROID = next(cast for cast in AGENTS if cast.name == "droid")
OTHERS = pytest.mark.parametrize("cast", [cast for cast in AGENTS if cast.runtime], ids=lambda cast: cast.name)


async def say(client: RuntimeClient, text: str, decision: str = "", options: RunOptions | None = None) -> RunComplete:
    run_id = await client.send(text, options=options)
    if decision:
        asked = await client.wait_for(ApprovalRequired)
        verdict = "approve" if decision == "approve" else "deny"
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, verdict, "use tea"))
    return await client.wait_for(RunComplete, lambda complete: complete.run_id == run_id)


async def assert_same(host: RuntimeHost, session_id: str) -> Recording:
    session = host.runtime.sessions.live(session_id)
    if session is not None:
        await session.journal.commit()
    recording = await recorded(host.runtime.log, session_id)
    verdict = await asyncio.to_thread(verify, recording)
    assert verdict == Verdict(len(recording.events))
    return recording


@OTHERS
async def test_the_agents_replies_and_calls_are_replayed_without_the_agent(cast: Agent, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("contents\n" * 4000)
    async with agent_host(cast, tmp_path) as host, host.client() as client:
        await client.start()
        await say(client, "say one two three")
        await say(client, "look notes.txt")
        await say(client, "run echo made >> made", "approve")
        await say(client, "run touch forbidden", "deny")
        await say(client, "run echo by policy", options=RunOptions(approval_policy="all"))
        (tmp_path / "notes.txt").unlink()
        await assert_same(host, client.session_id)
    assert (tmp_path / "made").read_text() == "made\n"


@OTHERS
async def test_the_agents_failures_and_cancels_are_replayed(cast: Agent, tmp_path: Path) -> None:
    async with agent_host(cast, tmp_path) as host, host.client() as client:
        await client.start()
        run_id = await client.send("wait")
        await client.wait_for(AssistantToken)
        await client.api.cancel(client.session_id, run_id)
        await client.wait_for(RunComplete)
        await say(client, "say again")
        assert (await say(client, "die")).outcome == "failed"
        await say(client, "say last")
        await assert_same(host, client.session_id)


@OTHERS
async def test_a_headless_run_that_is_denied_or_over_budget_is_replayed(cast: Agent, tmp_path: Path) -> None:
    async with agent_host(cast, tmp_path) as host, host.client("headless") as client:
        await client.start("headless")
        assert (await say(client, "run touch forbidden")).outcome == "denied"
        few = RunOptions(budget=BudgetLimits(max_tokens=5))
        assert (await say(client, "say much", options=few)).reason == "budget_exceeded"
        none = RunOptions("all", BudgetLimits(max_tool_calls=1))
        assert (await say(client, "run echo one", options=none)).outcome == "success"
        await client.send("say done", accept=[Criterion("exists", "test -f never")])
        await client.wait_for(RunComplete)
        await assert_same(host, client.session_id)


@OTHERS
async def test_a_crash_of_the_agent_and_what_followed_are_replayed(cast: Agent, tmp_path: Path) -> None:
    log, ledger = MemoryLog(unix_ms), tmp_path / "ledger.txt"
    async with agent_host(cast, tmp_path, log) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("run echo once >> ledger.txt; exec sleep 1000")
        asked = await client.wait_for(ApprovalRequired)
        await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        while not ledger.exists():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)
        await crash(host, session_id)
        async with agent_host(cast, tmp_path, log) as after, after.client() as later:
            await after.runtime.sessions.open(session_id)
            await later.api.attach(session_id)
            await later.wait_for(RunComplete)
            later.session_id = session_id
            await say(later, "say more")
            await assert_same(after, session_id)


@OTHERS
@pytest.mark.parametrize("is_decided", [True, False], ids=["decided", "withdrawn"])
async def test_a_question_that_was_open_during_a_crash_is_replayed(
    cast: Agent, tmp_path: Path, *, is_decided: bool
) -> None:
    log = MemoryLog(unix_ms)
    async with agent_host(cast, tmp_path, log) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("run touch made")
        asked = await client.wait_for(ApprovalRequired)
        await crash(host, session_id)
        async with agent_host(cast, tmp_path, log) as after, after.client() as later:
            await later.api.attach(session_id, client.received[-1].seq)
            later.session_id = session_id
            await later.wait_for(ModelRequest)
            if is_decided:
                await later.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            else:
                await later.api.cancel(session_id, run_id)
            await later.wait_for(RunComplete)
            await assert_same(after, session_id)


@pytest.mark.parametrize(
    "text", ["fail no access token", "both echo one | echo two", "patch a.py b.py", "question why?"]
)
async def test_the_events_that_only_droid_sends_are_replayed(tmp_path: Path, text: str) -> None:
    async with agent_host(DROID, tmp_path) as host, host.client() as client:
        await client.start(approval_policy="all")
        await say(client, text)
        await assert_same(host, client.session_id)


async def test_a_changed_recording_of_an_agent_is_detected(tmp_path: Path) -> None:
    async with agent_host(DROID, tmp_path) as host, host.client() as client:
        await client.start()
        await say(client, "run echo made", "approve")
        recording = await assert_same(host, client.session_id)
    events = [event for event in recording.events if event.type != "tool_claimed"]
    events = [
        type(event)(event.session_id, at, event.ts, event.type, event.payload, event.run_id)
        for at, event in enumerate(events, 1)
    ]
    verdict = await asyncio.to_thread(verify, Recording(tuple(events), recording.blobs))
    assert verdict.difference is not None
    assert "tool_claimed instead of" in verdict.difference.message

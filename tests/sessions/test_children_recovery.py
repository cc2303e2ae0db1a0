"""What becomes of sub-agents when a process dies, a session is copied, deleted or replayed."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec import structs

from buddy.config.settings import AgentSettings
from buddy.daemon.runtime import unix_ms
from buddy.log.contract import Batch, RowFacts
from buddy.log.memory import MemoryLog
from buddy.protocol.events import (
    ApprovalRequired,
    ChildFinished,
    ChildStarted,
    Recovery,
    RunComplete,
    SessionStarted,
    ToolResult,
)
from buddy.protocol.requests import (
    DeleteSession,
    DeleteSessionReply,
    ForkSession,
    ForkSessionReply,
    PruneSession,
    PruneSessionReply,
)
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions
from tests.harness.logs import read_all
from tests.harness.models import StepModel, answer, asks_for, shell
from tests.harness.runtime import RuntimeHost, checked_host, crash
from tests.replay.recordings import assert_same, recorded, recording_session
from tests.sessions.recovering import Logs, recovered_client
from tests.sessions.test_children import bodies, child_of, decide, delegate


async def test_a_parent_that_died_finds_its_sub_agent_again(tmp_path: Path, logs: Logs) -> None:
    gate = asyncio.Event()
    model = StepModel(asks_for(delegate()), [gate])
    async with checked_host(tmp_path, model, log=logs()) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        child = (await child_of(client)).session_id
        await model.waiting.wait()
        for session_id in (client.session_id, child):
            await crash(host, session_id)
        after_it = StepModel(answer("found again"), answer("done"))
        async with recovered_client(host, client.session_id, after_it, logs()) as after:
            assert (await after.wait_for(RunComplete)).summary == "done"
            assert [body.action for body in after.bodies(Recovery)] == ["reattached"]
            assert [body.session_id for body in after.bodies(ChildStarted)] == [child]
            assert [body.outcome for body in after.bodies(ChildFinished)] == ["success"]
            assert [body.text for body in after.bodies(ToolResult)] == ["found again"]


async def test_a_question_after_a_restart_reaches_clients_that_came_before_its_session_was_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, gate = MemoryLog(unix_ms), asyncio.Event()
    model = StepModel(asks_for(delegate()), [gate])
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.start(approval_policy="ask")
        await client.send("go")
        await decide(client, client.session_id, await client.wait_for(ApprovalRequired))
        child = (await child_of(client)).session_id
        await model.waiting.wait()
        for session_id in (client.session_id, child):
            await crash(host, session_id)
        monkeypatch.setattr(Sessions, "open", opened_late(child))
        after_it = StepModel(asks_for(shell("touch made")), answer("made"), answer("done"))
        async with checked_host(tmp_path, after_it, log=log) as second, second.client() as after:
            after.session_id = client.session_id
            await after.api.attach(client.session_id)
            await second.runtime.sessions.open(client.session_id)
            asked = await after.wait_for(ApprovalRequired, lambda body: body.agent is not None)
            await decide(after, child, asked)
            assert (await after.wait_for(RunComplete)).summary == "done"
    assert (tmp_path / "made").exists()


def opened_late(late: str) -> Callable[[Sessions, str], Awaitable[Session]]:
    """Opens a session long after clients have attached to others."""
    open_at_once = Sessions.open

    async def open_session(sessions: Sessions, session_id: str) -> Session:
        if session_id == late:
            await asyncio.sleep(0.2)
        return await open_at_once(sessions, session_id)

    return open_session


@pytest.mark.parametrize(("cut", "started"), [("tool_claimed", 1), ("child_started", 1), ("child_finished", 1)])
async def test_it_continues_wherever_the_process_died(tmp_path: Path, cut: str, started: int) -> None:
    log = MemoryLog(unix_ms)
    model = StepModel(asks_for(delegate()), asks_for(shell("echo x >> ledger")), answer("made"), answer("done"))
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        copy = await cut_in_place(host, log, client.session_id, cut)
        async with recovered_client(host, copy, StepModel(answer("done again")), log) as after:
            assert (await after.wait_for(RunComplete)).summary == "done again"
            assert len(after.bodies(ChildStarted)) == len(after.bodies(ChildFinished)) == started
            assert [body.text for body in after.bodies(ToolResult)] == ["made"]
    assert (tmp_path / "ledger").read_text() == "x\n"


async def test_the_outcome_of_a_deleted_sub_agent_is_unknown(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    model = StepModel(asks_for(delegate()), answer("made"), answer("done"))
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        child = client.bodies(ChildStarted)[0].session_id
        copy = await cut_in_place(host, log, client.session_id, "child_started")
        await log.delete(child)
        async with recovered_client(host, copy, StepModel(answer("looked")), log) as after:
            assert (await after.wait_for(RunComplete)).summary == "looked"
            failure = after.bodies(ToolResult)[0].structured_error
            assert failure is not None and failure.type == "UNKNOWN_OUTCOME"


async def cut_in_place(host: RuntimeHost, log: MemoryLog, session_id: str, last: str) -> str:
    """The session as it would be had its process died right after the first event of this type."""
    for session in host.runtime.sessions.open_sessions:
        session.broken = True
    events = await read_all(log, session_id)
    end = next(index for index, event in enumerate(events) if event.type == last) + 1
    record = await log.get(session_id)
    assert record is not None
    await log.delete(session_id)
    lease = await log.create(structs.replace(record, facts=RowFacts()), "nobody")
    await log.append(Batch(session_id, lease.epoch, 0, events[:end], state="running"))
    await log.release(lease)
    return session_id


async def test_deleting_a_session_deletes_its_sub_agents_and_a_fork_keeps_them(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate()), answer("made"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        child, log = client.bodies(ChildStarted)[0].session_id, host.runtime.log
        last = client.received[-1].seq
        fork = await client.api.request(ForkSession(last), ForkSessionReply, client.session_id)
        copied = await log.get(fork.session_id)
        assert copied is not None and copied.facts.tokens == 45
        await client.api.request(DeleteSession(), DeleteSessionReply, fork.session_id)
        assert await log.get(child) is not None
        await client.api.request(DeleteSession(), DeleteSessionReply, client.session_id)
        assert await log.get(child) is None


async def test_a_pruned_session_still_knows_its_sub_agents(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate()), answer("made"), answer("done"))
    async with checked_host(tmp_path, model, pruned=True) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        child, log = client.bodies(ChildStarted)[0].session_id, host.runtime.log
        last = client.received[-1].seq
        await client.api.request(PruneSession(last), PruneSessionReply, client.session_id)
        assert not [body for body in await bodies(host, client.session_id) if isinstance(body, ChildStarted)]
        await client.api.request(DeleteSession(), DeleteSessionReply, client.session_id)
        assert await log.get(child) is None


async def test_the_fork_of_a_sub_agent_works_for_nobody(tmp_path: Path) -> None:
    model = StepModel(asks_for(delegate(tools=["grep"])), answer("made"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        child = client.bodies(ChildStarted)[0].session_id
        record = await host.runtime.log.get(child)
        assert record is not None
        fork = await client.api.request(ForkSession(record.last_seq), ForkSessionReply, child)
        start = (await bodies(host, fork.session_id))[0]
        assert isinstance(start, SessionStarted) and start.options is not None
        assert (start.delegated, start.options.tools) == (None, ("grep",))


async def test_what_it_did_is_replayed_without_starting_it(tmp_path: Path) -> None:
    turns = (asks_for(delegate("one"), delegate("two")), answer("1"), answer("2"), answer("done"))
    async with recording_session(tmp_path, *turns) as recording:
        await recording.say("go")
        await assert_same(await recording.recording())
        log = recording.host.runtime.log
        for started in recording.client.bodies(ChildStarted):
            await assert_same(await recorded(log, started.session_id))


async def test_a_parent_is_parked_with_the_sub_agent_that_it_waits_for(tmp_path: Path, logs: Logs) -> None:
    parks = AgentSettings(model="test", approval_timeout="park")
    model = StepModel(asks_for(delegate()), asks_for(shell("touch made")))
    async with checked_host(tmp_path, model, log=logs(), agent=parks) as host, host.client() as client:
        await client.start(approval_policy="ask")
        await client.send("go")
        await decide(client, client.session_id, await client.wait_for(ApprovalRequired))
        await client.wait_for(ApprovalRequired)
    after_it = StepModel(answer("made"), answer("done"))
    async with recovered_client(host, client.session_id, after_it, logs()) as after:
        asked = await after.wait_for(ApprovalRequired, lambda body: body.agent is not None)
        await decide(after, after.received[-1].session_id, asked)
        assert (await after.wait_for(RunComplete)).summary == "done"
        assert (tmp_path / "made").exists()

"""Forks: a session's copy up to some event goes its own way, and is as sound as the session itself."""

from pathlib import Path

import pytest

from buddy.daemon.runtime import unix_ms
from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    ApprovalReceived,
    ApprovalRequired,
    RunComplete,
    SessionForked,
    SessionStarted,
    ToolOutput,
    ToolResult,
)
from buddy.protocol.requests import (
    CompactSession,
    CompactSessionReply,
    ForkSession,
    ForkSessionReply,
    SubmitApproval,
)
from tests.harness.checker import Recorded, check
from tests.harness.logs import read_all, refold
from tests.harness.models import StepModel, answer, asks_for, shell
from tests.harness.runtime import RuntimeClient, RuntimeHost, checked_host


async def fork(client: RuntimeClient, seq: int) -> ForkSessionReply:
    return await client.api.request(ForkSession(seq), ForkSessionReply, client.session_id)


async def talked(host: RuntimeHost, client: RuntimeClient, *texts: str) -> list[Event]:
    await client.start(approval_policy="all")
    for text in texts:
        await client.send(text)
        await client.wait_for(RunComplete)
    return await read_all(host.runtime.log, client.session_id)


async def test_a_fork_knows_what_was_said_before_it_and_nothing_after(tmp_path: Path) -> None:
    model = StepModel(answer("one"), answer("two"), answer("three"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        events = await talked(host, client, "first", "second")
        end_of_first = next(event.seq for event in events if event.type == "run_complete")
        made = await fork(client, end_of_first)
        client.session_id = made.session_id
        await client.api.attach(made.session_id, 0, made.attach_token)
        await client.send("instead of the second")
        await client.wait_for(RunComplete, lambda complete: complete.summary == "three")
    assert model.user_messages() == ["first", "instead of the second"]


async def test_a_fork_says_where_it_comes_from(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer("one"))) as host, host.client("console") as client:
        events = await talked(host, client, "first")
        made = await fork(client, events[-1].seq)
        copied = await read_all(host.runtime.log, made.session_id)
        started, last = copied[0].body(), copied[-1].body()
    assert isinstance(started, SessionStarted)
    assert started.session_id == made.session_id
    assert last == SessionForked(from_session_id=client.session_id, from_seq=events[-1].seq, by="console")
    assert [event.seq for event in copied] == list(range(1, len(copied) + 1))
    assert {event.session_id for event in copied} == {made.session_id}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_every_fork_of_a_run_is_sound(tmp_path: Path, kind: str) -> None:
    log: Log = MemoryLog(unix_ms)
    if kind == "sqlite":
        from buddy.log.sqlite import SqliteLog

        log = SqliteLog.open(tmp_path / "store", unix_ms)
    long = "word " * 8000
    model = StepModel(asks_for(shell("echo a"), shell("echo b")), answer(long), asks_for(shell("false")), answer("no"))
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        events = await talked(host, client, "first", "second")
        for seq in range(len(events) + 1):
            made = await fork(client, seq)
            copied = await read_all(host.runtime.log, made.session_id)
            assert check(Recorded({made.session_id: copied})) == [], seq
            assert (await refold(host.runtime.log, copied)).run is None


async def test_a_call_is_never_split_from_its_result(tmp_path: Path) -> None:
    async with (
        checked_host(tmp_path, StepModel(asks_for(shell("echo a")), answer("b"))) as host,
        host.client() as client,
    ):
        events = await talked(host, client, "first")
        called = next(event.seq for event in events if event.type == "tool_call")
        made = await fork(client, called)
        copied = await read_all(host.runtime.log, made.session_id)
    assert [event.type for event in copied] == [
        "session_started",
        "user_message",
        "run_started",
        "run_complete",
        "session_forked",
    ]
    closing = copied[3].body()
    assert isinstance(closing, RunComplete)
    assert closing.outcome == "cancelled"


async def test_running_text_is_not_copied(tmp_path: Path) -> None:
    async with (
        checked_host(tmp_path, StepModel(asks_for(shell("echo a")), answer("b"))) as host,
        host.client() as client,
    ):
        events = await talked(host, client, "first")
        made = await fork(client, events[-1].seq)
        bodies = [event.body() for event in await read_all(host.runtime.log, made.session_id)]
    assert not any(isinstance(body, ToolOutput) for body in bodies)
    assert any(isinstance(body, ToolResult) for body in bodies)


async def test_what_was_allowed_for_the_session_is_asked_again_in_its_fork(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("echo a")), answer("b"), asks_for(shell("echo a")), answer("c"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("first")
        asked = await client.wait_for(ApprovalRequired)
        yes = SubmitApproval(client.session_id, run_id, asked.approval_id, "approve", scope="session")
        await client.api.approve(yes)
        await client.wait_for(RunComplete)
        made = await fork(client, client.received[-1].seq)
        copied = await read_all(host.runtime.log, made.session_id)
        assert [body.scope for event in copied if isinstance(body := event.body(), ApprovalReceived)] == [None]
        client.session_id = made.session_id
        await client.api.attach(made.session_id, 0, made.attach_token)
        run_id = await client.send("again")
        again = await client.wait_for(ApprovalRequired, lambda body: body.approval_id != asked.approval_id)
        await client.api.approve(SubmitApproval(client.session_id, run_id, again.approval_id, "deny"))
        await client.wait_for(RunComplete, lambda complete: complete.run_id == run_id)


async def test_a_compaction_is_copied_with_its_place(tmp_path: Path) -> None:
    model = StepModel(*(answer(f"answer {number} " * 40) for number in range(6)), answer("short"), answer("end"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await talked(host, client, *(f"question {number} " * 40 for number in range(6)))
        await client.api.request(CompactSession(), CompactSessionReply, client.session_id)
        record = await host.runtime.log.get(client.session_id)
        assert record is not None
        made = await fork(client, record.last_seq)
        source = await host.runtime.sessions.open(client.session_id)
        copy = await host.runtime.sessions.open(made.session_id)
        assert copy.fold.saved == source.fold.saved
        client.session_id = made.session_id
        await client.api.attach(made.session_id, 0, made.attach_token)
        run_id = await client.send("after it")
        await client.wait_for(RunComplete, lambda complete: complete.run_id == run_id)
    assert len(model.user_messages()) < 6


async def test_a_seq_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer("one"))) as host, host.client() as client:
        events = await talked(host, client, "first")
        with pytest.raises(ProtocolError, match="seq must be between"):
            await fork(client, events[-1].seq + 1)


async def test_an_observer_may_not_fork(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer("one"))) as host, host.client() as client:
        await talked(host, client, "first")
        token = await host.runtime.sessions.tokens.mint(client.session_id, "observer")
        async with host.client("watcher") as watcher:
            await watcher.api.attach(client.session_id, 0, token)
            watcher.session_id = client.session_id
            with pytest.raises(ProtocolError):
                await fork(watcher, 1)

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
from checker import Recorded, check
from harness import Guest, House
from sessions.stage import Puppet, answer, asks_for, read_all, refold, shell, stage


async def fork(guest: Guest, seq: int) -> ForkSessionReply:
    return await guest.client.request(ForkSession(seq), ForkSessionReply, guest.session_id)


async def talked(home: House, guest: Guest, *texts: str) -> list[Event]:
    await guest.start(approval_policy="all")
    for text in texts:
        await guest.send(text)
        await guest.until(RunComplete)
    return await read_all(home.runtime.log, guest.session_id)


async def test_a_fork_knows_what_was_said_before_it_and_nothing_after(tmp_path: Path) -> None:
    puppet = Puppet(answer("one"), answer("two"), answer("three"))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        events = await talked(home, guest, "first", "second")
        end_of_first = next(event.seq for event in events if event.type == "run_complete")
        made = await fork(guest, end_of_first)
        guest.session_id = made.session_id
        await guest.client.attach(made.session_id, 0, made.attach_token)
        await guest.send("instead of the second")
        await guest.until(RunComplete, lambda complete: complete.summary == "three")
    assert puppet.told() == ["first", "instead of the second"]


async def test_a_fork_says_where_it_comes_from(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet(answer("one"))) as home, home.client("console") as guest:
        events = await talked(home, guest, "first")
        made = await fork(guest, events[-1].seq)
        copied = await read_all(home.runtime.log, made.session_id)
        started, last = copied[0].body(), copied[-1].body()
    assert isinstance(started, SessionStarted)
    assert started.session_id == made.session_id
    assert last == SessionForked(from_session_id=guest.session_id, from_seq=events[-1].seq, by="console")
    assert [event.seq for event in copied] == list(range(1, len(copied) + 1))
    assert {event.session_id for event in copied} == {made.session_id}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_every_fork_of_a_run_is_sound(tmp_path: Path, kind: str) -> None:
    log: Log = MemoryLog(unix_ms)
    if kind == "sqlite":
        from buddy.log.sqlite import SqliteLog

        log = SqliteLog.open(tmp_path / "store", unix_ms)
    long = "word " * 8000
    puppet = Puppet(asks_for(shell("echo a"), shell("echo b")), answer(long), asks_for(shell("false")), answer("no"))
    async with stage(tmp_path, puppet, log=log) as home, home.client() as guest:
        events = await talked(home, guest, "first", "second")
        for seq in range(len(events) + 1):
            made = await fork(guest, seq)
            copied = await read_all(home.runtime.log, made.session_id)
            assert check(Recorded({made.session_id: copied})) == [], seq
            assert (await refold(home.runtime.log, copied)).run is None


async def test_a_call_is_never_split_from_its_result(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet(asks_for(shell("echo a")), answer("b"))) as home, home.client() as guest:
        events = await talked(home, guest, "first")
        called = next(event.seq for event in events if event.type == "tool_call")
        made = await fork(guest, called)
        copied = await read_all(home.runtime.log, made.session_id)
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
    async with stage(tmp_path, Puppet(asks_for(shell("echo a")), answer("b"))) as home, home.client() as guest:
        events = await talked(home, guest, "first")
        made = await fork(guest, events[-1].seq)
        bodies = [event.body() for event in await read_all(home.runtime.log, made.session_id)]
    assert not any(isinstance(body, ToolOutput) for body in bodies)
    assert any(isinstance(body, ToolResult) for body in bodies)


async def test_what_was_allowed_for_the_session_is_asked_again_in_its_fork(tmp_path: Path) -> None:
    puppet = Puppet(asks_for(shell("echo a")), answer("b"), asks_for(shell("echo a")), answer("c"))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("first")
        asked = await guest.until(ApprovalRequired)
        yes = SubmitApproval(guest.session_id, run_id, asked.approval_id, "approve", scope="session")
        await guest.client.approve(yes)
        await guest.until(RunComplete)
        made = await fork(guest, guest.received[-1].seq)
        copied = await read_all(home.runtime.log, made.session_id)
        assert [body.scope for event in copied if isinstance(body := event.body(), ApprovalReceived)] == [None]
        guest.session_id = made.session_id
        await guest.client.attach(made.session_id, 0, made.attach_token)
        run_id = await guest.send("again")
        again = await guest.until(ApprovalRequired, lambda body: body.approval_id != asked.approval_id)
        await guest.client.approve(SubmitApproval(guest.session_id, run_id, again.approval_id, "deny"))
        await guest.until(RunComplete, lambda complete: complete.run_id == run_id)


async def test_a_compaction_is_copied_with_its_place(tmp_path: Path) -> None:
    puppet = Puppet(*(answer(f"answer {number} " * 40) for number in range(6)), answer("short"), answer("end"))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await talked(home, guest, *(f"question {number} " * 40 for number in range(6)))
        await guest.client.request(CompactSession(), CompactSessionReply, guest.session_id)
        record = await home.runtime.log.get(guest.session_id)
        assert record is not None
        made = await fork(guest, record.last_seq)
        source = await home.runtime.sessions.open(guest.session_id)
        copy = await home.runtime.sessions.open(made.session_id)
        assert copy.fold.saved == source.fold.saved
        guest.session_id = made.session_id
        await guest.client.attach(made.session_id, 0, made.attach_token)
        run_id = await guest.send("after it")
        await guest.until(RunComplete, lambda complete: complete.run_id == run_id)
    assert len(puppet.told()) < 6


async def test_a_seq_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet(answer("one"))) as home, home.client() as guest:
        events = await talked(home, guest, "first")
        with pytest.raises(ProtocolError, match="seq must be between"):
            await fork(guest, events[-1].seq + 1)


async def test_who_may_only_look_may_not_fork(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet(answer("one"))) as home, home.client() as guest:
        await talked(home, guest, "first")
        token = await home.runtime.sessions.mint(guest.session_id, "observer")
        async with home.client("watcher") as watcher:
            await watcher.client.attach(guest.session_id, 0, token)
            watcher.session_id = guest.session_id
            with pytest.raises(ProtocolError):
                await fork(watcher, 1)

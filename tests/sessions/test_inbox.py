"""What is said to a session while it works: steering a run, queueing the next; and a log that forgets its beginning."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.protocol.events import RunComplete, SessionSnapshot, UserMessage, WarningRaised
from buddy.protocol.requests import (
    AcceptedReply,
    PruneSession,
    PruneSessionReply,
    QueueMessage,
    QueueMessageReply,
    ReadEvents,
    ReadEventsReply,
    SteerRun,
    SwitchModel,
    SwitchModelReply,
)
from buddy.sessions.inbox import MAX_QUEUED
from harness import Guest
from sessions.stage import Puppet, answer, asks_for, call, crash, log_types, stage


async def steer(guest: Guest, run_id: str, text: str) -> None:
    await guest.client.request(SteerRun(run_id, text), AcceptedReply, guest.session_id)


async def queue(guest: Guest, text: str, message_id: str) -> int:
    reply = await guest.client.request(QueueMessage(message_id, text), QueueMessageReply, guest.session_id)
    return reply.position


async def test_a_steer_is_seen_at_the_next_turn(tmp_path: Path) -> None:
    gate = asyncio.Event()
    puppet = Puppet([gate, *asks_for(call("read_file", {"path": "missing"}))], answer("as you say"))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("go")
        await puppet.listening.wait()
        await steer(guest, run_id, "the other way")
        gate.set()
        assert (await guest.until(RunComplete)).summary == "as you say"
        assert (puppet.told(0), puppet.told(1)) == (["go"], ["go", "the other way"])
        assert [message.by for message in guest.bodies(UserMessage)] == ["cli", "cli"]


async def test_a_steer_that_comes_with_the_answer_makes_the_run_go_on(tmp_path: Path) -> None:
    gate = asyncio.Event()
    puppet = Puppet([gate, *answer("finished")], answer("and that too"))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("go")
        await puppet.listening.wait()
        await steer(guest, run_id, "one more thing")
        gate.set()
        assert (await guest.until(RunComplete)).summary == "and that too"
        assert guest.types().count("run_started") == 1


async def test_only_the_active_run_can_be_steered(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet(answer())) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("go")
        await guest.until(RunComplete)
        with pytest.raises(ProtocolError) as refusal:
            await steer(guest, run_id, "too late")
        assert refusal.value.code == "NO_ACTIVE_RUN"


async def test_queued_messages_run_in_their_order(tmp_path: Path) -> None:
    gate = asyncio.Event()
    puppet = Puppet([gate, *answer("one")], answer("two"), answer("three"))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        await guest.send("first")
        await puppet.listening.wait()
        assert [await queue(guest, "second", "msg_2"), await queue(guest, "third", "msg_3")] == [1, 2]
        assert await queue(guest, "second", "msg_2") == 1
        gate.set()
        summaries = [(await guest.until(RunComplete)).summary for _ in range(3)]
        assert summaries == ["one", "two", "three"]
        assert puppet.told() == ["first", "second", "third"]
        assert await queue(guest, "second", "msg_2") == 0
        assert await guest.send("second", message_id="msg_2") == guest.bodies(RunComplete)[1].run_id


async def test_a_message_that_is_queued_while_nothing_runs_starts_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet(answer("at once"))) as home, home.client() as guest:
        await guest.start()
        assert await queue(guest, "go", "msg_1") == 0
        assert (await guest.until(RunComplete)).summary == "at once"


async def test_what_is_queued_survives_a_restart(tmp_path: Path, logs: Callable[[], Log]) -> None:
    puppet = Puppet([asyncio.Event()])
    async with stage(tmp_path, puppet, log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("first")
        await puppet.listening.wait()
        await queue(guest, "second", "msg_2")
        await queue(guest, "third", "msg_3")
        await crash(home, session_id)
        later = Puppet(answer("one"), answer("two"), answer("three"))
        async with stage(tmp_path, later, log=logs()) as after, after.client() as again:
            await again.client.attach(session_id)
            assert [(await again.until(RunComplete)).summary for _ in range(3)] == ["one", "two", "three"]
            assert later.told() == ["first", "second", "third"]


async def test_a_shutdown_does_not_start_what_is_queued(tmp_path: Path, logs: Callable[[], Log]) -> None:
    puppet = Puppet([asyncio.Event()])
    async with stage(tmp_path, puppet, log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("first")
        await puppet.listening.wait()
        await queue(guest, "second", "msg_2")
        await home.runtime.sessions.close()
        assert (await log_types(home, session_id))[-1] == "run_complete"
        async with stage(tmp_path, Puppet(answer("two")), log=logs()) as after, after.client() as again:
            await again.client.attach(session_id)
            await again.until(RunComplete)
            assert (await again.until(RunComplete)).summary == "two"


async def test_a_queue_that_is_full_says_so(tmp_path: Path) -> None:
    puppet = Puppet([asyncio.Event()])
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("first")
        await puppet.listening.wait()
        for number in range(MAX_QUEUED):
            assert await queue(guest, "more", f"msg_{number}") == number + 1
        with pytest.raises(ProtocolError) as refusal:
            await queue(guest, "too much", "msg_last")
        assert (refusal.value.code, refusal.value.retryable) == ("OVERLOADED", True)
        assert await queue(guest, "more", "msg_0") == 1
        await home.runtime.sessions.close()
        assert run_id == (await guest.until(RunComplete)).run_id


async def test_a_client_that_missed_what_was_pruned_gets_a_snapshot(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet(answer("one"), answer("two")), pruned=True) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("first")
        await guest.until(RunComplete)
        before = guest.received[-1].seq
        pruned = await guest.client.request(PruneSession(before), PruneSessionReply, session_id)
        assert pruned.first_seq == before
        async with home.client() as late:
            late.session_id = session_id
            reply = await late.client.attach(session_id, 2)
            assert reply.replay.gap
            warning = await late.until(WarningRaised)
            snapshot = await late.until(SessionSnapshot)
            assert warning.code == "EVENT_GAP"
            assert warning.detail == f"Requested lastSeenSeq=2 but earliest retained seq is {before}"
            assert (snapshot.state, snapshot.last_assistant_text) == ("idle", "one")
            assert late.received[0].seq == reply.replay.from_seq
            read = await late.client.request(ReadEvents(0), ReadEventsReply, session_id)
            assert f'"seq":{before},' in bytes(read.events[0]).decode()
            await late.send("again")
            assert (await late.until(RunComplete)).summary == "two"
        async with home.client() as current:
            reply = await current.client.attach(session_id, before - 1)
            assert not reply.replay.gap


async def test_a_pruned_session_still_knows_what_it_is(tmp_path: Path, logs: Callable[[], Log]) -> None:
    async with stage(tmp_path, Puppet(answer("one")), log=logs(), pruned=True) as home, home.client() as guest:
        session_id = await guest.start("headless", system_prompt="be brief", approval_policy="all")
        await guest.client.request(SwitchModel("other"), SwitchModelReply, session_id)
        await guest.send("first")
        await guest.until(RunComplete)
        await guest.client.request(PruneSession(1000), PruneSessionReply, session_id)
        session = home.runtime.sessions.live(session_id)
        assert session is not None
        known = session.fold
        await crash(home, session_id)
        async with stage(tmp_path, Puppet(answer("two")), log=logs(), pruned=True) as after, after.client() as again:
            again.session_id = session_id
            await again.client.attach(session_id)
            reopened = after.runtime.sessions.live(session_id)
            assert reopened is not None
            assert reopened.fold.started == known.started
            assert reopened.fold.profile == known.profile
            await again.send("go on")
            assert (await again.until(RunComplete)).summary == "two"


async def test_a_call_id_from_before_a_prune_can_be_used_again(tmp_path: Path, logs: Callable[[], Log]) -> None:
    same = call("run_shell", {"command": "echo x >> ledger"}, "call_same")
    first = Puppet(asks_for(same), answer("one"))
    async with stage(tmp_path, first, log=logs(), pruned=True) as home, home.client() as guest:
        session_id = await guest.start(approval_policy="all")
        await guest.send("first")
        await guest.until(RunComplete)
        await guest.client.request(PruneSession(1000), PruneSessionReply, session_id)
        await crash(home, session_id)
        second = Puppet(asks_for(same), answer("two"))
        async with stage(tmp_path, second, log=logs(), pruned=True) as after, after.client() as again:
            again.session_id = session_id
            await again.client.attach(session_id)
            await again.send("second")
            assert (await again.until(RunComplete)).summary == "two"
            assert (tmp_path / "ledger").read_text() == "x\nx\n"

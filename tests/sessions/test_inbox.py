"""What is said to a session while it works: steering a run, queueing the next; and a log that forgets its beginning."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.log.sqlite import SqliteLog
from buddy.protocol.events import RunCancelling, RunComplete, SessionSnapshot, ToolResult, UserMessage, WarningRaised
from buddy.protocol.queue_requests import (
    ListQueue,
    ListQueueReply,
    QueueMessage,
    QueueMessageReply,
    SteerRun,
    UnqueueMessage,
    UnqueueMessageReply,
)
from buddy.protocol.requests import (
    AcceptedReply,
    PruneSession,
    PruneSessionReply,
    ReadEvents,
    ReadEventsReply,
    SwitchModel,
    SwitchModelReply,
)
from buddy.protocol.shapes import WaitingMessage
from buddy.scrub import Scrubber
from buddy.sessions.inbox import MAX_QUEUED, MessageQueue
from tests.harness.models import StepModel, answer, asks_for, call
from tests.harness.runtime import RuntimeClient, checked_host, crash, recorded_types
from tests.log.records import SESSION, started


async def steer(client: RuntimeClient, run_id: str, text: str) -> None:
    await client.api.request(SteerRun(run_id, text), AcceptedReply, client.session_id)


async def queue(client: RuntimeClient, text: str, message_id: str) -> int:
    reply = await client.api.request(QueueMessage(message_id, text), QueueMessageReply, client.session_id)
    return reply.position


async def test_a_steer_is_seen_at_the_next_turn(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *asks_for(call("read_file", {"path": "missing"}))], answer("as you say"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        await model.waiting.wait()
        await steer(client, run_id, "the other way")
        gate.set()
        assert (await client.wait_for(RunComplete)).summary == "as you say"
        assert (model.user_messages(0), model.user_messages(1)) == (["go"], ["go", "the other way"])
        assert [message.by for message in client.bodies(UserMessage)] == ["cli", "cli"]


async def test_a_steer_that_arrives_with_the_answer_continues_the_run(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *answer("finished")], answer("and that too"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        await model.waiting.wait()
        await steer(client, run_id, "one more thing")
        gate.set()
        assert (await client.wait_for(RunComplete)).summary == "and that too"
        assert client.types().count("run_started") == 1


async def test_only_the_active_run_can_be_steered(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer())) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        await client.wait_for(RunComplete)
        with pytest.raises(ProtocolError) as refusal:
            await steer(client, run_id, "too late")
        assert refusal.value.code == "NO_ACTIVE_RUN"


async def test_queued_messages_run_in_their_order(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *answer("one")], answer("two"), answer("three"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("first")
        await model.waiting.wait()
        assert [await queue(client, "second", "msg_2"), await queue(client, "third", "msg_3")] == [1, 2]
        assert await queue(client, "second", "msg_2") == 1
        gate.set()
        summaries = [(await client.wait_for(RunComplete)).summary for _ in range(3)]
        assert summaries == ["one", "two", "three"]
        assert model.user_messages() == ["first", "second", "third"]
        assert await queue(client, "second", "msg_2") == 0
        assert await client.send("second", message_id="msg_2") == client.bodies(RunComplete)[1].run_id


async def test_steering_does_not_count_as_a_place_in_the_queue(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *answer("one")], answer("steered"), answer("two"), answer("three"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("first")
        await model.waiting.wait()
        await steer(client, run_id, "another way")
        assert await queue(client, "second", "msg_2") == 1
        await steer(client, run_id, "and yet another")
        assert [await queue(client, "third", "msg_3"), await queue(client, "second", "msg_2")] == [2, 1]
        gate.set()
        assert [(await client.wait_for(RunComplete)).summary for _ in range(3)] == ["steered", "two", "three"]


async def test_a_message_that_is_queued_while_nothing_runs_starts_at_once(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer("at once"))) as host, host.client() as client:
        await client.start()
        assert await queue(client, "go", "msg_1") == 0
        assert (await client.wait_for(RunComplete)).summary == "at once"


async def test_what_is_queued_survives_a_restart(tmp_path: Path, logs: Callable[[], Log]) -> None:
    model = StepModel([asyncio.Event()])
    async with checked_host(tmp_path, model, log=logs()) as host, host.client() as client:
        session_id = await client.start()
        await client.send("first")
        await model.waiting.wait()
        await queue(client, "second", "msg_2")
        await queue(client, "third", "msg_3")
        await crash(host, session_id)
        later = StepModel(answer("one"), answer("two"), answer("three"))
        async with checked_host(tmp_path, later, log=logs()) as after, after.client() as again:
            await again.api.attach(session_id)
            assert [(await again.wait_for(RunComplete)).summary for _ in range(3)] == ["one", "two", "three"]
            assert later.user_messages() == ["first", "second", "third"]


async def test_a_shutdown_does_not_start_what_is_queued(tmp_path: Path, logs: Callable[[], Log]) -> None:
    model = StepModel([asyncio.Event()])
    async with checked_host(tmp_path, model, log=logs()) as host, host.client() as client:
        session_id = await client.start()
        await client.send("first")
        await model.waiting.wait()
        await queue(client, "second", "msg_2")
        await host.runtime.sessions.close()
        assert (await recorded_types(host, session_id))[-1] == "run_complete"
        async with checked_host(tmp_path, StepModel(answer("two")), log=logs()) as after, after.client() as again:
            await again.api.attach(session_id)
            await again.wait_for(RunComplete)
            assert (await again.wait_for(RunComplete)).summary == "two"


async def test_a_queue_that_is_full_says_so(tmp_path: Path) -> None:
    model = StepModel([asyncio.Event()])
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("first")
        await model.waiting.wait()
        for number in range(MAX_QUEUED):
            assert await queue(client, "more", f"msg_{number}") == number + 1
        with pytest.raises(ProtocolError) as refusal:
            await queue(client, "too much", "msg_last")
        assert (refusal.value.code, refusal.value.retryable) == ("OVERLOADED", True)
        assert await queue(client, "more", "msg_0") == 1
        await host.runtime.sessions.close()
        assert run_id == (await client.wait_for(RunComplete)).run_id


async def test_a_client_that_missed_what_was_pruned_gets_a_snapshot(tmp_path: Path) -> None:
    async with (
        checked_host(tmp_path, StepModel(answer("one"), answer("two")), pruned=True) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        await client.send("first")
        await client.wait_for(RunComplete)
        before = client.received[-1].seq
        pruned = await client.api.request(PruneSession(before), PruneSessionReply, session_id)
        assert pruned.first_seq == before
        async with host.client() as late:
            late.session_id = session_id
            reply = await late.api.attach(session_id, 2)
            assert reply.replay.gap
            warning = await late.wait_for(WarningRaised)
            snapshot = await late.wait_for(SessionSnapshot)
            assert warning.code == "EVENT_GAP"
            assert warning.detail == f"Requested lastSeenSeq=2 but earliest retained seq is {before}"
            assert (snapshot.state, snapshot.last_assistant_text) == ("idle", None)
            assert late.received[0].seq == reply.replay.from_seq
            read = await late.api.request(ReadEvents(0), ReadEventsReply, session_id)
            assert f'"seq":{before},' in bytes(read.events[0]).decode()
            await late.send("again")
            assert (await late.wait_for(RunComplete)).summary == "two"
        async with host.client() as current:
            reply = await current.api.attach(session_id, before - 1)
            assert not reply.replay.gap


async def test_a_pruned_session_still_knows_what_it_is(tmp_path: Path, logs: Callable[[], Log]) -> None:
    async with (
        checked_host(tmp_path, StepModel(answer("one")), log=logs(), pruned=True) as host,
        host.client() as client,
    ):
        session_id = await client.start("headless", system_prompt="be brief", approval_policy="all")
        await client.api.request(SwitchModel("other"), SwitchModelReply, session_id)
        await client.send("first")
        await client.wait_for(RunComplete)
        last = (await client.api.request(ReadEvents(0, 1), ReadEventsReply, session_id)).last_seq
        await client.api.request(PruneSession(last), PruneSessionReply, session_id)
        session = host.runtime.sessions.live(session_id)
        assert session is not None
        known = session.fold
        await crash(host, session_id)
        async with (
            checked_host(tmp_path, StepModel(answer("two")), log=logs(), pruned=True) as after,
            after.client() as again,
        ):
            again.session_id = session_id
            await again.api.attach(session_id)
            reopened = after.runtime.sessions.live(session_id)
            assert reopened is not None
            assert reopened.fold.started == known.started
            assert reopened.fold.profile == known.profile
            await again.send("go on")
            assert (await again.wait_for(RunComplete)).summary == "two"


async def test_a_call_id_from_before_a_prune_can_be_used_again(tmp_path: Path, logs: Callable[[], Log]) -> None:
    same = call("run_shell", {"command": "echo x >> ledger"}, "call_same")
    first = StepModel(asks_for(same), answer("one"))
    async with checked_host(tmp_path, first, log=logs(), pruned=True) as host, host.client() as client:
        session_id = await client.start(approval_policy="all")
        await client.send("first")
        await client.wait_for(RunComplete)
        last = (await client.api.request(ReadEvents(0, 1), ReadEventsReply, session_id)).last_seq
        await client.api.request(PruneSession(last), PruneSessionReply, session_id)
        await crash(host, session_id)
        second = StepModel(asks_for(same), answer("two"))
        async with checked_host(tmp_path, second, log=logs(), pruned=True) as after, after.client() as again:
            again.session_id = session_id
            await again.api.attach(session_id)
            run_id = await again.send("second")
            assert (await again.wait_for(RunComplete)).summary == "two"
            assert (tmp_path / "ledger").read_text() == "x\nx\n"
            # The result must not be taken for that of the call before: nobody knows the ids that were pruned.
            assert [result.call_id for result in again.bodies(ToolResult)] == [f"call_same.{run_id[-8:]}"]


async def test_a_message_that_was_taken_back_can_be_queued_again(tmp_path: Path, logs: Callable[[], Log]) -> None:
    model = StepModel([asyncio.Event()])
    async with checked_host(tmp_path, model, log=logs()) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("first")
        await model.waiting.wait()
        for text in ("second", "better"):
            assert await queue(client, text, "msg_2") == 1
            await client.api.request(UnqueueMessage("msg_2"), UnqueueMessageReply, session_id)
        await queue(client, "third", "msg_3")
        await client.api.cancel(session_id, run_id, return_queue=True)
        await client.wait_for(RunComplete)
        await crash(host, session_id)
        later = StepModel(answer("two"), answer("three"))
        async with checked_host(tmp_path, later, log=logs()) as after, after.client() as again:
            again.session_id = session_id
            await again.api.attach(session_id)
            for text, message_id in (("best", "msg_2"), ("third", "msg_3")):
                assert await queue(again, text, message_id) == 0
                await again.wait_for(RunComplete, lambda done: done.outcome == "success")
                assert await queue(again, text, message_id) == 0  # it is the same message, and has its run
            assert [message for message in later.user_messages() if message != "first"] == ["best", "third"]


async def test_a_cancel_can_give_the_queue_back_and_nothing_starts(tmp_path: Path) -> None:
    model = StepModel([asyncio.Event(), *answer("never")], answer("later"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        await model.waiting.wait()
        await queue(client, "one", "msg_one")
        await steer(client, run_id, "two")
        listed = (await client.api.request(ListQueue(), ListQueueReply, client.session_id)).messages
        assert [(waiting.text, waiting.steers) for waiting in listed] == [("one", False), ("two", True)]
        returned = await client.api.cancel(client.session_id, run_id, return_queue=True)
        assert returned == listed
        assert returned[0] == WaitingMessage("msg_one", "one", "cli")
        await client.wait_for(RunComplete)
        assert client.bodies(RunCancelling)[0].returned == returned
        assert (await client.api.request(ListQueue(), ListQueueReply, client.session_id)).messages == ()
        assert [message.text for message in client.bodies(UserMessage)] == ["go"]


async def test_a_queued_message_can_be_taken_back(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *answer("one")], answer("two"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await model.waiting.wait()
        await queue(client, "keep", "msg_keep")
        await queue(client, "drop", "msg_drop")
        dropped = UnqueueMessage("msg_drop")
        assert (await client.api.request(dropped, UnqueueMessageReply, client.session_id)).text == "drop"
        with pytest.raises(ProtocolError, match="no longer waiting"):
            await client.api.request(dropped, UnqueueMessageReply, client.session_id)
        gate.set()
        await client.wait_for(RunComplete)
        await client.wait_for(RunComplete)
        assert [message.text for message in client.bodies(UserMessage)] == ["go", "keep"]


async def test_a_message_is_found_as_soon_as_it_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SqliteLog.open(tmp_path, lambda: 0)
    await started(log)
    inbox = MessageQueue(log, SESSION, Scrubber(), is_new=True)
    assert await inbox.first() is None
    put, stored, reported = log.put, asyncio.Event(), asyncio.Event()

    async def put_and_wait(session_id: str, key: str, kind: str, body: bytes, limit: int) -> int | None:
        place = await put(session_id, key, kind, body, limit)
        stored.set()
        await reported.wait()
        return place

    monkeypatch.setattr(log, "put", put_and_wait)
    steering = asyncio.create_task(inbox.steer(QueueMessage("msg_1", "late"), "cli"))
    await stored.wait()
    for _ in range(2):  # a turn of the run, and its end
        found = await inbox.first()
        assert found is not None
        assert found.message.text == "late"
    reported.set()
    await steering
    await log.close()

"""The same clientMessageId is the same run, however often and wherever it is sent."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.protocol.events import RunComplete
from buddy.protocol.queue_requests import QueueMessage, QueueMessageReply
from buddy.protocol.requests import PruneSession, PruneSessionReply, ReadEvents, ReadEventsReply
from tests.harness.logs import read_all, refold
from tests.harness.models import StepModel, answer
from tests.harness.runtime import checked_host, crash, recorded_types, scripted_host


async def test_a_message_sent_twice_is_one_run(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer("once"))) as host, host.client() as client:
        await client.start()
        first = await client.send("go", message_id="msg_1")
        during = await client.send("go", message_id="msg_1")
        await client.wait_for(RunComplete)
        after = await client.send("go", message_id="msg_1")
        assert first == during == after
        assert client.types().count("run_complete") == 1


async def test_a_message_sent_by_twenty_clients_at_once_is_one_run(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer("once"))) as host, host.client() as client:
        session_id = await client.start()

        async def send() -> str:
            async with host.client() as other:
                other.session_id = session_id
                return await other.send("go", message_id="msg_1")

        runs = await asyncio.gather(*(send() for _ in range(20)))
        assert len(set(runs)) == 1
        await client.wait_for(RunComplete)
        assert (await recorded_types(host, session_id)).count("user_message") == 1


async def test_a_message_sent_again_after_a_restart_is_the_same_run(tmp_path: Path, logs: Callable[[], Log]) -> None:
    async with checked_host(tmp_path, StepModel(answer("once")), log=logs()) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("go", message_id="msg_1")
        await client.wait_for(RunComplete)
        await crash(host, session_id)
        async with checked_host(tmp_path, StepModel(), log=logs()) as after, after.client() as again:
            again.session_id = session_id
            assert await again.send("go", message_id="msg_1") == run_id
            assert (await recorded_types(after, session_id)).count("run_started") == 1


async def test_a_message_sent_again_while_its_run_is_recovered_is_the_same_run(
    tmp_path: Path, logs: Callable[[], Log]
) -> None:
    waiting = StepModel([asyncio.Event()])
    async with checked_host(tmp_path, waiting, log=logs()) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("go", message_id="msg_1")
        await waiting.waiting.wait()
        await crash(host, session_id)
        async with checked_host(tmp_path, StepModel(answer("late")), log=logs()) as after, after.client() as again:
            again.session_id = session_id
            await again.api.attach(session_id)
            assert await again.send("go", message_id="msg_1") == run_id
            assert (await again.wait_for(RunComplete)).summary == "late"


async def test_a_message_whose_run_was_pruned_is_refused_and_not_run_again(
    tmp_path: Path, logs: Callable[[], Log]
) -> None:
    async with (
        checked_host(tmp_path, StepModel(answer("once")), log=logs(), pruned=True) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        await client.send("go", message_id="msg_1")
        await client.wait_for(RunComplete)
        last = (await client.api.request(ReadEvents(0, 1), ReadEventsReply, session_id)).last_seq
        await client.api.request(PruneSession(last), PruneSessionReply, session_id)
        await crash(host, session_id)
        async with (
            checked_host(tmp_path, StepModel(answer("new")), log=logs(), pruned=True) as after,
            after.client() as again,
        ):
            again.session_id = session_id
            await again.api.attach(session_id)
            with pytest.raises(ProtocolError, match="was used before") as refusal:
                await again.send("go", message_id="msg_1")
            assert refusal.value.code == "INVALID_REQUEST"
            with pytest.raises(ProtocolError, match="was used before"):
                await again.api.request(QueueMessage("msg_1", "go"), QueueMessageReply, session_id)
            await again.send("go on", message_id="msg_2")
            assert (await again.wait_for(RunComplete)).summary == "new"


async def test_what_is_live_is_what_the_log_says_at_every_event(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer("one"), answer("two"))) as host, host.client() as client:
        session_id = await client.start()
        for text in ("first", "second"):
            await client.send(text)
            await client.wait_for(RunComplete)
        events = await read_all(host.runtime.log, session_id)
        folded = [await refold(host.runtime.log, events[:count]) for count in range(len(events) + 1)]
        session = host.runtime.sessions.live(session_id)
        assert session is not None
        assert folded[-1] == session.fold
        assert [fold.run is not None for fold in folded].count(True) == sum(
            event.run_id is not None and event.type not in ("user_message", "run_complete") for event in events
        )


async def test_sessions_of_two_runtimes_are_not_confused(tmp_path: Path) -> None:
    async with (
        scripted_host(tmp_path) as one,
        scripted_host(tmp_path) as other,
        one.client() as client,
        other.client() as stranger,
    ):
        stranger.session_id = await client.start()
        with pytest.raises(ProtocolError) as refusal:
            await stranger.send("go")
        assert refusal.value.code == "SESSION_NOT_FOUND"

"""The same clientMessageId is the same run, however often and wherever it is sent."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.protocol.events import RunComplete
from buddy.protocol.requests import PruneSession, PruneSessionReply
from harness import house
from sessions.stage import Puppet, answer, crash, log_types, read_all, refold, stage


async def test_a_message_sent_twice_is_one_run(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet(answer("once"))) as home, home.client() as guest:
        await guest.start()
        first = await guest.send("go", message_id="msg_1")
        during = await guest.send("go", message_id="msg_1")
        await guest.until(RunComplete)
        after = await guest.send("go", message_id="msg_1")
        assert first == during == after
        assert guest.types().count("run_complete") == 1


async def test_a_message_sent_by_twenty_clients_at_once_is_one_run(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet(answer("once"))) as home, home.client() as guest:
        session_id = await guest.start()

        async def send() -> str:
            async with home.client() as other:
                other.session_id = session_id
                return await other.send("go", message_id="msg_1")

        runs = await asyncio.gather(*(send() for _ in range(20)))
        assert len(set(runs)) == 1
        await guest.until(RunComplete)
        assert (await log_types(home, session_id)).count("user_message") == 1


async def test_a_message_sent_again_after_a_restart_is_the_same_run(tmp_path: Path, logs: Callable[[], Log]) -> None:
    async with stage(tmp_path, Puppet(answer("once")), log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        run_id = await guest.send("go", message_id="msg_1")
        await guest.until(RunComplete)
        await crash(home, session_id)
        async with stage(tmp_path, Puppet(), log=logs()) as after, after.client() as again:
            again.session_id = session_id
            assert await again.send("go", message_id="msg_1") == run_id
            assert (await log_types(after, session_id)).count("run_started") == 1


async def test_a_message_sent_again_while_its_run_is_recovered_is_the_same_run(
    tmp_path: Path, logs: Callable[[], Log]
) -> None:
    waiting = Puppet([asyncio.Event()])
    async with stage(tmp_path, waiting, log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        run_id = await guest.send("go", message_id="msg_1")
        await waiting.listening.wait()
        await crash(home, session_id)
        async with stage(tmp_path, Puppet(answer("late")), log=logs()) as after, after.client() as again:
            again.session_id = session_id
            await again.client.attach(session_id)
            assert await again.send("go", message_id="msg_1") == run_id
            assert (await again.until(RunComplete)).summary == "late"


async def test_a_message_whose_run_was_pruned_is_refused_and_not_run_again(
    tmp_path: Path, logs: Callable[[], Log]
) -> None:
    async with stage(tmp_path, Puppet(answer("once")), log=logs(), pruned=True) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("go", message_id="msg_1")
        await guest.until(RunComplete)
        await guest.client.request(PruneSession(1000), PruneSessionReply, session_id)
        await crash(home, session_id)
        async with stage(tmp_path, Puppet(answer("new")), log=logs(), pruned=True) as after, after.client() as again:
            again.session_id = session_id
            await again.client.attach(session_id)
            with pytest.raises(ProtocolError, match="was used before") as refusal:
                await again.send("go", message_id="msg_1")
            assert refusal.value.code == "INVALID_REQUEST"
            await again.send("go on", message_id="msg_2")
            assert (await again.until(RunComplete)).summary == "new"


async def test_what_is_live_is_what_the_log_says_at_every_event(tmp_path: Path) -> None:
    async with stage(tmp_path, Puppet(answer("one"), answer("two"))) as home, home.client() as guest:
        session_id = await guest.start()
        for text in ("first", "second"):
            await guest.send(text)
            await guest.until(RunComplete)
        events = await read_all(home.runtime.log, session_id)
        folded = [await refold(home.runtime.log, events[:count]) for count in range(len(events) + 1)]
        session = home.runtime.sessions.live(session_id)
        assert session is not None
        assert folded[-1] == session.fold
        assert [fold.run is not None for fold in folded].count(True) == sum(
            event.run_id is not None and event.type not in ("user_message", "run_complete") for event in events
        )


async def test_a_session_of_another_runtime_is_not_mixed_up(tmp_path: Path) -> None:
    async with house(tmp_path) as one, house(tmp_path) as other, one.client() as guest, other.client() as stranger:
        stranger.session_id = await guest.start()
        with pytest.raises(ProtocolError) as refusal:
            await stranger.send("go")
        assert refusal.value.code == "SESSION_NOT_FOUND"

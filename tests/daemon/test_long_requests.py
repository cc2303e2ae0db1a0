"""A request that takes long delays only the requests of its own session."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.protocol import requests as ask
from buddy.protocol.events import RunComplete
from buddy.protocol.shapes import Shape
from tests.harness.models import StepModel, answer
from tests.harness.runtime import RuntimeClient, RuntimeHost, checked_host


class Compacting:
    """A client whose session is being compacted until `model_replies` is set."""

    def __init__(self, host: RuntimeHost, client: RuntimeClient, model_replies: asyncio.Event) -> None:
        self.host = host
        self.client = client
        self.model_replies = model_replies
        self.compaction = self.request(ask.CompactSession(), ask.CompactSessionReply)

    def request(self, payload: Shape, reply: type[Shape]) -> "asyncio.Task[Shape]":
        return asyncio.create_task(self.client.api.request(payload, reply, self.client.session_id))


@asynccontextmanager
async def compacting(tmp_path: Path) -> AsyncGenerator[Compacting]:
    model_replies = asyncio.Event()
    summary = [model_replies, *answer("notes")]
    model = StepModel(*(answer(f"answer {number} " * 40) for number in range(6)), summary)
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        for number in range(6):
            run_id = await client.send(f"question {number} " * 40)
            await client.wait_for(RunComplete, lambda complete, run_id=run_id: complete.run_id == run_id)
        scene = Compacting(host, client, model_replies)
        await model.waiting.wait()
        try:
            yield scene
        finally:
            model_replies.set()
            await scene.compaction


async def test_other_requests_are_answered_during_a_compaction(tmp_path: Path) -> None:
    async with compacting(tmp_path) as scene:
        api = scene.client.api
        assert (await api.request(ask.Ping(), ask.PingReply)).pong
        assert len((await api.request(ask.ListSessions(), ask.ListSessionsReply)).sessions) == 1
        assert not scene.compaction.done()


async def test_a_session_is_not_deleted_during_a_compaction(tmp_path: Path) -> None:
    async with compacting(tmp_path) as scene:
        session_id = scene.client.session_id
        async with scene.host.client() as other:
            with pytest.raises(
                ProtocolError, match=f"cannot delete {session_id} while a compaction is active"
            ) as refusal:
                await other.api.request(ask.DeleteSession(), ask.DeleteSessionReply, session_id)
            assert (refusal.value.code, refusal.value.retryable) == ("RUN_IN_PROGRESS", True)
            scene.model_replies.set()
            assert isinstance(await scene.compaction, ask.CompactSessionReply)
            deleted = await other.api.request(ask.DeleteSession(), ask.DeleteSessionReply, session_id)
            assert deleted.deleted


async def test_a_session_keeps_the_order_of_its_requests(tmp_path: Path) -> None:
    order: list[str] = []
    async with compacting(tmp_path) as scene:
        scene.compaction.add_done_callback(lambda _: order.append("compaction"))
        for name in ("first", "second"):
            later = scene.request(ask.GetSnapshot(), ask.GetSnapshotReply)
            later.add_done_callback(lambda _, name=name: order.append(name))
        assert (await scene.client.api.request(ask.Ping(), ask.PingReply)).pong
        assert order == []
        scene.model_replies.set()
        await scene.request(ask.GetSnapshot(), ask.GetSnapshotReply)
    assert order == ["compaction", "first", "second"]


async def test_requests_that_wait_for_a_long_one_are_limited(tmp_path: Path) -> None:
    async with compacting(tmp_path) as scene:
        waiting = [scene.request(ask.GetSnapshot(), ask.GetSnapshotReply) for _ in range(40)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(ProtocolError) as refusal:
            await scene.client.api.request(ask.Ping(), ask.PingReply)
        assert refusal.value.code == "OVERLOADED"
        scene.model_replies.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, ProtocolError)]
    assert {error.code for error in refused} == {"OVERLOADED"}
    assert len(refused) == 40 - 31  # with the compaction itself, 32 are pending

"""Sessions that cannot be written here can be read: their folder is gone, or the disk is full."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.errors import ProtocolError, StorageFull
from buddy.log.contract import Lease
from buddy.log.memory import MemoryLog
from buddy.protocol.events import RunComplete, UserMessage
from buddy.protocol.queue_requests import ListQueue, ListQueueReply, QueueMessage, QueueMessageReply
from buddy.protocol.requests import GetSnapshot, GetSnapshotReply
from tests.harness.models import StepModel, answer
from tests.harness.runtime import RuntimeClient, checked_host, crash


class FullLog(MemoryLog):
    """A log that gives no leases while `is_full`, as one on a full disk."""

    is_full = False

    async def acquire(self, session_id: str, owner: str) -> Lease | None:
        if self.is_full:
            raise StorageFull("the disk is full")
        return await super().acquire(session_id, owner)


@asynccontextmanager
async def left_behind(tmp_path: Path, log: MemoryLog) -> AsyncGenerator[RuntimeClient]:
    """A client of a new process; its session has an answer, and is not open."""
    folder = tmp_path / "work"
    folder.mkdir()
    async with checked_host(folder, StepModel(answer("one")), log=log) as host, host.client() as client:
        session_id = await client.start()
        await client.send("first")
        await client.wait_for(RunComplete)
        await host.runtime.sessions.close()
    async with checked_host(tmp_path, StepModel(answer("two")), log=log) as host, host.client() as client:
        client.session_id = session_id
        yield client


async def check_readable(client: RuntimeClient) -> None:
    request, session_id = client.api.request, client.session_id
    now = await request(GetSnapshot(), GetSnapshotReply, session_id)
    assert (now.state, now.last_assistant_text, now.active_run_id) == ("idle", "one", None)
    first = await request(GetSnapshot(at_seq=1), GetSnapshotReply, session_id)
    assert (first.state, first.last_assistant_text) == ("idle", None)
    assert (await request(ListQueue(), ListQueueReply, session_id)).messages == ()
    await client.api.attach(session_id)
    assert (await client.wait_for(UserMessage)).text == "first"


async def test_a_session_whose_folder_is_gone_can_be_read(tmp_path: Path) -> None:
    async with left_behind(tmp_path, MemoryLog(lambda: 0)) as client:
        (tmp_path / "work").rmdir()
        await check_readable(client)
        with pytest.raises(ProtocolError, match="does not exist on this machine"):
            await client.send("second")


async def test_a_session_on_a_full_disk_can_be_read(tmp_path: Path) -> None:
    log = FullLog(lambda: 0)
    async with left_behind(tmp_path, log) as client:
        log.is_full = True
        await check_readable(client)
        with pytest.raises(ProtocolError, match="disk is full"):
            await client.send("second")
        log.is_full = False
        await client.send("second")
        assert (await client.wait_for(RunComplete, lambda done: done.summary == "two")).outcome == "success"


async def test_the_queue_of_a_session_that_is_not_open_is_read_from_its_log(tmp_path: Path) -> None:
    log, never = MemoryLog(lambda: 0), asyncio.Event()
    folder = tmp_path / "work"
    folder.mkdir()
    async with checked_host(folder, StepModel([never]), log=log) as host, host.client() as client:
        session_id = await client.start()
        await client.send("first")
        await client.api.request(QueueMessage("msg_later", "second"), QueueMessageReply, session_id)
        await crash(host, session_id)
    folder.rmdir()
    async with checked_host(tmp_path, StepModel(), log=log) as host, host.client() as client:
        reply = await client.api.request(ListQueue(), ListQueueReply, session_id)
        assert [(one.client_message_id, one.text) for one in reply.messages] == [("msg_later", "second")]
        assert host.runtime.sessions.open_sessions == []

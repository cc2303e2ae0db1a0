"""A disk that is full for a while: sessions continue by themselves once there is room."""

import asyncio
import os
from pathlib import Path

import pytest

from buddy.checkpoints.limits import MIB
from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.errors import ProtocolError, StorageFull
from buddy.log.contract import Batch, Lease
from buddy.log.memory import MemoryLog
from buddy.models.contract import TextDelta
from buddy.protocol.events import AssistantToken, RunComplete, RunStarted, ToolOutput, ToolResult
from buddy.protocol.file_requests import RestoreFiles, RestoreFilesReply
from buddy.sessions import sessions as watch
from tests.harness.models import StepModel, answer, asks_for, shell
from tests.harness.runtime import checked_host, scripted_host
from tests.sessions.recovering import cut_after


class FillingLog(MemoryLog):
    """A log that refuses to record anything while it is full."""

    def __init__(self) -> None:
        super().__init__(unix_ms)
        self._is_full = False
        self._refusals = asyncio.Semaphore(0)

    async def append(self, batch: Batch) -> int:
        self._check()
        return await super().append(batch)

    async def acquire(self, session_id: str, owner: str) -> Lease | None:
        self._check()
        return await super().acquire(session_id, owner)

    async def renew(self, owner: str) -> None:
        self._check()
        await super().renew(owner)

    def _check(self) -> None:
        if self._is_full:
            self._refusals.release()
            raise StorageFull("the disk is full")

    async def refuse(self, times: int) -> None:
        """Be full until this many writes were refused."""
        self._is_full = True
        for _ in range(times):
            await self._refusals.acquire()
        self._is_full = False


@pytest.fixture(autouse=True)
def _frequent_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "HEARTBEAT_SECONDS", 0.02)


async def test_a_run_goes_on_by_itself_once_the_disk_has_room(tmp_path: Path) -> None:
    log, going_on = FillingLog(), asyncio.Event()
    model = StepModel([TextDelta("these words are lost "), going_on, *answer("lost too")], answer("complete"))
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.start()
        await client.send("say something")
        await client.wait_for(AssistantToken)
        filling = asyncio.create_task(log.refuse(10))
        await asyncio.sleep(0)
        going_on.set()
        await filling
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.summary) == ("success", "complete")
        assert [started.recovered for started in client.bodies(RunStarted)] == [False, True]


async def test_a_command_whose_output_cannot_be_recorded_is_stopped(tmp_path: Path) -> None:
    log = FillingLog()
    command = "echo begun; until [ -e go ]; do sleep 0.01; done; echo more; sleep 60; touch made"
    model = StepModel(asks_for(shell(command)), answer("looked"))
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("do something")
        await client.wait_for(ToolOutput)
        filling = asyncio.create_task(log.refuse(10))
        await asyncio.sleep(0)
        (tmp_path / "go").touch()
        await filling
        result = await client.wait_for(ToolResult)
        assert result.structured_error is not None
        assert result.structured_error.type == "UNKNOWN_OUTCOME"
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert not (tmp_path / "made").exists()


async def test_a_run_that_could_not_be_recovered_at_the_start_goes_on_later(tmp_path: Path) -> None:
    log = FillingLog()
    async with checked_host(tmp_path, StepModel(answer()), log=log) as host, host.client() as client:
        await client.start()
        await client.send("say something")
        await client.wait_for(RunComplete)
        session_id = await cut_after(log, client.session_id, "run_started")
    async with checked_host(tmp_path, StepModel(answer("complete")), log=log) as host, host.client() as client:
        filling = asyncio.create_task(log.refuse(5))
        await asyncio.sleep(0)
        assert await host.runtime.sessions.recover() == []
        await filling
        await client.api.attach(session_id)
        assert (await client.wait_for(RunComplete)).summary == "complete"


async def test_files_are_not_restored_without_room_to_record_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = StepModel(asks_for(shell("echo new > made")), answer())
    overrides = RuntimeOverrides(provider=lambda _: model)
    async with scripted_host(tmp_path, overrides=overrides) as host, host.client() as client:
        session_id = await client.start(approval_policy="all")
        await client.send("make something")
        await client.wait_for(RunComplete)
        found = os.statvfs(tmp_path)
        low = os.statvfs_result((*found[:4], 189 * MIB // found.f_frsize, *found[5:]))

        def statvfs(_: object) -> os.statvfs_result:
            return low

        with monkeypatch.context() as patched:
            patched.setattr(os, "statvfs", statvfs)
            preview = await client.api.request(RestoreFiles(), RestoreFilesReply, session_id)
            assert [file.path for file in preview.restored] == ["made"]
            with pytest.raises(ProtocolError, match="less than 200 MiB") as refused:
                await client.api.request(RestoreFiles(dry_run=False), RestoreFilesReply, session_id)
        assert (refused.value.code, refused.value.retryable) == ("STORAGE_FULL", True)
        assert (tmp_path / "made").exists()
        await client.api.request(RestoreFiles(dry_run=False), RestoreFilesReply, session_id)
        assert not (tmp_path / "made").exists()

"""A parked run: its question never expires, it takes no memory, and it continues when somebody decides."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from buddy.config.settings import AgentSettings
from buddy.log.contract import Lease, Log
from buddy.protocol.events import ApprovalRequired, RunComplete
from buddy.protocol.requests import ListApprovals, ListApprovalsReply, SubmitApproval
from buddy.sessions.naming import rename
from tests.harness.clock import ManualClock
from tests.harness.models import StepModel, answer, asks_for, shell
from tests.harness.runtime import RuntimeHost, checked_host
from tests.sessions.test_deadlines import Logs

PARK = AgentSettings(model="test", approval_timeout="park")
NEVER = 9007199254740991
YEAR = 365 * 86400


async def pending(host: RuntimeHost) -> list[str]:
    async with host.client() as client:
        found = await client.api.request(ListApprovals(), ListApprovalsReply)
    return [asked.approval_id for asked in found.approvals]


async def parked(host: RuntimeHost, clock: ManualClock) -> tuple[str, str, ApprovalRequired]:
    """A session whose client has left, closed in the middle of its run."""
    async with host.client() as client:
        session_id = await client.start("headless", approval_policy="ask")
        run_id = await client.send("make it")
        asked = await client.wait_for(ApprovalRequired)
        assert asked.expires_at == NEVER
        clock.advance(YEAR)
        host.runtime.sessions.forget_dormant()
        assert host.runtime.sessions.live(session_id) is not None  # somebody follows it
    clock.advance(120)
    while host.runtime.sessions.open_sessions:
        await host.runtime.log.wait(session_id, 10**9, 0.01)
        host.runtime.sessions.forget_dormant()
    return session_id, run_id, asked


async def test_a_parked_run_continues_when_it_is_decided(tmp_path: Path) -> None:
    clock, model = ManualClock(), StepModel(asks_for(shell("touch made")), answer("made"))
    async with checked_host(tmp_path, model, clock=clock, agent=PARK) as host:
        session_id, run_id, asked = await parked(host, clock)
        assert await pending(host) == [asked.approval_id]
        assert (await host.runtime.sessions.record(session_id)).state == "awaiting_approval"
        async with host.client() as client:
            client.session_id = session_id
            await client.api.attach(session_id)
            await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            assert (await client.wait_for(RunComplete)).outcome == "success"
        assert (tmp_path / "made").exists()


class SharedLeases:
    """Leases of a log that others use, too; notes whether somebody should continue what is let go."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.resumed: list[bool] = []

    async def acquire(self, session_id: str) -> Lease | None:
        return await self._log.acquire(session_id, "another")

    async def release(self, lease: Lease, *, resume: bool, due: int | None) -> None:
        assert due is None
        self.resumed.append(resume)
        await self._log.release(lease)

    async def check_place(self, session_id: str) -> None: ...

    async def pin(self, lease: Lease) -> None: ...


async def test_a_parked_run_that_is_renamed_is_not_forgotten(tmp_path: Path) -> None:
    clock, model = ManualClock(), StepModel(asks_for(shell("touch made")))
    async with checked_host(tmp_path, model, clock=clock, agent=PARK) as host:
        session_id, *_ = await parked(host, clock)
        sessions, leases = host.runtime.sessions, SharedLeases(host.runtime.log)
        sessions.services = replace(sessions.services, leases=leases)
        await rename(sessions, session_id, "waits", "cli")
        assert leases.resumed == [True]  # its deadline would be lost otherwise


async def test_a_clean_stop_parks_instead_of_denying(tmp_path: Path, logs: Logs) -> None:
    clock, model = ManualClock(), StepModel(asks_for(shell("touch made")))
    log: Log = logs()
    async with checked_host(tmp_path, model, log=log, clock=clock, agent=PARK) as host, host.client() as client:
        session_id = await client.start("headless", approval_policy="ask")
        run_id = await client.send("make it")
        asked = await client.wait_for(ApprovalRequired)
    async with checked_host(tmp_path, StepModel(answer("made")), log=logs(), clock=clock, agent=PARK) as host:
        assert await pending(host) == [asked.approval_id]
        async with host.client() as client:
            client.session_id = session_id
            await client.api.attach(session_id)
            await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            assert (await client.wait_for(RunComplete)).outcome == "success"
        assert (tmp_path / "made").exists()


def test_parking_and_a_deadline_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="parked without a deadline"):
        AgentSettings(approval_timeout="park", approval_timeout_seconds=5)

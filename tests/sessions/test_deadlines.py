"""A decision after its deadline is refused, whatever happened to the clocks."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.config.settings import AgentSettings
from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.protocol.events import ApprovalExpired, ApprovalRequired, RunComplete
from buddy.protocol.requests import SetApprovalPolicy, SetApprovalPolicyReply, SubmitApproval
from buddy.protocol.shapes import RunOptions
from tests.harness.clock import ManualBootClock, ManualClock
from tests.harness.models import StepModel, answer, asks_for, shell
from tests.harness.runtime import RuntimeClient, checked_host, crash
from tests.sessions.recovering import recovered_client

NEVER = 9007199254740991
YEAR = 365 * 86400
FOUR_SECONDS = AgentSettings(model="test", approval_timeout_seconds=4)
Logs = Callable[[], Log]


def asleep(clock: ManualClock, boot: ManualBootClock) -> None:
    clock.advance(3600)
    boot.advance(3600)


def asleep_and_the_boot_clock_stood_still(clock: ManualClock, _: ManualBootClock) -> None:
    clock.advance(3600)


def set_back_and_waited(clock: ManualClock, boot: ManualBootClock) -> None:
    clock.advance(-3600)
    boot.advance(7)


def set_back_by_just_enough(clock: ManualClock, boot: ManualBootClock) -> None:
    clock.advance(3.999)
    boot.advance(4)


PAST = [asleep, asleep_and_the_boot_clock_stood_still, set_back_and_waited, set_back_by_just_enough]
Jump = Callable[[ManualClock, ManualBootClock], None]


async def refused(client: RuntimeClient, run_id: str, asked: ApprovalRequired) -> str:
    with pytest.raises(ProtocolError) as refusal:
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
    return refusal.value.code


async def test_a_question_in_an_interactive_session_waits_for_as_long_as_it_takes(tmp_path: Path, logs: Logs) -> None:
    """Also if the process dies meanwhile: the question keeps its id."""
    clock, boot = ManualClock(), ManualBootClock()
    async with (
        checked_host(
            tmp_path, StepModel(asks_for(shell("touch made"))), log=logs(), clock=clock, boot_clock=boot
        ) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        run_id = await client.send("make it")
        asked = await client.wait_for(ApprovalRequired)
        assert (asked.expires_at, asked.expires_at_boot) == (NEVER, None)
        clock.advance(YEAR)
        boot.advance(YEAR)
        assert [pending.approval_id for pending in host.runtime.sessions.open_sessions[0].pending_approvals()] == [
            asked.approval_id
        ]
        await crash(host, session_id)
        clock.advance(YEAR)
        async with recovered_client(host, session_id, StepModel(answer()), logs(), clock, boot) as after:
            await after.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            assert (await after.wait_for(RunComplete)).outcome == "success"
            assert (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("mode", "configured", "seconds"),
    [("headless", None, 300), ("headless", 4.0, 4), ("interactive", 4.0, 4), ("headless", float("inf"), None)],
)
async def test_the_deadline_depends_on_the_mode_unless_it_is_configured(
    tmp_path: Path, mode: str, configured: float | None, seconds: int | None
) -> None:
    clock = ManualClock()
    agent = AgentSettings(model="test", approval_timeout_seconds=configured)
    model = StepModel(asks_for(shell("true")))
    async with checked_host(tmp_path, model, clock=clock, agent=agent) as host, host.client() as client:
        await client.start(mode, approval_policy="ask")
        await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        assert asked.expires_at == (NEVER if seconds is None else clock.now + seconds * 1000)


@pytest.mark.parametrize("jump", PAST)
async def test_a_decision_after_the_deadline_is_refused_by_either_clock(tmp_path: Path, jump: Jump) -> None:
    clock, boot = ManualClock(), ManualBootClock()
    model = StepModel(asks_for(shell("touch made")), answer("I see"))
    async with (
        checked_host(tmp_path, model, clock=clock, boot_clock=boot, agent=FOUR_SECONDS) as host,
        host.client() as client,
    ):
        await client.start()
        run_id = await client.send("make it")
        asked = await client.wait_for(ApprovalRequired)
        jump(clock, boot)
        assert await refused(client, run_id, asked) == "APPROVAL_EXPIRED"
        assert (await client.wait_for(ApprovalExpired)).approval_id == asked.approval_id
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.reason) == ("denied", "denied")
        assert "nobody decided in time" in done.summary
        assert not (tmp_path / "made").exists()


async def test_a_decision_in_time_is_accepted_though_the_clock_was_set_back(tmp_path: Path) -> None:
    clock, boot = ManualClock(), ManualBootClock()
    model = StepModel(asks_for(shell("touch made")), answer())
    async with (
        checked_host(tmp_path, model, clock=clock, boot_clock=boot, agent=FOUR_SECONDS) as host,
        host.client() as client,
    ):
        await client.start()
        run_id = await client.send("make it")
        asked = await client.wait_for(ApprovalRequired)
        clock.advance(-3600)
        boot.advance(3.9)
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
        await client.wait_for(RunComplete)
        assert (tmp_path / "made").exists()


@pytest.mark.parametrize("jump", PAST)
async def test_what_expired_between_two_processes_is_refused_by_the_second(
    tmp_path: Path, logs: Logs, jump: Jump
) -> None:
    clock, boot = ManualClock(), ManualBootClock()
    model = StepModel(asks_for(shell("touch made")))
    async with (
        checked_host(tmp_path, model, log=logs(), clock=clock, boot_clock=boot, agent=FOUR_SECONDS) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        await crash(host, session_id)
        jump(clock, boot)
        async with recovered_client(host, session_id, StepModel(answer()), logs(), clock, boot) as after:
            assert await refused(after, run_id, asked) == "APPROVAL_EXPIRED"
            assert (await after.wait_for(RunComplete)).outcome == "denied"
            assert "approval_expired" in after.types()
            assert not (tmp_path / "made").exists()


async def test_after_a_reboot_only_the_wall_clock_counts(tmp_path: Path, logs: Logs) -> None:
    clock, boot = ManualClock(), ManualBootClock()
    model = StepModel(asks_for(shell("touch made")))
    async with (
        checked_host(tmp_path, model, log=logs(), clock=clock, boot_clock=boot, agent=FOUR_SECONDS) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        await crash(host, session_id)
        boot.boot, boot.now = "second", 9_000_000
        clock.advance(3)
        async with recovered_client(host, session_id, StepModel(answer()), logs(), clock, boot) as after:
            await after.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            await after.wait_for(RunComplete)
            assert (tmp_path / "made").exists()


@pytest.mark.parametrize("jump", PAST)
async def test_a_policy_does_not_approve_what_has_expired(tmp_path: Path, jump: Jump) -> None:
    clock, boot = ManualClock(), ManualBootClock()
    model = StepModel(asks_for(shell("touch made")), answer())
    async with (
        checked_host(tmp_path, model, clock=clock, boot_clock=boot, agent=FOUR_SECONDS) as host,
        host.client() as client,
    ):
        await client.start()
        await client.send("make it")
        await client.wait_for(ApprovalRequired)
        jump(clock, boot)
        await client.api.request(SetApprovalPolicy("all"), SetApprovalPolicyReply, client.session_id)
        await client.wait_for(ApprovalExpired)
        await client.wait_for(RunComplete)
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("jump", PAST)
@pytest.mark.parametrize("scope", ["session", "start", "run"])
async def test_a_window_ends_by_either_clock(tmp_path: Path, jump: Jump, scope: str) -> None:
    clock, boot = ManualClock(), ManualBootClock()
    go_on = asyncio.Event()
    model = StepModel(asks_for(shell("touch made")), [go_on, *asks_for(shell("touch late"))], answer())
    async with checked_host(tmp_path, model, clock=clock, boot_clock=boot) as host, host.client() as client:
        await client.start(**({"approval_policy": "4s"} if scope == "start" else {}))
        if scope == "session":
            await client.api.request(SetApprovalPolicy("until", 4), SetApprovalPolicyReply, client.session_id)
        await client.send("make both", options=RunOptions("4s") if scope == "run" else None)
        await model.waiting.wait()
        jump(clock, boot)
        go_on.set()
        asked = await client.wait_for(ApprovalRequired)
        assert asked.details["command"] == "touch late"
        assert (tmp_path / "made").exists()


@pytest.mark.parametrize("jump", PAST)
async def test_a_runs_own_window_ends_in_the_next_process(tmp_path: Path, logs: Logs, jump: Jump) -> None:
    clock, boot = ManualClock(), ManualBootClock()
    model = StepModel([asyncio.Event()])
    async with (
        checked_host(tmp_path, model, log=logs(), clock=clock, boot_clock=boot) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        await client.send("go", options=RunOptions("4s"))
        await model.waiting.wait()
        await crash(host, session_id)
        jump(clock, boot)
        model = StepModel(asks_for(shell("touch late")), answer())
        async with recovered_client(host, session_id, model, logs(), clock, boot) as after:
            asked = await after.wait_for(ApprovalRequired)
            assert asked.details["command"] == "touch late"

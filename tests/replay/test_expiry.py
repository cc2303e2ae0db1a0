"""Replay of runs whose questions expired, did not, or expired in an earlier version."""

from functools import partial
from pathlib import Path

import pytest

from buddy.config.settings import AgentSettings
from buddy.protocol.events import ApprovalRequired, RunComplete
from buddy.protocol.requests import AcceptedReply, CancelRun
from buddy.sessions.services import SessionServices
from tests.harness.models import answer, asks_for, shell
from tests.replay.recordings import assert_same, recording_session


async def test_an_unanswered_question_is_replayed(tmp_path: Path) -> None:
    agent = AgentSettings(model="test", approval_timeout_seconds=0.05)
    async with recording_session(
        tmp_path, asks_for(shell("echo a")), answer("ok"), policy="ask", agent=agent
    ) as recording:
        await recording.say("go")
        await assert_same(await recording.recording())


async def test_a_question_that_never_expires_is_replayed(tmp_path: Path) -> None:
    async with recording_session(tmp_path, asks_for(shell("echo a")), policy="ask") as recording:
        await recording.client.send("go")
        await recording.client.wait_for(ApprovalRequired)
        await assert_same(await recording.recording())


async def test_a_run_that_an_earlier_version_continued_after_its_question_expired_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buddy.sessions.runs.RECORDING", 1)
    monkeypatch.setattr("buddy.daemon.runtime.SessionServices", partial(SessionServices, expiry_ends_run=False))
    agent = AgentSettings(model="test", approval_timeout_seconds=0.05)
    turns = (asks_for(shell("echo a")), answer("then not"))
    async with recording_session(tmp_path, *turns, policy="ask", agent=agent) as recording:
        assert (await recording.say("go")).outcome == "success"
        await assert_same(await recording.recording())


async def test_a_cancel_that_was_scheduled_is_replayed(tmp_path: Path) -> None:
    async with recording_session(tmp_path, asks_for(shell("echo a")), policy="ask") as recording:
        client = recording.client
        run_id = await client.send("go")
        await client.wait_for(ApprovalRequired)
        await client.api.request(CancelRun(client.session_id, run_id, "timeout", 0.05), AcceptedReply)
        assert (await client.wait_for(RunComplete)).outcome == "cancelled"
        await assert_same(await recording.recording())

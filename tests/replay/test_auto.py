"""Replay of decisions that the policy `auto` made."""

from pathlib import Path

import pytest

from buddy.protocol.events import ApprovalRequired, RunComplete
from buddy.protocol.requests import SubmitApproval
from buddy.targets.confine.probe import probe
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import checked_host
from tests.replay.recordings import assert_same, recorded


@pytest.mark.parametrize("mode", ["interactive", "headless"])
async def test_decisions_of_the_policy_auto_are_replayed(tmp_path: Path, mode: str) -> None:
    if not (proof := probe()).method:
        pytest.skip(proof.reason)
    online = call("run_shell", {"command": "true", "network": True})
    model = StepModel(asks_for(shell("touch made"), online), asks_for(shell("true")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        session_id = await client.start(mode, sandbox="confined", approval_policy="auto")
        run_id = await client.send("go")
        if mode == "interactive":
            asked = await client.wait_for(ApprovalRequired)
            await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "deny"))
        assert (await client.wait_for(RunComplete)).outcome == "success"
        await assert_same(await recorded(host.runtime.log, session_id))

"""A question of a real agent that is open when Buddy dies is the same question afterwards."""

import os
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from buddy.daemon.runtime import unix_ms
from buddy.log.memory import MemoryLog
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalRequired,
    ModelRequest,
    Recovery,
    RunComplete,
    ToolCall,
    ToolResult,
)
from buddy.protocol.requests import SubmitApproval
from tests.backends import real
from tests.backends.agents import Agent, agent_host
from tests.backends.real import at_home, program
from tests.harness.fake_model import Answer, Request
from tests.harness.runtime import crash

pytestmark = pytest.mark.slow  # the real programs take seconds to start

MODELS = {"opencode": None, "droid": "custom:Fake-0", "acp:opencode": None, "acp:droid": "custom:Fake-0"}


numbers = count()


def obey(request: Request) -> Answer:
    """Each call has an id of its own: Droid takes a call with a known id for the known one."""
    answer = real.obey(request)
    return replace(answer, body=b"".join(answer.frames()).replace(b'"id_0"', b'"id_%d"' % next(numbers)))


@pytest.mark.parametrize("name", MODELS)
async def test_a_question_keeps_its_id(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(name.removeprefix("acp:"))
    workspace, log = tmp_path / "work", MemoryLog(unix_ms)
    workspace.mkdir()
    async with at_home(tmp_path / "home", monkeypatch, obey):
        agent = Agent("real", runtime=name, env={"PATH": os.environ["PATH"]})
        async with agent_host(agent, workspace, log) as host, host.client() as client:
            session_id = await client.start(model=MODELS[name])
            run_id = await client.send("run echo once >> ledger.txt")
            asked = await client.wait_for(ApprovalRequired)
            await crash(host, session_id)
        async with agent_host(agent, workspace, log) as after, after.client() as later:
            await later.api.attach(session_id, client.received[-1].seq)
            later.session_id = session_id
            await later.wait_for(ModelRequest)
            await later.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            ended = await later.wait_for(RunComplete)
            assert ended.outcome == "success", ended
            assert [body.action for body in later.bodies(Recovery)] == ["continued"]
            assert not later.bodies(ApprovalExpired)
            assert not later.bodies(ApprovalRequired)
            assert not later.bodies(ToolCall)
            assert [(body.call_id, body.is_error) for body in later.bodies(ToolResult)] == [(asked.call_id, False)]
    assert (workspace / "ledger.txt").read_text() == "once\n"

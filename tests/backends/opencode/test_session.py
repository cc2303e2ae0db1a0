"""OpenCode in a session: what is shown, asked about and recorded."""

from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.protocol.events import ApprovalRequired, AssistantMessage, AssistantToken, Error, RunComplete, WarningRaised
from buddy.protocol.requests import SubmitApproval
from buddy.protocol.shapes import BudgetLimits
from tests.backends.agents import AGENTS, agent_host

OPENCODE = next(agent for agent in AGENTS if agent.name == "opencode")


async def test_a_permission_request_to_write_shows_the_real_path(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (work / "link").symlink_to(outside)
    async with agent_host(OPENCODE, work) as host, host.client() as client:
        await client.start()
        run_id = await client.send("write link/new.txt")
        asked = await client.wait_for(ApprovalRequired)
        assert asked.kind == "write"
        assert asked.details["path"] == str(outside / "new.txt")
        assert "+new" in asked.details["diff"]
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve", None))
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert (outside / "new.txt").read_text() == "new\n"


async def test_text_that_ends_after_a_call_began_is_shown_once(tmp_path: Path) -> None:
    async with agent_host(OPENCODE, tmp_path) as host, host.client() as client:
        await client.start()
        await client.send("between let me see")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert "".join(body.text for body in client.bodies(AssistantToken)) == "let me see"
        assert [body.text for body in client.bodies(AssistantMessage) if body.text] == ["let me see"]


async def test_a_cost_limit_needs_a_model_with_a_price(tmp_path: Path) -> None:
    async with agent_host(OPENCODE, tmp_path) as host, host.client() as client:
        for model in ("fake/free", "fake/plain", "fake/unheard-of"):
            await client.start(model=model, budget=BudgetLimits(max_cost_usd=1.0))
            with pytest.raises(ProtocolError, match=f"the price of {model} is unknown") as refused:
                await client.send("say hello")
            assert refused.value.code == "INVALID_REQUEST"
            assert "limit turns, tokens or time" in (refused.value.detail or "")
        for model in ("fake/paid", None):
            await client.start(model=model, budget=BudgetLimits(max_cost_usd=1.0))
            await client.send("say hello")
            assert (await client.wait_for(RunComplete)).outcome == "success"


async def test_calls_made_without_asking_and_refusals_are_recorded(tmp_path: Path) -> None:
    async with agent_host(OPENCODE, tmp_path) as host, host.client() as client:
        await client.start()
        await client.send("unasked > emptied")
        await client.wait_for(RunComplete)
        assert any("without asking" in body.message for body in client.bodies(WarningRaised))
        (tmp_path / "opencode.json").write_text("{}")
        await client.start()
        await client.send("say anything")
        assert (await client.wait_for(RunComplete)).outcome == "failed"
        assert "buddy trust" in (client.bodies(Error)[-1].detail or "")

"""A server asks the user for data in the middle of a call: a question in the session, answered once."""

import asyncio
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.protocol.events import QuestionAnswered, QuestionAsked, RunComplete, ToolResult
from buddy.protocol.question_requests import AnswerQuestion
from buddy.protocol.requests import AcceptedReply, CancelRun, CancelRunReply
from tests.harness.models import StepModel, answer, asks_for, call
from tests.harness.processes import PATIENCE
from tests.harness.runtime import RuntimeClient, checked_host
from tests.replay.recordings import assert_same, recorded
from tests.tools.mcp.servers import lines, plain_server, python_server, settings

WAITING = "tests.harness.waiting_mcp_server"


async def reply(
    client: RuntimeClient, asked: QuestionAsked, action: str, given: dict[str, object] | None = None
) -> None:
    assert action in ("accept", "decline", "cancel")
    request = AnswerQuestion(asked.question_id, action, given)
    await client.api.request(request, AcceptedReply, client.session_id)


async def test_a_question_is_answered_once_and_the_answer_reaches_the_server(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    model = StepModel(asks_for(call("mcp__one__order", {})), answer())
    async with (
        checked_host(tmp_path, model, mcp=settings(one=plain_server(ledger))) as host,
        host.client() as client,
        asyncio.timeout(PATIENCE),
    ):
        await client.start(approval_policy="all")
        await client.send("go")
        asked = await client.wait_for(QuestionAsked)
        assert (asked.source, asked.message, asked.mode) == ("mcp:one", "What would you like?", "form")
        assert asked.schema is not None and set(asked.schema["properties"]) == {"size", "colour"}
        with pytest.raises(ProtocolError, match="colour is missing"):
            await reply(client, asked, "accept", {"size": 1})
        with pytest.raises(ProtocolError, match="size must be of type integer"):
            await reply(client, asked, "accept", {"size": "big", "colour": "red"})
        await reply(client, asked, "accept", {"colour": "red"})
        with pytest.raises(ProtocolError, match="is not open"):
            await reply(client, asked, "decline")
        await client.wait_for(RunComplete)
        (answered,) = client.bodies(QuestionAnswered)
        assert (answered.by, answered.action) == ("cli", "accept")
        (result,) = client.bodies(ToolResult)
        assert "'size': 2, 'colour': 'red'" in result.text
        assert lines(ledger)[-1] == "order accept"
        await assert_same(await recorded(host.runtime.log, client.session_id))


async def test_a_headless_session_declines_and_says_so(tmp_path: Path) -> None:
    model = StepModel(asks_for(call("mcp__one__order", {})), answer())
    async with (
        checked_host(tmp_path, model, mcp=settings(one=plain_server())) as host,
        host.client() as client,
        asyncio.timeout(PATIENCE),
    ):
        await client.start("headless", approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        (answered,) = client.bodies(QuestionAnswered)
        assert (answered.by, answered.action) == ("policy", "decline")
        assert "decline" in client.bodies(ToolResult)[0].text


@pytest.mark.slow
async def test_a_cancelled_run_closes_its_question(tmp_path: Path) -> None:
    model = StepModel(asks_for(call("mcp__one__order", {})))
    async with (
        checked_host(tmp_path, model, mcp=settings(one=plain_server())) as host,
        host.client() as client,
        asyncio.timeout(PATIENCE),
    ):
        await client.start(approval_policy="all")
        run_id = await client.send("go")
        asked = await client.wait_for(QuestionAsked)
        await client.api.request(CancelRun(client.session_id, run_id), CancelRunReply, client.session_id)
        await client.wait_for(RunComplete)
        assert [(one.by, one.action) for one in client.bodies(QuestionAnswered)] == [("daemon", "cancel")]
        with pytest.raises(ProtocolError, match="is not open"):
            await reply(client, asked, "decline")


async def test_a_server_hears_that_its_question_was_cancelled_and_serves_the_next_session(tmp_path: Path) -> None:
    model = StepModel(asks_for(call("mcp__one__ask", {})), asks_for(call("mcp__one__ask", {})), answer())
    async with (
        checked_host(tmp_path, model, mcp=settings(one=python_server(WAITING))) as host,
        host.client() as client,
        host.client() as second,
        asyncio.timeout(PATIENCE),
    ):
        await client.start(approval_policy="all")
        run_id = await client.send("go")
        await client.wait_for(QuestionAsked)
        await client.api.request(CancelRun(client.session_id, run_id), CancelRunReply, client.session_id)
        await client.wait_for(RunComplete)
        await second.start(approval_policy="all")
        await second.send("go")
        await reply(second, await second.wait_for(QuestionAsked), "accept", {"name": "Bob"})
        await second.wait_for(RunComplete)
        (result,) = second.bodies(ToolResult)
        assert result.text == '{"action": "accept", "content": {"name": "Bob"}}'


async def test_a_question_that_is_open_when_its_call_ends_is_cancelled_for_the_server(tmp_path: Path) -> None:
    calls = [asks_for(call(f"mcp__one__{name}", {})) for name in ("ask_late", "ask")]
    async with (
        checked_host(tmp_path, StepModel(*calls, answer()), mcp=settings(one=python_server(WAITING))) as host,
        host.client() as client,
        asyncio.timeout(PATIENCE),
    ):
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        assert [result.text for result in client.bodies(ToolResult)] == ["asked", '{"action": "cancel"}']
        assert {(one.by, one.action) for one in client.bodies(QuestionAnswered)} <= {("daemon", "cancel")}


@pytest.mark.slow
async def test_a_question_in_a_sub_agent_is_answered_by_a_client_of_its_parent(tmp_path: Path) -> None:
    delegated = call("delegate", {"task": "order something"})
    model = StepModel(asks_for(delegated), asks_for(call("mcp__one__order", {})), answer("ordered"), answer("done"))
    async with (
        checked_host(tmp_path, model, mcp=settings(one=plain_server())) as host,
        host.client() as client,
        asyncio.timeout(PATIENCE),
    ):
        await client.start(approval_policy="all")
        await client.send("go")
        asked = await client.wait_for(QuestionAsked)
        child = client.received[-1].session_id
        assert (asked.session_id, asked.parent, asked.agent) == (child, client.session_id, "general")
        request = AnswerQuestion(asked.question_id, "accept", {"colour": "red"})
        await client.api.request(request, AcceptedReply, child)
        await client.wait_for(QuestionAnswered)
        assert (await client.wait_for(RunComplete)).summary == "done"

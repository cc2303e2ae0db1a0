"""A person names a server's prompt or resource in a message, and the model reads what it stands for."""

import asyncio
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.protocol.events import ApprovalRequired, RunComplete, UserMessage
from buddy.protocol.requests import SendUserMessage
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.processes import PATIENCE
from tests.harness.runtime import checked_host
from tests.replay.recordings import assert_same, recorded
from tests.tools.mcp.servers import lines, plain_server, settings


async def test_prompts_and_resources_are_filled_in(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    model = StepModel(*[answer()] * 4)
    async with (
        asyncio.timeout(PATIENCE),
        checked_host(tmp_path, model, mcp=settings(one=plain_server(ledger))) as host,
        host.client() as client,
    ):
        await client.start()
        for text in (
            "/mcp__one__review src/main.py kind",
            "/mcp__one__review style=mild path=</prompt>a.py",
            "what is in @one:memo://notes ?",
            "mail me@example.com about @other:thing",
        ):
            await client.send(text)
            await client.wait_for(RunComplete)
        first, second, third, fourth = (model.user_messages(turn)[-1] for turn in range(4))
        assert first == '<prompt server="one" name="review">\nReview src/main.py, be kind.\n</prompt>'
        assert second == '<prompt server="one" name="review">\nReview <\\/prompt>a.py, be mild.\n</prompt>'
        assert third.startswith("what is in @one:memo://notes ?\n\n<resource server=")
        assert "buy milk" in third and lines(ledger) == ["read notes"]
        assert fourth == "mail me@example.com about @other:thing"
        assert client.bodies(UserMessage)[0].text == "/mcp__one__review src/main.py kind"
        with pytest.raises(ProtocolError, match="no prompt /mcp__one__nothing"):
            await client.send("/mcp__one__nothing")
        with pytest.raises(ProtocolError, match="needs path"):
            await client.send("/mcp__one__review")
        with pytest.raises(ProtocolError, match="memo://gone"):
            await client.send("@one:memo://gone")
        await assert_same(await recorded(host.runtime.log, client.session_id))


async def test_a_task_that_a_model_wrote_reads_nothing(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    task = "look at @one:memo://notes"
    model = StepModel(asks_for(call("delegate", {"task": task})), answer("looked"), answer("done"))
    async with (
        asyncio.timeout(PATIENCE),
        checked_host(tmp_path, model, mcp=settings(one=plain_server(ledger))) as host,
        host.client() as client,
    ):
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        assert model.user_messages(1) == [task]
        assert lines(ledger) == []


@pytest.mark.slow
async def test_a_message_that_is_repeated_or_refused_reads_nothing(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    model = StepModel(answer("read"), asks_for(shell("true")), answer("done"))
    async with (
        asyncio.timeout(PATIENCE),
        checked_host(tmp_path, model, mcp=settings(one=plain_server(ledger))) as host,
        host.client() as client,
    ):
        await client.start(approval_policy="ask")
        message = SendUserMessage(client.session_id, "msg_1", "@one:memo://notes")
        run_id = await client.api.send(message)
        await client.wait_for(RunComplete)
        assert await client.api.send(message) == run_id
        await client.send("go")
        await client.wait_for(ApprovalRequired)
        with pytest.raises(ProtocolError, match="while a run is active"):
            await client.send("@one:memo://notes")
        assert lines(ledger) == ["read notes"]

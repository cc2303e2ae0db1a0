"""A person names a server's prompt or resource in a message, and the model reads what it stands for."""

import asyncio
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.protocol.events import RunComplete, UserMessage
from tests.harness.models import StepModel, answer
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
            "/mcp__one__review style=mild path=a.py",
            "what is in @one:memo://notes ?",
            "mail me@example.com about @other:thing",
        ):
            await client.send(text)
            await client.wait_for(RunComplete)
        first, second, third, fourth = (model.user_messages(turn)[-1] for turn in range(4))
        assert first == "Review src/main.py, be kind." and second == "Review a.py, be mild."
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

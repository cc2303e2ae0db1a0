"""The reference servers, which speak an older version of the protocol: tools, questions, and files."""

import asyncio
from pathlib import Path

import pytest

from buddy.config.mcp import McpServer
from buddy.protocol.events import QuestionAsked, RunComplete, ToolResult
from buddy.protocol.question_requests import AnswerQuestion
from buddy.protocol.requests import AcceptedReply
from tests.harness.models import StepModel, answer, asks_for, call
from tests.harness.processes import PATIENCE
from tests.harness.runtime import checked_host
from tests.tools.mcp.servers import settings
from tests.tools.mcp.test_conformance import AGENTS, node


def reference(name: str, *args: str) -> McpServer:
    program = AGENTS / "node_modules" / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    if not program.exists():
        pytest.skip(f"{name} is not installed in {AGENTS}")
    return McpServer(command=node(), args=(str(program), *args))


async def test_everything_and_files(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "note.txt").write_text("from a file")
    both = settings(all=reference("everything", "stdio"), files=reference("filesystem", str(folder)))
    calls = (
        call("mcp__all__echo", {"message": "hello"}),
        call("mcp__all__get-tiny-image", {}),
        call("mcp__files__read_text_file", {"path": str(folder / "note.txt")}),
        call("mcp__all__trigger-elicitation-request", {}),
    )
    model = StepModel(answer("ready"), asks_for(*calls), answer())
    async with asyncio.timeout(PATIENCE), checked_host(tmp_path, model, mcp=both) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("are you there?")
        await client.wait_for(RunComplete)
        await client.send("go")
        asked = await client.wait_for(QuestionAsked)
        declined = AnswerQuestion(asked.question_id, "decline")
        await client.api.request(declined, AcceptedReply, client.session_id)
        await client.wait_for(RunComplete)
        echoed, image, read, elicited = client.bodies(ToolResult)
        assert "hello" in echoed.text and "image/png" in image.text and read.text.startswith("from a file")
        assert "declined" in elicited.text

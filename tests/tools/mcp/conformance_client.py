"""The client that the official conformance suite drives: Buddy's own connection, used as a session would use it.

`python -m tests.tools.mcp.conformance_client URL`: the suite appends the address of its server.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from mcp.shared.auth import AuthorizationCodeResult

from buddy.errors import ToolError
from buddy.protocol.forms import check_answer
from buddy.protocol.question_events import PersonAnswer, PersonQuestion
from buddy.tools.mcp.client import connect
from buddy.tools.mcp.contract import Caller, ServerStderr
from buddy.tools.mcp.definitions import ServerDefinition
from buddy.tools.mcp.oauth import Login, TokenFile, code_in

SAMPLES: dict[str, Any] = {"string": "text", "integer": 1, "number": 2, "boolean": True, "array": [], "object": {}}


async def main(url: str) -> None:
    definition = ServerDefinition("suite", url=url, timeout_seconds=20)
    location = ""

    async def redirect(address: str) -> None:
        nonlocal location
        async with httpx2.AsyncClient(follow_redirects=False) as browser:
            location = (await browser.get(address)).headers["location"]

    async def callback() -> AuthorizationCodeResult:
        return code_in(location)

    folder = Path(tempfile.mkdtemp())
    login = Login(url, TokenFile(folder, "suite", url), 3000, redirect, callback)
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    async with connect(definition, ServerStderr(), "", login if scenario.startswith("auth/") else None) as session:
        for tool in session.tools:
            caller = Caller("session", report, ask)
            try:
                await session.call(tool.name, sample(tool.parameters), 20, caller)
            except ToolError as error:
                sys.stderr.write(f"{tool.name}: {error}\n")


async def report(text: str) -> None:
    sys.stderr.write(f"{text}\n")


async def ask(question: PersonQuestion) -> PersonAnswer:
    """A person who accepts every default."""
    return PersonAnswer("accept", check_answer(question.schema, {}) if question.mode == "form" else None)


def sample(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: SAMPLES[field.get("type", "string")] for name, field in schema.get("properties", {}).items()}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

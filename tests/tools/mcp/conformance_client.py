"""The client that the official conformance suite drives: Buddy's own connection, used as a session would use it.

`python -m tests.tools.mcp.conformance_client URL`: the suite appends the address of its server.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp.shared.auth import AuthorizationCodeResult

from buddy.config.mcp import McpOauth
from buddy.errors import ToolError
from buddy.protocol.forms import check_answer
from buddy.protocol.question_events import PersonAnswer, PersonQuestion
from buddy.tools.mcp.client import connect
from buddy.tools.mcp.contract import Caller, ServerStderr, ToolDefinition
from buddy.tools.mcp.definitions import ServerDefinition
from buddy.tools.mcp.machine_login import machine_login
from buddy.tools.mcp.oauth import Login, TokenFile, code_in

SAMPLES: dict[str, Any] = {"string": "text", "integer": 1, "number": 2, "boolean": True, "array": [], "object": {}}

GRANTS: dict[str, Literal["authorization_code", "client_credentials", "jwt_bearer"]] = {
    "auth/pre-registration": "authorization_code",
    "auth/client-credentials-basic": "client_credentials",
    "auth/client-credentials-jwt": "client_credentials",
    "auth/wif-jwt-bearer": "jwt_bearer",
}


async def main(url: str) -> None:
    scenario, context = os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), conformance_context()
    definition = ServerDefinition("suite", url=url, timeout_seconds=20)
    location = ""

    async def redirect(address: str) -> None:
        nonlocal location
        async with httpx2.AsyncClient(follow_redirects=False) as browser:
            location = (await browser.get(address)).headers["location"]

    async def callback() -> AuthorizationCodeResult:
        return code_in(location)

    folder = Path(tempfile.mkdtemp())
    storage, client = TokenFile(folder, "suite", url), await known_client(url, scenario, context, folder)
    is_machine = client is not None and client.is_machine
    login = machine_login(url, storage, client) if is_machine and client else None
    login = login or Login(url, storage, 3000, redirect, callback, client)
    async with connect(definition, ServerStderr(), "", login if scenario.startswith("auth/") else None) as session:
        for name, arguments in calls(session.tools, context):
            caller = Caller("session", report, ask)
            try:
                await session.call(name, arguments, 20, caller)
            except ToolError as error:
                sys.stderr.write(f"{name}: {error}\n")


def conformance_context() -> dict[str, Any]:
    return json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


async def known_client(url: str, scenario: str, context: dict[str, Any], folder: Path) -> McpOauth | None:
    """The client of a scenario that has one, as a person would configure it."""
    if scenario == "auth/basic-cimd":
        return McpOauth(client_metadata_url="https://conformance-test.local/client-metadata.json")
    if scenario not in GRANTS:
        return None
    async with httpx2.AsyncClient() as browser:  # a person knows the issuer
        where = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        issuer = context.get("issuer") or (await browser.get(where)).json()["authorization_servers"][0]
    files = {"private_key_pem": "", "valid_jwt": ""}
    for name in files.keys() & context.keys():
        (folder / name).write_text(context[name])
        files[name] = str(folder / name)
    return McpOauth(
        client_id=context["client_id"],
        client_secret=context.get("client_secret", ""),
        issuer=issuer,
        grant=GRANTS[scenario],
        private_key_file=files["private_key_pem"],
        assertion_file=files["valid_jwt"],
        signing_algorithm=context.get("signing_algorithm", "ES256"),
    )


def calls(tools: Sequence[ToolDefinition], context: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a scenario wants called; else every tool, with sample arguments."""
    if wanted := context.get("toolCalls"):
        yield from ((one["name"], one["arguments"]) for one in wanted)
        return
    for tool in tools:
        arguments = sample(tool.parameters)
        if "schema" in arguments and len(tools) > 1:  # it wants to see what another tool's schema became
            arguments["schema"] = next(one.parameters for one in tools if one is not tool)
        yield tool.name, arguments


async def report(text: str) -> None:
    sys.stderr.write(f"{text}\n")


async def ask(question: PersonQuestion) -> PersonAnswer:
    """A person who accepts every default."""
    return PersonAnswer("accept", check_answer(question.schema, {}) if question.mode == "form" else None)


def sample(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: SAMPLES[field.get("type", "string")] for name, field in schema.get("properties", {}).items()}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

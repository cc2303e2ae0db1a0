"""When it is certain that a call was not made, and when nobody knows."""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from buddy.errors import OutcomeUnknown, ToolError
from buddy.tools.contract import Output
from buddy.tools.mcp.client import SdkSession, connect
from buddy.tools.mcp.connection import Open, ServerConnection
from buddy.tools.mcp.contract import Caller, ServerStderr, ToolDefinition
from buddy.tools.mcp.definitions import ServerDefinition
from buddy.tools.mcp.http import BoundedTransport, Reached
from buddy.tools.mcp.tool import McpTool
from tests.harness.processes import PATIENCE
from tests.tools.mcp.servers import MODULES


async def report(text: str) -> None:
    del text


async def ask(question: object) -> Any:
    raise AssertionError(question)


CALLER = Caller("sess_1", report, ask)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@asynccontextmanager
async def http_server(port: int) -> AsyncGenerator[None]:
    words = ("-m", "tests.harness.mcp_server", "http", str(port))
    process = await asyncio.create_subprocess_exec(sys.executable, *words, env=MODULES, stderr=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    (await asyncio.open_connection("127.0.0.1", port))[1].close()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_call_that_was_sent_has_an_unknown_outcome_whatever_else_failed_to_connect() -> None:
    port = free_port()

    @asynccontextmanager
    async def open_session(definition: ServerDefinition, stderr: ServerStderr) -> AsyncGenerator[SdkSession]:
        async with connect(definition, stderr, "n") as session:
            session.reached.problem = "another request found no server"
            yield session

    async def load() -> Open:
        return open_session

    connection = ServerConnection(ServerDefinition("web", url=f"http://127.0.0.1:{port}/mcp"), load)
    async with asyncio.timeout(PATIENCE), http_server(port):
        connection.start()
        await connection.wait_settled(PATIENCE)
        with pytest.raises(OutcomeUnknown):
            await connection.call("die", {}, CALLER)
        await connection.close()


async def test_only_requests_without_a_connection_count_as_not_sent() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    reached, nowhere = Reached(), f"http://127.0.0.1:{free_port()}"
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    there = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, httpx2.AsyncClient(transport=BoundedTransport(reached)) as client:
        assert not reached.sent_nothing(0)
        for method, url in (("POST", nowhere), ("GET", nowhere), ("POST", there), ("POST", nowhere)):
            with pytest.raises(httpx2.TransportError):
                await client.request(method, url)
    assert reached.posts == 3
    assert [reached.sent_nothing(since) for since in range(4)] == [False, False, True, False]


class Life:
    """One connection to a server, with one tool."""

    prompts = ()
    skipped = ()
    server = "fake"

    def __init__(self, description: str) -> None:
        self.tools = (ToolDefinition("echo", description, {}),)
        self.ended = asyncio.Event()
        self.calls = 0

    @property
    def is_usable(self) -> bool:
        return not self.ended.is_set()

    async def call(self, name: str, arguments: dict[str, Any], seconds: float, caller: Caller) -> Output:
        del name, arguments, seconds, caller
        self.calls += 1
        return Output("called")

    async def read_resource(self, uri: str, seconds: float) -> str:
        raise AssertionError(uri, seconds)

    async def get_prompt(self, name: str, arguments: dict[str, str], seconds: float) -> str:
        raise AssertionError(name, arguments, seconds)

    async def refresh(self) -> None:
        return

    async def wait_changed(self) -> None:
        await asyncio.Event().wait()

    async def wait_ended(self) -> str:
        await self.ended.wait()
        return "it ended"


@pytest.mark.parametrize("after", ["says it", "does something else"])
async def test_a_tool_that_is_redefined_by_a_restart_is_not_called(after: str) -> None:
    lives = [Life("says it"), Life(after)]
    coming = iter(lives)

    @asynccontextmanager
    async def open_session(_: ServerDefinition, __: ServerStderr) -> AsyncGenerator[Life]:
        yield next(coming)

    async def load() -> Open:
        return open_session

    connection = ServerConnection(ServerDefinition("one", command="x"), load)
    async with asyncio.timeout(PATIENCE):
        connection.start()
        await connection.wait_settled(PATIENCE)
        tool = McpTool("mcp__one__echo", connection, lives[0].tools[0])
        given = tool.read_arguments({})
        lives[0].ended.set()
        call: Any = SimpleNamespace(session_id="sess_1", ask=ask)
        if after == "says it":
            assert (await tool.run(given, call)).text == "called"
        else:
            with pytest.raises(ToolError, match="redefined by its server, so it was not called"):
                await tool.run(given, call)
        assert [life.calls for life in lives] == [0, int(after == "says it")]
        await connection.close()


class Gateway(BaseHTTPRequestHandler):
    """A server behind a gateway, which loses the answer to every call in its own way."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        match asked["method"]:
            case "initialize":
                about: dict[str, Any] = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": INFO,
                }
                self.answer(200, {"jsonrpc": "2.0", "id": asked["id"], "result": about})
            case "tools/list":
                tools = [
                    {"name": str(status), "inputSchema": {"type": "object"}} for status in (500, 502, 503, 501, 429)
                ]
                self.answer(200, {"jsonrpc": "2.0", "id": asked["id"], "result": {"tools": tools}})
            case "tools/call" if asked["params"]["name"] == "501":
                error = {"code": -32603, "message": "the server itself says no"}
                self.answer(501, {"jsonrpc": "2.0", "id": asked["id"], "error": error})
            case "tools/call":
                self.answer(int(asked["params"]["name"]), None)
            case _:
                self.answer(202 if "id" not in asked else 400, None)

    def do_GET(self) -> None:
        self.answer(405, None)

    def answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        del format, args


INFO = {"name": "gateway", "version": "1"}


async def test_an_error_of_a_gateway_leaves_the_outcome_unknown() -> None:
    gateway = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=gateway.serve_forever, daemon=True).start()
    definition = ServerDefinition("web", url=f"http://127.0.0.1:{gateway.server_port}/mcp")
    try:
        async with asyncio.timeout(PATIENCE), connect(definition, ServerStderr(), "n") as session:
            for status in ("500", "502", "503"):
                with pytest.raises(OutcomeUnknown, match=f"HTTP status {status}"):
                    await session.call(status, {}, 5, CALLER)
            with pytest.raises(ToolError, match="the server itself says no") as said:
                await session.call("501", {}, 5, CALLER)
            assert not isinstance(said.value, OutcomeUnknown)
            with pytest.raises(ToolError) as refused:  # not taken, so it did not run
                await session.call("429", {}, 5, CALLER)
            assert not isinstance(refused.value, OutcomeUnknown)
    finally:
        gateway.shutdown()
        gateway.server_close()

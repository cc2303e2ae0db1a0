"""What a server can make the daemon hold: bodies that unpack to more than they seem, and sessions that are over."""

import asyncio
import gzip
import time
from pathlib import Path

import pytest

from buddy.tools.mcp import servers as servers_module
from buddy.tools.mcp.definitions import Definitions, ServerDefinition
from buddy.tools.mcp.http import EncodedBody, Reached, make_http_client
from buddy.tools.mcp.servers import Servers
from buddy.tools.mcp.source import McpSource
from tests.harness.processes import PATIENCE


async def test_a_compressed_body_is_neither_asked_for_nor_read() -> None:
    asked: list[bytes] = []
    body = gzip.compress(b"x" * 1000)

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    definition = ServerDefinition("web", url=url, headers=(("accept-encoding", "gzip"),))
    async with asyncio.timeout(PATIENCE), server, make_http_client(definition, Reached()) as client:
        with pytest.raises(EncodedBody, match="'gzip'"):
            await client.get(url)
    lines = [line for line in asked[0].lower().split(b"\r\n") if line.startswith(b"accept-encoding")]
    assert lines == [b"accept-encoding: identity"]


async def test_what_is_known_of_a_session_is_forgotten_after_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers_module, "GRACE_SECONDS", -1.0)
    is_open = {"a": True, "b": True}
    servers = Servers(lambda one: is_open[one], f"test {time.monotonic()}")
    source = McpSource(servers, Definitions, lambda _: False, {})
    for session_id in is_open:
        source.start(session_id, str(tmp_path), is_local=True)
        source.load(session_id, ["mcp__x__y"])
    is_open["a"] = False
    assert servers.forget_closed() == ["a"]
    assert source.loaded("a") == frozenset() and source.loaded("b") == {"mcp__x__y"}
    await servers.close()

"""The fetching client against real loopback servers: pinned, bounded, re-checked at each hop."""

import asyncio
import gzip

import pytest

from buddy.errors import ToolError
from buddy.tools.fetch.addresses import refuse_closed
from buddy.tools.fetch.client import Fetcher
from tests.tools.fetch.loopback import fetcher, open_guard, reply, serving


async def test_a_page_is_fetched() -> None:
    seen: list[str] = []

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        seen.append(head)
        writer.write(reply(b"hello"))

    async with serving(answer) as port:
        page = await fetcher().get(f"http://example.com:{port}/x?y=1")
    assert (page.status, page.body, page.truncated) == (200, b"hello", False)
    assert seen[0].startswith("GET /x?y=1 HTTP/1.1\r\n")
    assert f"Host: example.com:{port}" in seen[0]


async def test_the_connection_goes_to_the_checked_address_only() -> None:
    """A name that answers differently the second time is asked once per connection, and what it said then is used."""
    answers = [["127.0.0.1"], ["192.0.2.1"]]

    async def resolve(_host: str, _port: int) -> list[str]:
        return answers.pop(0)

    async def answer(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b"pinned"))

    async with serving(answer) as port:
        page = await Fetcher(resolve=resolve, guard=open_guard).get(f"http://rebind.example:{port}/")
    assert page.body == b"pinned"
    assert answers == [["192.0.2.1"]]


async def test_loopback_is_refused_before_anything_connects() -> None:
    connected: list[str] = []

    async def answer(head: str, _writer: asyncio.StreamWriter) -> None:
        connected.append(head)

    async with serving(answer) as port:
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"):
            with pytest.raises(ToolError, match="not on the public internet"):
                await Fetcher().get(f"http://{host}:{port}/")
    assert connected == []


async def test_each_redirect_is_checked_again() -> None:
    async def answer(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b"", "Location: http://internal.example/", status="302 Found"))

    async def resolve(host: str, _port: int) -> list[str]:
        return ["10.0.0.1"] if host == "internal.example" else ["127.0.0.1"]

    def guard(host: str, found: list[str]) -> None:
        refuse_closed(host, [address for address in found if address != "127.0.0.1"])

    async with serving(answer) as port:
        with pytest.raises(ToolError, match=r"10\.0\.0\.1"):
            await Fetcher(resolve=resolve, guard=guard).get(f"http://outer.example:{port}/")


async def test_redirects_end_and_other_schemes_are_not_followed() -> None:
    async def turn(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b"", "Location: /again", status="302 Found"))

    async def leave(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b"", "Location: file:///etc/passwd", status="302 Found"))

    async with serving(turn) as port:
        with pytest.raises(ToolError, match="more than 5 redirects"):
            await fetcher().get(f"http://x.example:{port}/")
    async with serving(leave) as port:
        with pytest.raises(ToolError, match="only http and https"):
            await fetcher().get(f"http://x.example:{port}/")


async def test_a_hop_can_be_refused_by_rule() -> None:
    hops: list[str] = []

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        target = f"Location: http://second.example:{port}/" if "first" in head else "X: y"
        writer.write(reply(b"", target, status="302 Found" if "first" in head else "200 OK"))

    async with serving(answer) as port:
        await fetcher().get(f"http://first.example:{port}/", lambda url: hops.append(url.host))
    assert hops == ["first.example", "second.example"]


async def test_a_long_body_is_cut_by_its_decompressed_size() -> None:
    async def endless(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(10_000):
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()

    async def bomb(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(gzip.compress(b"x" * 20_000_000), "Content-Encoding: gzip"))

    for answer in (endless, bomb):
        async with serving(answer) as port:
            page = await fetcher(max_bytes=5000).get(f"http://x.example:{port}/")
        assert (len(page.body), page.truncated) == (5000, True)


async def test_a_slow_page_ends_at_the_deadline() -> None:
    async def drip(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serving(drip) as port:
        with pytest.raises(ToolError, match="no page within"):
            await fetcher(max_seconds=0.3).get(f"http://x.example:{port}/")


async def test_broken_answers_are_tool_errors() -> None:
    async def garbage(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"what?\r\n\r\n")

    async def headers(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n")

    async def brotli(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b"x", "Content-Encoding: br"))

    async def short(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")

    for answer in (garbage, headers, brotli, short):
        async with serving(answer) as port:
            with pytest.raises(ToolError):
                await fetcher().get(f"http://x.example:{port}/")

"""The measuring model follows its script on both wires, and counts exactly the requests of a conversation."""

import socket
from collections.abc import Iterator

import pytest

from bench.model import Script, parse
from bench.replies import WORD
from bench.setup import Setup, gaps
from buddy.models.completions import Completions
from buddy.models.contract import Prompt, Reply, ToolSpec, UserItem
from buddy.models.responses import Responses

WIRES = {"completions": Completions, "responses": Responses}
TOOL = ToolSpec("look", "Look.", {"type": "object", "properties": {}})


@pytest.fixture(scope="module")
def setup() -> Iterator[Setup]:
    with Setup() as setup:
        yield setup


async def ask(
    setup: Setup, wire: str, script: Script, times: int, tools: tuple[ToolSpec, ...] = (TOOL,)
) -> list[Reply]:
    provider = WIRES[wire]("bench", setup.base_url, "x", "bench", 8192)
    prompt = Prompt("", (UserItem(script.prompt()),), tools)
    try:
        pieces = [piece for _ in range(times) async for piece in provider.stream(prompt)]
    finally:
        await provider.close()
    return [piece for piece in pieces if isinstance(piece, Reply)]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_script_of_turns_calls_its_tool_and_then_answers(setup: Setup, wire: str) -> None:
    script = setup.script(turns=2, call="look", arguments='{"at": "a b"}', parallel=2, deltas=3)
    first, second, last = await ask(setup, wire, script, 3)
    for reply in (first, second):
        assert [(call.name, call.arguments) for call in reply.calls] == [("look", '{"at": "a b"}')] * 2
    ids = [call.call_id for reply in (first, second) for call in reply.calls]
    assert len(set(ids)) == 4
    assert (last.text, last.calls) == (WORD * 3, ())
    assert last.usage is not None


@pytest.mark.parametrize("wire", WIRES)
async def test_requests_are_timed_in_order_with_the_gaps_between_them(setup: Setup, wire: str) -> None:
    script = setup.script(turns=2, call="look", think=0.001)
    await ask(setup, wire, script, 3)
    requests = setup.requests(script)
    assert len(requests) == 3
    times = [time for request in requests for time in request]
    assert times == sorted(times)
    assert len(gaps(requests)) == 2
    assert all(request.sent - request.received >= 1_000_000 for request in requests)


async def test_a_request_without_tools_is_answered_and_not_counted(setup: Setup) -> None:
    script = setup.script(turns=1, call="look")
    (reply,) = await ask(setup, "completions", script, 1, tools=())
    assert reply.text == WORD
    assert setup.requests(script) == []


def test_a_request_counts_as_received_with_its_last_byte(setup: Setup) -> None:
    script = setup.script()
    body = b'{"tools":[],"stream":true,"messages":[{"content":"%b"}]}' % script.prompt().encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", setup.port)) as connection:
        connection.sendall(head + body[:-1])
        assert setup.requests(script) == []
        connection.sendall(body[-1:])
        reply = b""
        while not reply.endswith(b"0\r\n\r\n"):
            reply += connection.recv(65536)
    assert len(setup.requests(script)) == 1


def test_a_script_is_read_back_from_its_prompt() -> None:
    script = Script("k1", turns=3, call="read", arguments='{"path": "[[a]] b"}', parallel=2, deltas=7, think=0.5)
    assert parse(script.prompt().removeprefix("[[bench ").removesuffix("]]")) == script

"""The client against a fake runtime: order, duplicates, floods and a lost connection."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from buddy.client import client as module
from buddy.client.client import Client
from buddy.daemon.link import MemoryLink, memory_pair
from buddy.protocol.codes import VERSION
from buddy.protocol.envelopes import Event, Request, Response, encode, event_of
from buddy.protocol.events import AssistantToken
from buddy.protocol.requests import HelloReply, Ping, PingReply


class FakeRuntime:
    """The runtime's end of a connection."""

    def __init__(self, link: MemoryLink) -> None:
        self.link = link

    async def next_request(self) -> Request:
        line = await self.link.read_line()
        assert line is not None
        return msgspec.json.decode(line, type=Request)

    async def welcome(self, version: str = VERSION) -> None:
        request = await self.next_request()
        reply = encode(HelloReply("fake", "1", version, ()))
        await self.link.write(Response(request.request_id, "hello", True, reply, None).line())

    async def pong(self) -> None:
        request = await self.next_request()
        await self.link.write(Response(request.request_id, "ping", True, encode(PingReply(True, 1)), None).line())

    async def say(self, *seqs: int, session_id: str = "sess_1") -> None:
        events = [event_of(AssistantToken(text=str(seq)), session_id=session_id, seq=seq, ts=1) for seq in seqs]
        await self.link.write(b"".join(event.line() for event in events))


@asynccontextmanager
async def connected(size: int = 64) -> AsyncGenerator[tuple[Client, FakeRuntime]]:
    theirs, ours = memory_pair(size)
    runtime = FakeRuntime(ours)
    async with asyncio.TaskGroup() as group:
        group.create_task(runtime.welcome())
        async with Client(theirs, "test") as client:
            yield client, runtime


async def take(client: Client, count: int) -> list[Event]:
    found: list[Event] = []
    async for event in client.events():
        found.append(event)
        if len(found) == count:
            break
    return found


async def test_events_come_in_order_and_each_once() -> None:
    async with connected() as (client, runtime):
        await runtime.say(1, 2, 3)
        await runtime.say(2, 3, 4)
        await runtime.say(1, session_id="sess_2")
        await runtime.say(4, 5)
        found = await take(client, 6)
        assert [(event.session_id, event.seq) for event in found] == [
            ("sess_1", 1),
            ("sess_1", 2),
            ("sess_1", 3),
            ("sess_1", 4),
            ("sess_2", 1),
            ("sess_1", 5),
        ]


async def test_an_event_of_an_unknown_type_is_passed_on_without_a_body() -> None:
    async with connected() as (client, runtime):
        await runtime.link.write(Event("sess_1", 1, 1, "invented_later", msgspec.Raw(b'{"x":1}')).line())
        await runtime.say(2)
        found = await take(client, 2)
        assert [(event.type, event.body()) for event in found] == [
            ("invented_later", None),
            ("assistant_token", AssistantToken(text="2")),
        ]


async def test_a_request_is_answered_during_a_flood_of_events_that_nothing_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_BUFFERED", 10)
    async with connected(size=4) as (client, runtime):

        async def flood() -> None:
            for start in range(1, 200, 10):
                await runtime.say(*range(start, start + 10))
            await runtime.pong()

        async with asyncio.TaskGroup() as group:
            group.create_task(flood())
            assert (await client.request(Ping(), PingReply)).pong
        assert [event.seq for event in await take(client, 200)] == list(range(1, 201))


async def test_a_lost_connection_fails_what_waits_and_ends_the_events() -> None:
    async with connected() as (client, runtime):
        await runtime.say(1)

        async def hang_up() -> None:
            await runtime.next_request()
            runtime.link.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(hang_up())
            with pytest.raises(ConnectionResetError):
                await client.request(Ping(), PingReply)
        assert [event.seq async for event in client.events()] == [1]
        with pytest.raises(ConnectionResetError):
            await client.request(Ping(), PingReply)


async def test_a_runtime_of_another_version_is_refused() -> None:
    theirs, ours = memory_pair()
    async with asyncio.TaskGroup() as group:
        group.create_task(FakeRuntime(ours).welcome("push.runtime.v9"))
        with pytest.raises(module.ProtocolError, match="v9"):
            async with Client(theirs, "test"):
                raise AssertionError("not reached")

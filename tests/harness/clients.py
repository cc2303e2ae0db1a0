"""One interface for the independent client and for ours: contract tests run with both, over both transports."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Literal, Protocol

import msgspec

from buddy.client.client import Client
from buddy.client.socket import connect_unix
from buddy.client.websocket import connect_websocket
from buddy.errors import ProtocolError
from buddy.protocol.request_table import REQUESTS
from buddy.protocol.requests import AttachSession, StartSession, StartSessionReply
from tests.harness.daemon import Daemon
from tests.harness.processes import PATIENCE
from tests.harness.wire_client import ErrorResponse, Message, SocketTransport, WebSocketTransport, WireClient

TransportName = Literal["unix", "websocket"]
ClientKind = Literal["plain", "ours"]

_message_ids = itertools.count(1)


class ProtocolClient(Protocol):
    """What a contract test needs of a client."""

    token: str

    @property
    def events(self) -> list[Message]: ...

    async def ask(self, kind: str, payload: Message | None = None, session_id: str | None = None) -> Message: ...

    async def wait_for(self, kind: str, where: Callable[[Message], bool] = lambda _: True) -> Message: ...


class BuddyClient:
    """Our client behind the interface of the independent one."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.events: list[Message] = []
        self.token = ""
        self._incoming = client.events()

    async def ask(self, kind: str, payload: Message | None = None, session_id: str | None = None) -> Message:
        row = REQUESTS[kind]
        try:
            request = msgspec.convert(payload or {}, row.payload)
            if isinstance(request, StartSession):
                started: StartSessionReply = await self.client.start_session(request)
                return json.loads(msgspec.json.encode(started))
            if type(request) is AttachSession:
                reply = await self.client.attach(request.session_id, request.last_seen_seq, request.attach_token)
                return json.loads(msgspec.json.encode(reply))
            return json.loads(msgspec.json.encode(await self.client.request(request, row.reply, session_id)))
        except ProtocolError as error:
            raise ErrorResponse({"code": error.code, "message": error.message, "retryable": error.retryable}) from error

    async def wait_for(self, kind: str, where: Callable[[Message], bool] = lambda _: True) -> Message:
        async with asyncio.timeout(PATIENCE):
            async for event in self._incoming:
                message = json.loads(event.line())
                self.events.append(message)
                if event.type == kind and where(message["payload"]):
                    return message
        raise ConnectionResetError("the daemon closed the connection")


@asynccontextmanager
async def connected_client(
    daemon: Daemon,
    kind: ClientKind = "plain",
    transport: TransportName = "unix",
    *,
    name: str = "cli",
    token: str | None = None,
) -> AsyncGenerator[ProtocolClient]:
    """A client after `hello`; over WebSocket with the owner's token unless another is given."""
    url, shown = "", ""
    if transport == "websocket":
        url, shown = f"ws://127.0.0.1:{daemon.port()}/", token or daemon.token()
    if kind == "ours":
        link = await (connect_websocket(url, shown) if transport == "websocket" else connect_unix(daemon.socket))
        async with Client(link, name) as client:
            yield BuddyClient(client)
        return
    async with wire_client(daemon, transport, name=name, token=token) as client:
        yield client


async def connect(daemon: Daemon, transport: TransportName = "unix", *, token: str | None = None) -> WireClient:
    """A client before `hello`."""
    if transport == "unix":
        return WireClient(await SocketTransport.connect(daemon.socket))
    return WireClient(await WebSocketTransport.connect(f"ws://127.0.0.1:{daemon.port()}/", token or daemon.token()))


@asynccontextmanager
async def wire_client(
    daemon: Daemon, transport: TransportName = "unix", *, name: str = "cli", token: str | None = None
) -> AsyncGenerator[WireClient]:
    client = await connect(daemon, transport, token=token)
    try:
        await client.hello(name)
        yield client
    finally:
        await client.close()


async def start(client: ProtocolClient, daemon: Daemon, mode: str = "interactive", **options: object) -> str:
    """A new session in the daemon's workspace."""
    request: Message = {
        "mode": mode,
        "provider": "default",
        "sandboxProvider": "local",
        "repo": {"rootPath": str(daemon.workspace)},
    }
    if options:
        request["options"] = options
    started = await client.ask("start_session", request)
    client.token = started["attachToken"]
    return started["sessionId"]


async def send(client: ProtocolClient, session_id: str, text: str, message_id: str | None = None) -> str:
    """Send a user message; returns the id of its run."""
    payload = {"sessionId": session_id, "clientMessageId": message_id or new_message_id(), "text": text}
    return (await client.ask("send_user_message", payload, session_id))["runId"]


async def attach(client: ProtocolClient, session_id: str, last_seen: int = 0, token: str | None = None) -> Message:
    payload: Message = {"sessionId": session_id, "lastSeenSeq": last_seen}
    if token is not None:
        payload["attachToken"] = token
    return await client.ask("attach_session", payload, session_id)


async def decide(client: ProtocolClient, asked: Message, decision: str = "approve") -> Message:
    """Answer an `approval_required` event."""
    payload = {
        "sessionId": asked["sessionId"],
        "runId": asked["runId"],
        "approvalId": asked["payload"]["approvalId"],
        "decision": decision,
    }
    return await client.ask("submit_approval", payload, asked["sessionId"])


async def read_log(client: ProtocolClient, session_id: str) -> list[Message]:
    """The complete log, by `read_events`."""
    found: list[Message] = []
    while True:
        after = found[-1]["seq"] if found else 0
        page = (await client.ask("read_events", {"after": after, "limit": 1000}, session_id))["events"]
        if not page:
            return found
        found += page


async def wait_for_connections(client: ProtocolClient, count: int) -> None:
    """Wait until at most this number are connected; the daemon sends no event when one leaves."""
    async with asyncio.timeout(PATIENCE):
        while (await client.ask("daemon_status"))["connections"] > count:  # noqa: ASYNC110 - the daemon sends no event for it
            await asyncio.sleep(0.02)


def new_message_id() -> str:
    return f"msg_test.{next(_message_ids)}"


def seqs(events: list[Message]) -> list[int]:
    return [event["seq"] for event in events]

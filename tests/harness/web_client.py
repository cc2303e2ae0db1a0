"""A browser's requests without a browser: plain HTTP on the console's port, with any headers that a test wants."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection

from tests.harness.clients import wire_client
from tests.harness.daemon import Daemon
from tests.harness.wire_client import PATIENCE, WebSocketTransport, WireClient


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def cookie(self) -> str:
        """The cookie that it sets, as a browser sends it back."""
        return self.headers["set-cookie"].partition(";")[0]


@dataclass
class WebClient:
    """One user of the console at a port; `cookie` is sent with every request once it is set."""

    port: int
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.request("GET", path, b"", **headers)

    async def post(self, path: str, body: object = b"", **headers: str) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.request("POST", path, content, **headers)

    async def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """One request on a connection of its own; `_` in a header's name stands for `-`, an empty one is left out."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(self.head(method, path, len(body), **headers) + body)
            return await read_answer(reader, method)
        finally:
            writer.close()

    def head(self, method: str, path: str, length: int = 0, **headers: str) -> bytes:
        named = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", **self.headers}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            named.setdefault("Cookie", self.cookie)
        if length:
            named.setdefault("Content-Length", str(length))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items() if value)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def log_in(self, token: str) -> Answer:
        """Exchange a token, and keep the cookie."""
        answer = await self.post("/login", {"token": token})
        if answer.status == 200:
            self.cookie = answer.cookie
        return answer

    async def websocket(self, **headers: str) -> ClientConnection:
        """A WebSocket as our page opens it."""
        sent = {"Cookie": self.cookie, "Origin": f"http://127.0.0.1:{self.port}"} if self.cookie else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await websockets.connect(
            f"ws://127.0.0.1:{self.port}/ws", additional_headers=sent, max_size=1 << 24, proxy=None, close_timeout=1
        )

    async def client(self) -> WireClient:
        """A client of the protocol, after hello."""
        client = WireClient(WebSocketTransport(await self.websocket()))
        await client.hello("console")
        return client


async def read_answer(reader: asyncio.StreamReader, method: str = "GET") -> Answer:
    """One response, by its length."""
    async with asyncio.timeout(PATIENCE):
        status = int((await reader.readline()).split()[1])
        headers: dict[str, str] = {}
        while (line := (await reader.readline()).decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        size = 0 if method == "HEAD" or status in (204, 304) else int(headers.get("content-length", 0))
        return Answer(status, headers, await reader.readexactly(size))


async def open_console(daemon: Daemon, **payload: object) -> str:
    """Open the listener on request; the address of the page."""
    async with wire_client(daemon) as owner:
        return (await owner.ask("open_web", payload))["url"]


async def owner_link(daemon: Daemon, **payload: object) -> str:
    """The token of a new link for the owner."""
    async with wire_client(daemon) as owner:
        return token_in((await owner.ask("mint_web_link", payload))["url"])


async def session_link(daemon: Daemon, session_id: str, role: str, seconds: float | None = None) -> str:
    """The token of a new link for a role on a session."""
    payload = {"role": role, "once": True, **({"expiresInSeconds": seconds} if seconds else {})}
    async with wire_client(daemon) as owner:
        return (await owner.ask("mint_token", payload, session_id))["attachToken"]


def token_in(url: str) -> str:
    return re.findall(r"#token=(att_[0-9A-Z]{26})$", url)[0]


def port_in(url: str) -> int:
    return int(re.findall(r":(\d+)/", url)[0])

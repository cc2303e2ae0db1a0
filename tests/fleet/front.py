"""The TLS front of a fleet: Caddy, with the file that the repository has."""

import asyncio
import os
import ssl
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import websockets

from tests.harness.processes import PATIENCE, ROOT
from tests.harness.web_client import WebClient, read_answer
from tests.harness.wire_client import WebSocketTransport, WireClient

OPTIONS = "admin off\n\tauto_https disable_redirects\n\tskip_install_trust\n\tdefault_bind 127.0.0.1"


class Front:
    """Use it as `with front.serve("127.0.0.1:7878", …)`; `trusted` knows its certificate."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.origin = f"https://localhost:{port}"
        self._folder = folder
        self._root = folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"

    @contextmanager
    def serve(self, *nodes: str) -> Generator[None]:
        folders = {"HOME": str(self._folder), "XDG_DATA_HOME": str(self._folder), "PATH": os.environ["PATH"]}
        settings = {"CADDY_OPTIONS": OPTIONS, "BUDDY_HOST": self.origin, "BUDDY_NODES": " ".join(nodes)}
        command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(ROOT / "deploy" / "Caddyfile")]
        with (self._folder / "caddy.log").open("wb") as log:
            env = {**folders, **settings, "BUDDY_HEALTH_INTERVAL": "100ms"}
            process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=self._folder)
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)

    async def trusted(self) -> ssl.SSLContext:
        async with asyncio.timeout(PATIENCE):
            while not self._root.exists():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.05)
        return ssl.create_default_context(cafile=str(self._root))

    async def connect(self, **headers: str) -> WireClient:
        """Over WebSocket; tries again while no node is known to be ready."""
        trusted = await self.trusted()
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    found = await websockets.connect(
                        f"wss://localhost:{self.port}/ws",
                        ssl=trusted,
                        proxy=None,
                        additional_headers=headers,
                        close_timeout=1,
                    )
                    break
                except (OSError, websockets.InvalidStatus) as error:
                    if isinstance(error, websockets.InvalidStatus) and error.response.status_code not in (502, 503):
                        raise
                    await asyncio.sleep(0.1)
        client = WireClient(WebSocketTransport(found))
        await client.hello("console")
        return client

    async def log_in(self, token: str, **headers: str) -> tuple[int, str]:
        """The status and the cookie for a page that posts a token."""
        web = WebClient(self.port)
        body = b'{"token": "%s"}' % token.encode()
        reader, writer = await asyncio.open_connection("localhost", self.port, ssl=await self.trusted())
        writer.write(web.head("POST", "/login", len(body), Host=f"localhost:{self.port}", **headers) + body)
        answer = await read_answer(reader)
        writer.close()
        return answer.status, answer.headers.get("set-cookie", "")

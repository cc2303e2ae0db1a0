"""OpenCode's server: one process on a target, called over HTTP.

Invariants: it listens on loopback, with a random password known to nobody else; no request is sent before it
reports that it is listening, and every request has a timeout; everything it started is gone after `close`.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import httpx2

from buddy.backends.opencode import settings
from buddy.backends.opencode.wire import NotFound
from buddy.errors import ProviderError, UserError
from buddy.targets.bridge import Bridge
from buddy.targets.contract import Target, without_terminal
from buddy.targets.programs import LINE_LIMIT, Program, start_program
from buddy.targets.remote import Remote

START_SECONDS = 30.0
FIRST_PROBE_SECONDS = 1.0
PING_SECONDS = 10.0
CALL_SECONDS = 60.0
# It sends a heartbeat every 10 seconds; older versions every 30.
SILENCE_SECONDS = 75.0
ATTEMPTS = 3
NOT_FOUND = 404
NO_PROGRAM = 127
_LISTENING = re.compile(rb"listening on http://127\.0\.0\.1:(\d+)")


class OpenCodeServer:
    """A running server, created by `start`."""

    def __init__(self, program: Program, bridge: Bridge | None, port: int, password: str) -> None:
        self.program = program
        self._bridge = bridge
        self._client = httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{bridge.port if bridge else port}",
            auth=(settings.USER, password),
            timeout=CALL_SECONDS,
            limits=httpx2.Limits(max_connections=8, max_keepalive_connections=4),
            trust_env=False,
        )
        self._drain = asyncio.create_task(_drain(program))

    async def health(self, seconds: float = PING_SECONDS) -> None:
        """ProviderError if it does not respond."""
        try:
            answer = await self._client.get("/global/health", timeout=seconds)
        except httpx2.HTTPError as error:
            raise ProviderError(f"OpenCode's server does not respond: {_why(error)}", retryable=True) from error
        if not answer.is_success:
            raise ProviderError(f"OpenCode's server returned {answer.status_code}", retryable=True)

    async def call(self, method: str, path: str, directory: str, body: object = None) -> bytes:
        """The body of the response; NotFound for an unknown path or object, otherwise ProviderError on failure."""
        try:
            asked = self._client.stream(method, path, params={"directory": directory}, json=body)
            async with asked as answer, asyncio.timeout(CALL_SECONDS):
                content = await _read_all(answer)
        except (httpx2.HTTPError, TimeoutError) as error:
            raise ProviderError(f"OpenCode's server does not respond: {_why(error)}", retryable=True) from error
        # Older versions answer an unknown path with an HTML page.
        is_page = content and "json" not in answer.headers.get("content-type", "")
        if answer.status_code == NOT_FOUND or (answer.is_success and is_page):
            raise NotFound(path)
        if not answer.is_success:
            said = content[:300].decode(errors="replace")
            raise ProviderError(f"OpenCode's server returned {answer.status_code} for {path}: {said}", retryable=False)
        return content

    async def lines(self) -> AsyncIterator[str]:
        """The event stream, line by line, until it ends; ProviderError if the connection breaks."""
        timeout = httpx2.Timeout(CALL_SECONDS, read=SILENCE_SECONDS)
        try:
            async with self._client.stream("GET", "/global/event", timeout=timeout) as answer:
                if not answer.is_success:
                    raise ProviderError(f"OpenCode's stream returned {answer.status_code}", retryable=True)
                async for line in split_lines(answer.aiter_bytes()):
                    yield line
        except httpx2.HTTPError as error:
            raise ProviderError(f"OpenCode's stream broke: {_why(error)}", retryable=True) from error

    async def close(self) -> None:
        await self._client.aclose()
        await self.program.end(grace=0.5)  # it ignores the end of its stdin
        if self._bridge is not None:
            await self._bridge.close()
        self._drain.cancel()
        await asyncio.wait({self._drain})


async def start(target: Target, words: Sequence[str], nonce: str) -> OpenCodeServer:
    """Start a server and wait until it responds. UserError if the program is missing, ProviderError if it fails."""
    await target.kill_orphans(nonce)
    why = ""
    for _ in range(ATTEMPTS):  # another program may use the port
        password, port = secrets.token_urlsafe(24), secrets.randbelow(30_000) + 20_000
        asked = [*words, "serve", "--port", str(port), "--hostname", "127.0.0.1"]
        # Not in the workspace: OpenCode would load a repository's `.env` into its own environment.
        guarded, env = settings.with_guard(asked), settings.environment(password)
        program = await start_program(target, guarded, cwd="/", nonce=nonce, env=env)
        try:
            if await _wait_listening(program):
                return await _connect(target, program, port, password, nonce)
            code = await program.end()  # it may have closed its stdout and still be running
            why = program.stderr_tail or f"it exited with code {code}"
        except BaseException:
            await program.end()
            raise
        if code == NO_PROGRAM:
            raise UserError(f"{words[0]} is not installed on {target.name}", hint=settings.INSTALL)
    raise ProviderError(f"OpenCode's server did not start: {why}", retryable=False)


async def _wait_listening(program: Program) -> bool:
    """Wait until it reports that it is listening; False if it exited instead."""
    try:
        async with asyncio.timeout(START_SECONDS):
            while line := await program.stdout.readline():
                if _LISTENING.search(line):
                    return True
    except TimeoutError:
        raise ProviderError(
            f"OpenCode's server is not listening after {START_SECONDS:g} s: {program.stderr_tail}", retryable=True
        ) from None
    except ValueError:
        raise ProviderError("OpenCode's server wrote a line that is too long", retryable=False) from None
    return False


async def _connect(target: Target, program: Program, port: int, password: str, nonce: str) -> OpenCodeServer:
    bridge = await _open_bridge(target, port, nonce)
    server = OpenCodeServer(program, bridge, port, password)
    try:
        await _wait_healthy(server)
    except BaseException:
        await server.close()
        raise
    return server


async def _open_bridge(target: Target, port: int, nonce: str) -> Bridge | None:
    base = without_terminal(target)
    if not isinstance(base, Remote):
        return None
    bridge = Bridge(base.launcher, port, nonce)
    await bridge.open()
    return bridge


async def _wait_healthy(server: OpenCodeServer) -> None:
    """The first requests after its start may never be answered, so each has a short timeout and is repeated."""
    seconds, left = FIRST_PROBE_SECONDS, START_SECONDS
    while True:
        try:
            return await server.health(min(seconds, left))
        except ProviderError:
            left -= seconds
            if left <= 0 or not server.program.is_running:
                raise
            seconds *= 2  # the connection may be slow


async def _read_all(answer: httpx2.Response) -> bytes:
    content = bytearray()
    async for piece in answer.aiter_bytes():
        content += piece
        if len(content) > LINE_LIMIT:
            raise ProviderError("OpenCode's server sent a response that is too long", retryable=False)
    return bytes(content)


async def split_lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Split into lines; ProviderError for one that is too long."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        if b"\n" in piece:
            *lines, held = held.split(b"\n")
            for line in lines:
                yield line.decode(errors="replace").rstrip("\r")
        elif len(held) > LINE_LIMIT:
            raise ProviderError("OpenCode's stream sent a line that is too long", retryable=True)


async def _drain(program: Program) -> None:
    with suppress(ValueError):  # a line that is too long
        while await program.stdout.read(65536):
            pass


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__

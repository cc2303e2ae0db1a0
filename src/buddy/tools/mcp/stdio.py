"""A server that runs as a program of its own, connected by its stdin and stdout.

Invariants: a line is bounded; a line that is not a message is dropped; the program gets a minimal environment, and it
and whatever it started are gone when the connection ends.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from buddy.errors import ToolError
from buddy.targets.programs import Program, start_local_program
from buddy.tools.mcp.contract import ServerFailed, ServerStderr
from buddy.tools.mcp.definitions import ServerDefinition

GRACE = 1.0
LINE_LIMIT = 12 * 1024 * 1024
INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""What a server inherits; anything else is in its configuration."""


class StdioTransport:
    """Satisfies the SDK's `Transport`, and knows when the program has ended."""

    def __init__(self, definition: ServerDefinition, nonce: str, stderr: ServerStderr) -> None:
        self._definition = definition
        self._nonce = nonce
        self._stderr = stderr
        self.ended = asyncio.Event()
        self.why = ""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams]:
        program = await self._start()
        self._stderr.read = lambda: program.stderr_tail
        incoming_in, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, outgoing_out = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read(program, incoming_in)),
            asyncio.create_task(_write(program, outgoing_out)),
        ]
        try:
            yield incoming, outgoing
        finally:
            for task in tasks:
                task.cancel()
            with anyio.CancelScope(shield=True):
                await program.end(GRACE)
                await asyncio.wait(tasks)
            for stream in (incoming_in, incoming, outgoing, outgoing_out):
                stream.close()

    async def _start(self) -> Program:
        definition = self._definition
        if not await asyncio.to_thread(definition.is_as_defined):
            raise ServerFailed(f"{definition.describe()} changed since its folder was trusted; it was not started")
        env = minimal_environment(os.environ, dict(definition.env))
        cwd = definition.cwd or env.get("HOME", "/")
        if not os.path.isdir(cwd):  # noqa: PTH112, ASYNC240 - text, and one stat
            raise ServerFailed(f"its folder {cwd} does not exist")
        try:
            words = (definition.command, *definition.args)
            return await start_local_program(words, cwd=cwd, nonce=self._nonce, env=env, limit=LINE_LIMIT)
        except (ToolError, ValueError) as error:
            raise ServerFailed(str(error)) from error

    async def _read(self, program: Program, incoming: "anyio.abc.ObjectSendStream[SessionMessage | Exception]") -> None:
        try:
            while line := await _line(program):
                message = _parse(line)
                if message is not None:
                    await incoming.send(message)
            code = await program.wait()
            self.why = f"it exited with code {code}"
        except ValueError:
            self.why = f"it sent a message of more than {LINE_LIMIT // 1024 // 1024} MiB"
            program.kill()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.why = "the connection was closed"
        finally:
            self.ended.set()
            await incoming.aclose()


async def _line(program: Program) -> bytes:
    """The next line; empty at the end, ValueError if it is too long."""
    return await program.stdout.readline()


def _parse(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError):
        return None  # some servers print other things on stdout


async def _write(program: Program, outgoing: "anyio.abc.ObjectReceiveStream[SessionMessage]") -> None:
    try:
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            program.stdin.write(text.encode(errors="replace") + b"\n")
            await program.stdin.drain()
    except (OSError, RuntimeError):
        pass  # the reader notices that the program has ended


def minimal_environment(env: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: env[name] for name in INHERITED if name in env}
    return {**kept, **more}

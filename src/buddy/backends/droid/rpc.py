"""Requests and responses over a running Droid's stdin and stdout.

Invariants: every request ends: by its response, a timeout, or the end of the program; an error without an id belongs
to the oldest pending request; an invalid line is reported as an error and otherwise ignored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from buddy.backends.droid import wire
from buddy.backends.external import lenient
from buddy.errors import ProviderError
from buddy.targets.programs import Program

PATIENCE = 30.0
SHOWN = 200

Handle = Callable[[wire.Envelope], Awaitable[None]]


class RequestRefused(ProviderError):
    """Droid answered a request with an error."""

    def __init__(self, method: str, problem: wire.Problem) -> None:
        super().__init__(f"droid refused {method}: {problem.message or problem.code}", retryable=False)
        self.code = problem.code


class DroidExited(ProviderError):
    """The program has ended."""

    def __init__(self) -> None:
        super().__init__("droid has exited", retryable=False)


class Unresponsive(ProviderError):
    """The program runs, and did not answer in time."""


class DroidRpc:
    """The pending requests; `listen` reads until the program exits."""

    def __init__(self, program: Program, report_error: Callable[[Exception], None]) -> None:
        self._program = program
        self._report_error = report_error
        self._waiting: dict[str, asyncio.Future[Raw]] = {}
        self._count = 0
        self._is_over = False

    async def request(self, method: str, params: Mapping[str, Any] = {}, patience: float = PATIENCE) -> Raw:
        """Send a request and wait for its response; ProviderError if none arrives."""
        return await self.answer(self.post(method, params), method, patience)

    def post(self, method: str, params: Mapping[str, Any]) -> str:
        """Send a request and return its id; `answer` must be awaited for it."""
        self._count += 1
        request_id = str(self._count)
        self._waiting[request_id] = asyncio.get_running_loop().create_future()
        self.write(wire.request(request_id, method, params))
        return request_id

    async def answer(self, request_id: str, method: str, patience: float = PATIENCE) -> Raw:
        future = self._waiting[request_id]
        try:
            if self._is_over:
                raise DroidExited
            async with asyncio.timeout(patience):
                return await future
        except TimeoutError as error:
            raise Unresponsive(f"droid did not answer {method} within {patience:g} s", retryable=False) from error
        except _ErrorResponse as response:
            raise RequestRefused(method, response.problem) from None
        finally:
            self._waiting.pop(request_id, None)

    def write(self, line: bytes) -> None:
        if not self._program.stdin.is_closing():
            self._program.stdin.write(line)

    async def drain(self) -> None:
        """Wait until Droid has read enough of what was written; ProviderError if it is gone."""
        try:
            await self._program.stdin.drain()
        except OSError as error:
            raise ProviderError(f"can't reach droid: {error}", retryable=False) from error

    async def listen(self, handle: Handle) -> None:
        """Pass on everything that is not a response, in order, until its stdout ends."""
        try:
            while True:
                try:
                    line = await self._program.stdout.readline()
                except ValueError:
                    self._report_error(ProviderError("droid wrote a line that is too long", retryable=False))
                    continue
                if not line:
                    break
                await self._take(line, handle)
        finally:
            self._end()

    async def _take(self, line: bytes, handle: Handle) -> None:
        if not line.strip():
            return
        try:
            lenient.check_depth(line)
            envelope = msgspec.json.decode(line, type=wire.Envelope)
            if envelope.type == "response":
                self._resolve(envelope)
            else:
                await handle(envelope)
        except ValueError as error:
            shown = line[:SHOWN].decode(errors="replace").strip()
            self._report_error(ProviderError(f"droid sent an invalid message ({error}): {shown}", retryable=False))

    def _resolve(self, envelope: wire.Envelope) -> None:
        request_id = envelope.id
        if request_id is None and envelope.error is not None:
            request_id = next((known for known, future in self._waiting.items() if not future.done()), None)
        future = self._waiting.get(str(request_id))
        if future is None or future.done():
            return
        if envelope.error is not None:
            future.set_exception(_ErrorResponse(envelope.error))
        else:
            future.set_result(envelope.result)

    def _end(self) -> None:
        self._is_over = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(DroidExited())


class _ErrorResponse(Exception):
    def __init__(self, problem: wire.Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem

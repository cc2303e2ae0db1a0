"""One side of a JSON-RPC 2.0 connection: requests in both directions, notifications, cancellation.

Invariants: every request that arrives is answered exactly once; what cannot be parsed never ends the connection;
notifications are handled in the order in which they arrive, before whatever follows them.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeGuard

from buddy.errors import ProtocolError, UserError

Json = dict[str, Any]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000
NOT_FOUND = -32002
CANCELLED = -32800

_CODES = {
    "PROVIDER_NOT_CONFIGURED": AUTH_REQUIRED,
    "SESSION_NOT_FOUND": NOT_FOUND,
    "INVALID_REQUEST": INVALID_PARAMS,
    "FRAME_TOO_LARGE": INVALID_PARAMS,
}


def is_object(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


def report(text: str) -> None:
    """Write a line to stderr, which editors show in their log of this process."""
    sys.stderr.write(f"{text}\n")


class RpcError(Exception):
    """An error response, sent or received."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Lines(Protocol):
    """What carries the messages, one per line."""

    async def read_line(self) -> bytes | None: ...

    async def write(self, line: bytes) -> None: ...


Method = Callable[[Json], Awaitable[Json]]
Notification = Callable[[Json], None]


class Peer:
    """`run` reads until the other side is gone, then cancels whatever it still wanted."""

    def __init__(self, lines: Lines, methods: Mapping[str, Method], notifications: Mapping[str, Notification]) -> None:
        self._lines = lines
        self._methods = methods
        self._notifications: Mapping[str, Notification] = {**notifications, "$/cancel_request": self._cancel}
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._serving: dict[str | int | None, asyncio.Task[None]] = {}
        self._last_id = 0
        self.is_closed = False

    @property
    def is_serving(self) -> bool:
        """Whether a request of the other side is not answered yet."""
        return bool(self._serving)

    async def run(self) -> None:
        try:
            while (line := await self._lines.read_line()) is not None:
                if line.strip():
                    await self._receive(line)
        finally:
            self.is_closed = True
            tasks = list(self._serving.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def notify(self, method: str, params: Json) -> None:
        await self._write({"method": method, "params": params})

    async def request(self, method: str, params: Json) -> Json:
        """The result; RpcError if the other side refuses. If the caller is cancelled, the other side learns of it."""
        self._last_id += 1
        request_id = self._last_id
        answer = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        try:
            await self._write({"id": request_id, "method": method, "params": params})
            return await answer
        except asyncio.CancelledError:
            if not self.is_closed:
                await self.notify("$/cancel_request", {"requestId": request_id})
            raise
        finally:
            self._waiting.pop(request_id, None)

    async def _receive(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            await self._refuse(None, RpcError(PARSE_ERROR, f"not JSON: {error}"))
            return
        if not is_object(message) or message.get("jsonrpc") != "2.0":
            await self._refuse(None, RpcError(INVALID_REQUEST, 'not a JSON-RPC message: "jsonrpc": "2.0" is missing'))
        elif "method" in message:
            await self._handle(message)
        else:
            self._resolve(message)

    async def _handle(self, message: Json) -> None:
        method, params = message["method"], message.get("params")
        has_id, request_id = "id" in message, message.get("id")
        if not isinstance(method, str) or not isinstance(request_id, str | int | None):
            await self._refuse(None, RpcError(INVALID_REQUEST, "the method or the id of a request is not valid"))
        elif params is not None and not is_object(params):
            if has_id:
                await self._refuse(request_id, RpcError(INVALID_PARAMS, "params must be an object"))
        elif has_id:
            task = asyncio.get_running_loop().create_task(self._serve(request_id, method, params or {}))
            self._serving[request_id] = task
            task.add_done_callback(lambda _: self._serving.pop(request_id, None))
        elif method in self._notifications:
            try:
                self._notifications[method](params or {})
            except RpcError as error:
                report(f"{method}: {error.message}")

    async def _serve(self, request_id: str | int | None, method: str, params: Json) -> None:
        try:
            if method not in self._methods:
                raise RpcError(METHOD_NOT_FOUND, f"unknown method {method[:80]!r}")  # noqa: TRY301 - one way to refuse
            result = await self._methods[method](params)
        except asyncio.CancelledError:
            await self._refuse(request_id, RpcError(CANCELLED, "the request was cancelled"))
        except Exception as error:  # noqa: BLE001 - whatever it is, the request has to be answered
            await self._refuse(request_id, _as_rpc_error(method, error))
        else:
            await self._write({"id": request_id, "result": result})

    async def _refuse(self, request_id: str | int | None, error: RpcError) -> None:
        body: Json = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        await self._write({"id": request_id, "error": body})

    def _resolve(self, message: Json) -> None:
        request_id = message.get("id")
        answer = self._waiting.pop(request_id, None) if isinstance(request_id, int) else None
        if answer is None or answer.done():
            return  # nobody waits for it any longer
        error = message.get("error")
        if is_object(error):
            code = error.get("code")
            text = str(error.get("message") or "refused")
            answer.set_exception(RpcError(code if isinstance(code, int) else INTERNAL_ERROR, text))
        else:
            result = message.get("result")
            answer.set_result(result if is_object(result) else {})

    def _cancel(self, params: Json) -> None:
        request_id = params.get("requestId")
        task = self._serving.get(request_id) if isinstance(request_id, str | int) else None
        if task is not None:
            task.cancel()

    async def _write(self, message: Json) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
        with contextlib.suppress(ConnectionError):  # the other side is gone: `run` ends
            await self._lines.write(text.encode("utf-8", "replace") + b"\n")


def _as_rpc_error(method: str, error: Exception) -> RpcError:
    match error:
        case RpcError():
            return error
        case ProtocolError():
            data = {"code": error.code, **({"detail": error.detail} if error.detail else {})}
            return RpcError(_CODES.get(error.code, INTERNAL_ERROR), error.message, data)
        case UserError():
            return RpcError(INTERNAL_ERROR, str(error), {"hint": error.hint} if error.hint else None)
        case ConnectionError() | TimeoutError():
            return RpcError(INTERNAL_ERROR, f"the daemon can't be reached: {error}", {"hint": "see buddy daemon logs"})
        case _:
            report(f"{method} failed: {type(error).__name__}: {error}")
            return RpcError(INTERNAL_ERROR, f"{method} failed: {type(error).__name__}")

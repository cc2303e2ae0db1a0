"""One client's connection: requests in, responses and events out.

Invariants: events reach a client from the log, by its cursor, so a slow client only falls behind; the response to an
attach is sent before the first replayed event; requests are served in their order, except that those which take long
delay only others of the same session.
"""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial

from msgspec import UNSET, Raw, json

from buddy.daemon.audit import Audit
from buddy.daemon.child_relay import ChildRelay
from buddy.daemon.late_lines import LateLines
from buddy.daemon.limits import Limits, Rate
from buddy.daemon.link import LineTooLong, ServerLink
from buddy.daemon.logfile import session_in_log
from buddy.daemon.long_requests import LongRequests
from buddy.daemon.pump import LineCache, Pump
from buddy.daemon.refusals import error_info, explain_bug, scrub_kind
from buddy.daemon.roles import Roles
from buddy.errors import LogError, ProtocolError, SessionElsewhere, StorageFull, UserError
from buddy.log.contract import Log
from buddy.protocol.actors import register_client
from buddy.protocol.envelopes import IncomingRequest, Response, encode, parse_request, salvage, session_of
from buddy.protocol.request_table import REQUESTS
from buddy.protocol.shapes import Shape
from buddy.scrub import Scrubber
from buddy.sessions.sessions import Sessions

NO_LIMITS = Limits(hello_seconds=3600, requests_per_second=1e9, burst=1_000_000_000)
log = logging.getLogger("buddy.daemon")

reply_steps: ContextVar[list[Callable[[], None]]] = ContextVar("reply_steps")
"""What the request that is being served does once its response is sent."""


class PeerConnection:
    """Serve with `serve()`; what answers the requests is passed in."""

    is_forwarded = False
    """Whether the peer is connected to another node."""
    is_looking = False
    """Whether a person looks at what the peer shows, as far as it says."""

    def __init__(
        self,
        link: ServerLink,
        sessions: Sessions,
        log: Log,
        dispatch: "Dispatch",
        *,
        trusted: bool,
        is_local: bool = False,
        scrubber: Scrubber,
        limits: Limits = NO_LIMITS,
        encoded: LineCache | None = None,
        user: str | None = None,
        audit: Audit | None = None,
    ) -> None:
        self.name = ""
        self.is_local = is_local
        self.roles = Roles(sessions.tokens, is_owner=trusted, expire=self.close, user=user)
        self._audit = audit
        self._limits = limits
        self._encoded = encoded or LineCache()
        self._rate = Rate(limits.requests_per_second, limits.burst, time.monotonic)
        self._link = link
        self._sessions = sessions
        self._log = log
        self._dispatch = dispatch
        self._scrubber = scrubber
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._relay: ChildRelay | None = None
        self._relaying: asyncio.Task[None] | None = None
        self._request_ids = 0
        self.heard_at = time.monotonic()
        self._answering = 0
        self._on_close: list[Callable[[], None]] = []
        self._late: LateLines | None = None

    async def serve(self) -> None:
        """Serve until the peer is gone, then release everything it held."""

        def expect_hello() -> None:
            if not self.name:
                self._link.close()

        quiet = asyncio.get_running_loop().call_later(self._limits.hello_seconds, expect_hello)
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._serve_lines(LongRequests(tasks))
        finally:
            quiet.cancel()
            await self._stop()

    async def _serve_lines(self, apart: LongRequests) -> None:
        try:
            while (line := await self._link.read_line()) is not None:
                self.heard_at = time.monotonic()
                if line.strip():
                    await self._serve_line(line, apart)
        except LineTooLong:
            await self._refuse_frame()
        except ConnectionError:
            pass

    async def _serve_line(self, line: bytes, apart: LongRequests) -> None:
        """Answer the line, whatever it is; what takes long, and what has to wait for that, is served apart."""
        if not self._rate.take() or self._link.crowded or apart.pending >= self._limits.in_flight:
            await self._link.write(self._overloaded(line).line())
            return
        try:
            request = parse_request(line)
        except ProtocolError as error:
            request_id, kind = salvage(line)
            response = self._refusal(self._request_id(request_id), kind or "unknown", error, line)
            await self._link.write(response.line())
            return
        row, session_id = REQUESTS.get(request.type), named_session(request)
        if apart.is_busy(session_id) or (row and row.takes_long):
            apart.serve(session_id, partial(self._exchange, request))
        else:
            await self._exchange(request)

    async def _exchange(self, request: IncomingRequest) -> None:
        steps: list[Callable[[], None]] = []
        reply_steps.set(steps)
        self._answering += 1
        session_id = named_session(request)
        session_in_log.set(session_id)
        try:
            response = await self._answer(request, session_id)
            if self._audit is not None:
                self._audit.record(self.roles, self.name, session_id, response)
            await self._link.write(response.line())
        finally:
            self._answering -= 1
            self.heard_at = time.monotonic()
        for step in steps:
            step()

    def _overloaded(self, line: bytes) -> Response:
        request_id, kind = salvage(line)
        error = ProtocolError("OVERLOADED", "too many requests at once; wait a moment", retryable=True)
        return self._refusal(self._request_id(request_id), kind or "unknown", error)

    async def _refuse_frame(self) -> None:
        error = ProtocolError("FRAME_TOO_LARGE", f"a request may have at most {self._limits.frame} bytes")
        with contextlib.suppress(ConnectionError):
            await self._link.write(self._refusal(self._request_id(None), "unknown", error).line())

    async def _answer(self, request: IncomingRequest, session_id: str) -> Response:
        try:
            reply = await self._dispatch(self, request)
        except SessionElsewhere as error:
            if self.is_forwarded:
                raise
            wrong = error
        except ProtocolError as error:
            wrong = error
        except UserError as error:
            wrong = ProtocolError("INVALID_REQUEST", str(error), detail=error.hint or None)
        except LogError as error:
            code = "STORAGE_FULL" if isinstance(error, StorageFull) else "INTERNAL_ERROR"
            wrong = ProtocolError(code, str(error) or "the log refused the write", retryable=True)
        except Exception as error:
            # The only broad except here: a bug fails the request, not the connection or the daemon.
            log.exception("%s failed", request.type)
            wrong = explain_bug(error)
        else:
            return _response(request, reply, session_id)
        return self._refusal(request.request_id, request.type, wrong, _sent(request))

    # --- what handlers use -----------------------------------------------------------------------------------------

    def introduce(self, name: str) -> None:
        """Register the peer's name: it is the `by` of all it does, so it is scrubbed before anything stores it."""
        self.name = register_client(self._scrubber.text(name, random=False)).name

    def close(self) -> None:
        self._link.close()

    @property
    def is_following(self) -> bool:
        """Whether it waits for events or for an answer."""
        return bool(self._pumps) or self._answering > 0

    def is_attached(self, session_id: str) -> bool:
        return session_id in self._pumps

    def attach(self, session_id: str, cursor: int) -> None:
        """Send the session's events after the cursor, once the response to this request is sent."""
        self.after_reply(lambda: self._start_pump(session_id, cursor))

    def after_reply(self, step: Callable[[], None]) -> None:
        """Call this once the response is sent."""
        reply_steps.get().append(step)

    def on_close(self, step: Callable[[], None]) -> None:
        """Call this when the peer is gone."""
        self._on_close.append(step)

    def send_soon(self, lines: bytes) -> None:
        """Send lines that belong to no request and no log, without waiting for a slow peer."""
        if self._late is None:
            self._late = LateLines(self._link, self._limits.outbound)
        self._late.add(lines)

    # --- internals -------------------------------------------------------------------------------------------------

    def _start_pump(self, session_id: str, cursor: int) -> None:
        pump = Pump(self._link, self._sessions, self._log, self._encoded, session_id, cursor)
        previous = self._pumps.get(session_id)
        if previous is not None:
            previous.cancel()  # not in the task below, which may itself be cancelled before its first step
        replacing = _run_after(previous, pump)
        self._pumps[session_id] = asyncio.get_running_loop().create_task(replacing)
        if self._relay is None:
            attached = partial(list[str], self._pumps)
            self._relay = ChildRelay(self._link, self._sessions, self._log, attached, self.roles.inherit)
            self._relaying = asyncio.get_running_loop().create_task(self._relay.run())
        self._relay.look_again()

    async def _stop(self) -> None:
        self._link.close()
        self.roles.close()
        for step in self._on_close:
            step()
        if self._late is not None:
            self._late.close()
        pumps = [*self._pumps.values(), *([self._relaying] if self._relaying else [])]
        for pump in pumps:
            pump.cancel()
        if pumps:
            await asyncio.wait(pumps)
        self._pumps.clear()

    def _request_id(self, known: str | None) -> str:
        if known and re.fullmatch(r"req_[A-Za-z0-9._:-]{1,200}", known):
            return known
        self._request_ids += 1
        return f"req_unknown.{self._request_ids}"

    def _refusal(self, request_id: str, kind: str, error: ProtocolError, sent: bytes = b"") -> Response:
        info = error_info(self._scrubber, error, sent)
        return Response(request_id, scrub_kind(self._scrubber, kind), False, Raw(b"{}"), info)


async def _run_after(previous: asyncio.Task[None] | None, pump: Pump) -> None:
    if previous is not None:
        await asyncio.wait([previous])
    await pump.run()


def _response(request: IncomingRequest, reply: Shape, session_id: str) -> Response:
    """`session_id` is what the request names, in its envelope or its payload."""
    session_id = getattr(reply, "session_id", None) or session_id
    return Response(request.request_id, request.type, True, encode(reply), None, session_id or UNSET)


def _sent(request: IncomingRequest) -> bytes:
    """The texts that a request names."""
    session_id = "" if request.session_id is UNSET else request.session_id
    return json.encode({"sessionId": session_id, "type": request.type, "payload": request.payload})


def named_session(request: IncomingRequest) -> str:
    """The session of a request; empty if it names none, or two."""
    with contextlib.suppress(ProtocolError):
        return session_of(request)
    return ""


Dispatch = Callable[[PeerConnection, IncomingRequest], Awaitable[Shape]]
"""Checks whether the peer may send a request, and answers it."""

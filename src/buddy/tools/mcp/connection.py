"""One MCP server: started, watched, restarted.

A server goes starting → ready → (ended → starting …) | failed | needs_login, and stopped at the end.

Invariants: one task owns the connection from its start to its end; a server that ends or cannot be started is started
again after a wait that doubles each time; a call is never sent a second time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio

from buddy.errors import OutcomeUnknown, ToolError
from buddy.tools.contract import Output
from buddy.tools.mcp.contract import (
    Caller,
    ConnectionLost,
    NeedsLogin,
    PromptDefinition,
    ServerFailed,
    ServerSession,
    ServerStderr,
    State,
    ToolDefinition,
)
from buddy.tools.mcp.definitions import ServerDefinition

FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0
STEADY_SECONDS = 30.0
"""A server that was ready for so long is restarted without a longer wait than the first."""

log = logging.getLogger("buddy.mcp")

Open = Callable[[ServerDefinition, ServerStderr], AbstractAsyncContextManager[ServerSession]]
Load = Callable[[], Awaitable[Open]]
"""Imports what a connection needs; ServerFailed if that is not installed."""


class ServerConnection:
    def __init__(self, definition: ServerDefinition, load: Load) -> None:
        self.definition = definition
        self.state: State = "starting"
        self.problem = ""
        self.server = ""
        self.tools: tuple[ToolDefinition, ...] = ()
        self.prompts: tuple[PromptDefinition, ...] = ()
        self.skipped: tuple[str, ...] = ()
        self.starts = 0
        """How often it became ready."""
        self.attempts = 0
        self.version = 0
        """Changes with the tools."""
        self._load = load
        self._session: ServerSession | None = None
        self._stderr = ServerStderr()
        self._changed = asyncio.Event()
        self._begun = asyncio.Event()
        self._again = asyncio.Event()
        self._scope: anyio.CancelScope | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def stderr(self) -> str:
        """The end of what it wrote to stderr, of this process or the last one."""
        return self._stderr.text()

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._own(), name=f"mcp {self.definition.name}")

    def retry(self) -> None:
        """Do not wait any longer before the next attempt."""
        self._again.set()

    def find(self, tool: str) -> ToolDefinition | None:
        """A tool as the server describes it now."""
        return next((one for one in self.tools if one.name == tool), None)

    async def wait_settled(self, seconds: float) -> bool:
        """Until it is ready or has failed, at most so long after it was started."""
        await self._begun.wait()
        try:
            async with asyncio.timeout(seconds):
                while self.state == "starting":
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def call(
        self, tool: str, arguments: dict[str, Any], caller: Caller, check: Callable[[], None] = lambda: None
    ) -> Output:
        """Call a tool once; a server that is not running is given the time to start.

        `check` refuses a tool that is no longer what was decided on, also after such a start.
        """
        check()
        name, session = self.definition.name, await self._ready()
        check()
        try:
            return await session.call(tool, arguments, self.definition.timeout_seconds, caller)
        except ConnectionLost as error:
            raise OutcomeUnknown(f"the MCP server {name!r} was lost during this call ({error})") from error
        except ServerFailed as error:
            raise ToolError(f"MCP server {name!r}: {error}") from error

    async def read_resource(self, uri: str) -> str:
        return await (await self._ready()).read_resource(uri, self.definition.timeout_seconds)

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> str:
        return await (await self._ready()).get_prompt(name, arguments, self.definition.timeout_seconds)

    async def close(self) -> None:
        """Stop the server and wait until it is gone."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._scope is not None:
            self._scope.cancel()
        await asyncio.wait([task])
        self._set("stopped")

    async def _ready(self) -> ServerSession:
        """The connection; a server that is not running is given the time to start."""
        if not self._is_connected and self.state != "needs_login":
            self.retry()
            await self._wait_ready()
        session = self._session
        if session is None or not session.is_usable:
            problem = self.problem or self.state
            raise ToolError(f"MCP server {self.definition.name!r} is not running: {problem}")
        return session

    @property
    def _is_connected(self) -> bool:
        return self._session is not None and self._session.is_usable

    async def _wait_ready(self) -> None:
        """Until it is ready again, or another attempt has failed."""
        # A connection that is just about to end counts as an attempt, too.
        last = self.attempts + (2 if self._session is not None else 1)
        try:
            async with asyncio.timeout(self.definition.startup_seconds):
                while not self._is_connected and self.attempts < last:
                    self.retry()
                    await self._changed.wait()
        except TimeoutError:
            pass

    async def _own(self) -> None:
        with anyio.CancelScope() as self._scope:
            wait = FIRST_WAIT
            while True:
                loop = asyncio.get_running_loop()
                began, starts = loop.time(), self.starts
                await self._serve()
                if self.starts > starts and loop.time() - began > STEADY_SECONDS:
                    wait = FIRST_WAIT
                self._again.clear()
                with anyio.move_on_after(wait):
                    await self._again.wait()
                wait = min(wait * 2, LONGEST_WAIT)

    async def _serve(self) -> None:
        """One life of the server: from its start to its end."""
        self._set("starting")
        name = self.definition.name
        try:
            open_session = await self._load()
            self._begun.set()
            with anyio.CancelScope() as deadline:
                deadline.deadline = anyio.current_time() + self.definition.startup_seconds
                async with open_session(self.definition, self._stderr) as session:
                    deadline.deadline = float("inf")
                    await self._use(session)
            if deadline.cancelled_caught:
                self._fail("failed", f"it did not answer within {self.definition.startup_seconds:g} s")
        except NeedsLogin as error:
            self._fail("needs_login", str(error))
        except ServerFailed as error:
            self._fail("failed", str(error))
        finally:
            self._begun.set()
            self._session = None
            self.attempts += 1
            log.info("MCP server %r: %s %s", name, self.state, self.problem)
            self._notify()

    async def _use(self, session: ServerSession) -> None:
        self._session = session
        self._adopt(session)
        self.starts += 1
        self.problem = ""
        self._set("ready")
        ended = asyncio.ensure_future(session.wait_ended())
        changed: asyncio.Future[None] | None = None
        try:
            while not ended.done():
                changed = changed or asyncio.ensure_future(session.wait_changed())
                await asyncio.wait({ended, changed}, return_when=asyncio.FIRST_COMPLETED)
                if changed.done() and not ended.done():
                    changed = None
                    await session.refresh()
                    self._adopt(session)
            self._fail("failed", ended.result())
        finally:
            for future in (ended, changed):
                if future is not None:
                    future.cancel()

    def _adopt(self, session: ServerSession) -> None:
        tools = tuple(tool for tool in session.tools if self.definition.offers(tool.name))
        if tools != self.tools:
            self.tools, self.version = tools, self.version + 1
        self.skipped, self.server, self.prompts = session.skipped, session.server, session.prompts
        self._notify()

    def _fail(self, state: State, problem: str) -> None:
        self.problem = problem
        self._set(state)

    def _set(self, state: State) -> None:
        self.state = state
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

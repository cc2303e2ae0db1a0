"""One connection to an MCP server, by the SDK. Importing this module imports the SDK.

Invariants: the task that enters a connection leaves it; a call is sent once; what the server says is bounded before it
is kept.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client._transport import Transport
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import CONNECTION_CLOSED, Implementation, PromptListChangedNotification, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from buddy.errors import OutcomeUnknown, ToolError, UserError
from buddy.tools.contract import Output
from buddy.tools.mcp.contract import (
    Caller,
    ConnectionLost,
    NeedsLogin,
    PromptDefinition,
    ServerFailed,
    ServerStderr,
    ToolDefinition,
)
from buddy.tools.mcp.definitions import ServerDefinition
from buddy.tools.mcp.elicitation import Callers
from buddy.tools.mcp.http import CallStatus, Reached, calling, make_http_client
from buddy.tools.mcp.listing import list_prompts, list_tools
from buddy.tools.mcp.results import block_text, output_of, resource_texts
from buddy.tools.mcp.stdio import StdioTransport
from buddy.version import VERSION

MAX_ERROR = 2000
_BROKEN = (OSError, ValidationError, RuntimeError)
_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_NO_ANSWER = "Server returned an error response"
"""How the SDK reports an HTTP error without an answer of the server in its body."""
_CLIENT = Implementation(name="buddy", version=VERSION)


@asynccontextmanager
async def connect(
    definition: ServerDefinition, stderr: ServerStderr, nonce: str, login: httpx2.Auth | None = None
) -> AsyncGenerator["SdkSession"]:
    """Connect and list the tools; ServerFailed says why that did not work, NeedsLogin that a login is missing."""
    session, is_left = SdkSession(definition), False
    try:
        async with _client(definition, session, stderr, nonce, login) as client:
            session.use(client)
            await session.refresh()
            async with _following_changes(client, session):
                yield session
                is_left = True
    except (ServerFailed, UserError, OAuthFlowError, MCPError, httpx2.HTTPError, *_BROKEN) as error:
        raise _failed(session, error) from error
    except ExceptionGroup as group:
        if is_left and all(isinstance(error, _CLOSED) for error in _leaves(group)):
            return  # an answer came while the connection was being closed, and nobody waits for it
        raise _failed(session, next(_leaves(group))) from group


@asynccontextmanager
async def _client(
    definition: ServerDefinition,
    session: "SdkSession",
    stderr: ServerStderr,
    nonce: str,
    login: httpx2.Auth | None,
) -> AsyncGenerator[Client]:
    if definition.command:
        stdio = StdioTransport(definition, nonce, stderr)
        session.stdio = stdio
        async with _sdk_client(stdio.open(), session) as client:
            yield client
        return
    reached = Reached()
    session.reached = reached
    async with make_http_client(definition, reached, login) as http:
        transport = streamable_http_client(definition.url, http_client=http)
        async with _sdk_client(transport, session) as client:
            yield client


def _sdk_client(transport: Transport, session: "SdkSession") -> Client:
    return Client(
        transport,
        client_info=_CLIENT,
        message_handler=session.on_message,
        elicitation_callback=session.callers.elicit,
        cache=None,
    )


@asynccontextmanager
async def _following_changes(client: Client, session: "SdkSession") -> AsyncGenerator[None]:
    """Newer servers say on a stream of its own that their tools have changed; older ones just say it."""
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        yield
        return
    async with anyio.create_task_group() as group:
        group.start_soon(_listen, client, session)
        yield
        group.cancel_scope.cancel()


async def _listen(client: Client, session: "SdkSession") -> None:
    try:
        async with client.listen(tools_list_changed=True, prompts_list_changed=True) as events:
            async for _ in events:
                session.changed.set()
    except (MCPError, SubscriptionLost, TimeoutError, httpx2.HTTPError, RuntimeError):
        return  # the server has none of this


class SdkSession:
    """Satisfies `ServerSession`."""

    def __init__(self, definition: ServerDefinition) -> None:
        self.tools: tuple[ToolDefinition, ...] = ()
        self.prompts: tuple[PromptDefinition, ...] = ()
        self.skipped: tuple[str, ...] = ()
        self.server = ""
        self.changed = asyncio.Event()
        self.stdio: StdioTransport | None = None
        self.reached = Reached()
        self.callers = Callers(definition.name)
        self._definition = definition
        self._client: Client | None = None
        self._lost = asyncio.Event()
        self._why = ""

    def use(self, client: Client) -> None:
        self._client = client
        info = client.server_info
        named = f"{info.name} {info.version}".strip() if info else self._definition.name
        self.server = f"{named[:120]}, MCP {client.protocol_version}"

    async def on_message(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification | PromptListChangedNotification):
            self.changed.set()

    async def refresh(self) -> None:
        self.changed.clear()
        client = self._connected()
        if client.server_capabilities.tools is not None:
            self.tools, self.skipped = await list_tools(client)
        if client.server_capabilities.prompts is not None:
            self.prompts = await list_prompts(client)

    async def read_resource(self, uri: str, seconds: float) -> str:
        async with self._asking(f"resource {uri[:200]}", seconds) as client:
            return resource_texts((await client.read_resource(uri)).contents)

    async def get_prompt(self, name: str, arguments: dict[str, str], seconds: float) -> str:
        async with self._asking(f"prompt {name}", seconds) as client:
            found = await client.get_prompt(name, arguments)
        return "\n\n".join(block_text(message.content) for message in found.messages)

    @asynccontextmanager
    async def _asking(self, what: str, seconds: float) -> AsyncGenerator[Client]:
        """A request without effects: whatever goes wrong with it can be asked again."""
        try:
            async with asyncio.timeout(seconds):
                yield self._connected()
        except (MCPError, httpx2.HTTPError, ValidationError, RuntimeError, TimeoutError) as error:
            text = str(error) or type(error).__name__
            raise ToolError(f"{self._definition.name}: {what}: {text[:MAX_ERROR]}") from error

    async def call(self, name: str, arguments: dict[str, Any], seconds: float, caller: Caller) -> Output:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            await caller.report(f"[{share}] {message or ''}".rstrip())

        client = self._connected()
        posts, status = self.reached.posts, CallStatus()
        deadline = asyncio.timeout(seconds)
        token = calling.set(status)
        try:
            async with deadline:
                with self.callers.calling(caller, deadline):
                    result = await client.call_tool(name, arguments, None, on_progress)
        except TimeoutError:
            if not deadline.expired():
                raise
            text = f"{name} did not answer within {seconds:g} s; the server was asked to stop it, but it may have run"
            raise ToolError(text, code="EXEC_TIMEOUT") from None
        except MCPError as error:
            raise self._failure(error, posts, status) from error
        except httpx2.HTTPError as error:
            raise self._lose(f"the connection to it broke ({error})") from error
        except (RuntimeError, ValidationError) as error:
            # It was sent and answered: only the answer is not what the server announced.
            raise ToolError(f"the server's answer is not valid: {str(error)[:MAX_ERROR]}") from error
        finally:
            calling.reset(token)
        return output_of(result)

    async def wait_changed(self) -> None:
        await self.changed.wait()

    async def wait_ended(self) -> str:
        if self.stdio is None:
            await self._lost.wait()
            return self._why
        ended = {asyncio.ensure_future(self.stdio.ended.wait()), asyncio.ensure_future(self._lost.wait())}
        try:
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in ended:
                one.cancel()
        return self.stdio.why or self._why

    @property
    def is_usable(self) -> bool:
        return not self._lost.is_set() and (self.stdio is None or not self.stdio.ended.is_set())

    @property
    def exit_reason(self) -> str:
        return self.stdio.why if self.stdio is not None else ""

    def _connected(self) -> Client:
        if self._client is None:
            raise ServerFailed("it is not connected")
        return self._client

    def _failure(self, error: MCPError, posts: int, status: CallStatus) -> Exception:
        """What an error means for a call; `posts` were begun before it."""
        if error.code == CONNECTION_CLOSED and self.reached.sent_nothing(posts):
            self._lose(self.reached.problem)
            return ToolError(f"the server cannot be reached ({self.reached.problem}); nothing was called")
        if error.code == CONNECTION_CLOSED or error.message == "Session terminated":
            return self._lose(self.exit_reason or error.message)
        if status.is_of_server and error.message == _NO_ANSWER:
            return OutcomeUnknown(f"the MCP server {self._definition.name!r} answered with HTTP status {status.code}")
        return ToolError(error.message[:MAX_ERROR])

    def _lose(self, why: str) -> ConnectionLost:
        self._why = why
        self._lost.set()
        return ConnectionLost(why)


def _failed(session: SdkSession, error: BaseException) -> ServerFailed:
    """Why a connection came to nothing; of a program that ended, how."""
    if isinstance(error, ServerFailed):
        return error
    if session.reached.is_unauthorized and not isinstance(error, UserError):
        return NeedsLogin("it needs a login")
    text = session.exit_reason or str(error) or type(error).__name__
    return ServerFailed(text[:MAX_ERROR])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    if not inner:
        yield error
    for one in inner:
        yield from _leaves(one)

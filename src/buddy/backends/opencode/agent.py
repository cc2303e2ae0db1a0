"""OpenCode as an agent: one server per target, any number of conversations, one event stream.

Invariants: the stream is open before the first message is sent, and is reopened while the server runs; an event
reaches only the conversation that owns its session; when the server exits, all conversations end.
"""

import asyncio
import logging
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from buddy.approvals.digest import nonce_of
from buddy.backends.external import lenient
from buddy.backends.external.contract import AgentRequest, AgentResult, Executor, SessionLost, once
from buddy.backends.native.notes import MAX_BYTES, find_notes, render_notes
from buddy.backends.opencode.repository import check_repository
from buddy.backends.opencode.settings import INSTALL, session_rules
from buddy.backends.opencode.wire import NotFound, StreamEvent, read_event, read_list, read_object
from buddy.errors import ProviderError, UserError
from buddy.targets.contract import Target
from buddy.tools.contract import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from buddy.backends.opencode.catalog import ModelKey
    from buddy.backends.opencode.server import OpenCodeServer
    from buddy.backends.opencode.session import OpenCodeSession

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
STREAM_SECONDS = 30.0

log = logging.getLogger("buddy.backends")


class OpenCode:
    """Satisfies `Agent`. `salt` identifies a server left behind by a crash, which the next start ends.

    `is_trusted` says whether a folder's own settings may take effect.
    """

    name = "opencode"
    reports_cost = True

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        salt: str,
        is_trusted: Callable[[str], bool],
        program: Sequence[str] = ("opencode",),
    ) -> None:
        self._env = env
        self._is_trusted = is_trusted
        self._salt = salt
        self._program = tuple(program)
        self._target: Target | None = None
        self._server: OpenCodeServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._streaming = asyncio.Event()
        self._sessions: dict[str, OpenCodeSession] = {}
        """By session id."""

    @property
    def is_available(self) -> bool:
        return shutil.which(self._program[0], path=self._env.get("PATH")) is not None

    def check(self) -> None:
        """OpenCode manages its own credentials: keys, a login, or a local model that needs none."""
        if not self.is_available:
            raise UserError(f"{self._program[0]} is not installed", hint=INSTALL)

    async def start(self, target: Target, project: str) -> None:  # noqa: ARG002 - each request names its directory
        from buddy.backends.opencode.server import start

        nonce = nonce_of(self._salt, f"{self.name} on {target.name}")
        self._target, self._server = target, await start(target, self._words(target), nonce)
        self._tasks = {
            asyncio.create_task(self._follow(self._server)),
            asyncio.create_task(self._watch_exit(self._server)),
        }
        try:
            async with asyncio.timeout(STREAM_SECONDS):
                await self._streaming.wait()
        except TimeoutError:
            await self.close()
            raise ProviderError("OpenCode's server sends no events", retryable=True) from None

    async def execute(self, request: AgentRequest) -> Executor:
        from buddy.backends.opencode.session import OpenCodeSession, PromptOptions

        server, target = await self._open_directory(request.cwd, request.nonce), self._target
        notes = render_notes(await find_notes(Place(target, request.cwd), None), MAX_BYTES) if target else ""
        prompt = PromptOptions(
            request.cwd,
            "plan" if request.plan else "build",
            _model_of(request.model),
            "\n\n".join(text for text in (request.instructions, notes) if text),
        )
        limits = await self._context_limits(server, request.cwd)
        if request.session_id is None:
            rules = {"permission": session_rules(plan=request.plan)}
            created = read_object(await server.call("POST", "/session", request.cwd, rules))
            session_id = lenient.text(created.get("id"))
            if not re.fullmatch(r"[\w-]{1,200}", session_id):  # it becomes part of URLs
                raise ProviderError("OpenCode created no session", retryable=True)
            session = OpenCodeSession(server, prompt, session_id, limits=limits)
        else:
            anchor, children = await _load_session(server, request.cwd, request.session_id)
            session = OpenCodeSession(server, prompt, request.session_id, anchor, limits)
            session.sessions |= children
        known = {name: one for name, one in self._sessions.items() if not one.is_closed}
        self._sessions = {**known, session.backend_session_id: session}
        if request.text:
            await session.send_message(request.text)
        return session

    async def is_priced(self, model: str | None, cwd: str) -> bool:
        """By its own catalog: for a model without a price it reports a cost of 0."""
        server = await self._open_directory(cwd, nonce_of(self._salt, cwd))
        from buddy.backends.opencode.catalog import read_catalog

        try:
            return (await read_catalog(server, cwd)).is_priced(_model_of(model))
        except NotFound:
            return False  # an older version, which has no catalog

    async def _open_directory(self, cwd: str, nonce: str) -> "OpenCodeServer":
        """The server, if it may open this directory: it would run the plugins in it."""
        if self._server is None or self._target is None:
            raise ProviderError("OpenCode was not started", retryable=False)
        await check_repository(self._target, cwd, nonce, self._env.get("HOME", ""), self._is_trusted)
        return self._server

    async def _context_limits(self, server: "OpenCodeServer", cwd: str) -> "Mapping[ModelKey, int]":
        from buddy.backends.opencode.catalog import read_catalog

        with suppress(ProviderError):
            models = (await read_catalog(server, cwd)).models
            return {key: facts.context_limit for key, facts in models.items() if facts.context_limit}
        return {}

    async def execute_once(self, request: AgentRequest) -> AgentResult:
        return await once(self, request)

    async def ping(self) -> None:
        if self._server is None:
            raise ProviderError("OpenCode was not started", retryable=False)
        await self._server.health()

    async def close(self) -> None:
        server, self._server = self._server, None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for session in list(self._sessions.values()):
            session.fail("OpenCode's server was closed")
            await session.close()
        if server is not None:
            await server.close()

    def _words(self, target: Target) -> Sequence[str]:
        """The local program's full path; on other targets it is looked up there."""
        if target.name != "local":
            return self._program
        self.check()
        return (shutil.which(self._program[0], path=self._env.get("PATH")) or "", *self._program[1:])

    # --- the stream -------------------------------------------------------------------------------------------------

    async def _follow(self, server: "OpenCodeServer") -> None:
        wait = FIRST_WAIT
        while server.program.is_running:
            try:
                async for line in server.lines():
                    if (event := _parse(line)) is None:
                        continue
                    if event.kind == "server.connected":
                        wait = FIRST_WAIT
                        self._on_connect()
                    else:
                        self._route(event)
            except ProviderError as error:
                log.info("%s", error)
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    def _on_connect(self) -> None:
        if self._streaming.is_set():
            for session in list(self._sessions.values()):
                session.inbox.mark_gap()
        self._streaming.set()

    def _route(self, event: StreamEvent) -> None:
        if event.kind == "session.created":
            parent = self._session_for(lenient.text(lenient.mapping(event.body.get("info")).get("parentID")))
            if parent is not None:
                parent.sessions.add(event.session_id)
        session = self._session_for(event.session_id)
        if session is not None and not session.is_closed:
            session.inbox.put(event)

    def _session_for(self, session_id: str) -> "OpenCodeSession | None":
        """The conversation that owns this session or sub-agent session."""
        own = self._sessions.get(session_id)
        return own or next((one for one in self._sessions.values() if session_id in one.sessions), None)

    async def _watch_exit(self, server: "OpenCodeServer") -> None:
        code = await server.program.wait()
        why = server.program.stderr_tail
        self._streaming.set()  # so that `start` stops waiting
        for session in list(self._sessions.values()):
            session.fail(f"OpenCode's server exited with code {code}{': ' + why if why else ''}")


async def _load_session(server: "OpenCodeServer", directory: str, session_id: str) -> tuple[str, set[str]]:
    """For a resumed session: the id of its newest message and its sub-agent sessions."""
    try:
        await server.call("GET", f"/session/{session_id}", directory)
        messages = read_list(await server.call("GET", f"/session/{session_id}/message", directory))
        children = read_list(await server.call("GET", f"/session/{session_id}/children", directory))
    except NotFound:
        raise SessionLost(f"OpenCode has no session {session_id}") from None
    newest = max((lenient.text(lenient.mapping(one.get("info")).get("id")) for one in messages), default="")
    return newest, {lenient.text(child.get("id")) for child in children}


def _parse(line: str) -> StreamEvent | None:
    try:
        return read_event(line)
    except ValueError:
        log.warning("invalid event in OpenCode's stream: %.200r", line)
        return None


def _model_of(model: str | None) -> tuple[str, str] | None:
    if not model:
        return None
    provider, _, name = model.partition("/")
    if not provider or not name:
        raise UserError(
            f"invalid OpenCode model {model!r}: expected PROVIDER/MODEL", hint="run 'opencode models' to list them"
        )
    return provider, name

"""The composition root: concrete classes are chosen and connected here."""

import asyncio
import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from buddy.approvals.rulebook import RuleBook
from buddy.backends.contract import Backend
from buddy.backends.droid.credentials import factory_key
from buddy.backends.external.contract import Agent
from buddy.backends.native.loop import Native
from buddy.backends.native.prompt import PromptSettings
from buddy.config.places import Places
from buddy.config.resolve import LOCAL_URL, Resolved, configured_keys, resolve_profile
from buddy.config.settings import Config
from buddy.daemon.agents import Agents, credential_folders
from buddy.daemon.boot_clock import boot_time
from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Dispatcher
from buddy.daemon.handlers.all import make_handlers
from buddy.daemon.limits import read_limits
from buddy.daemon.link import MemoryLink, ServerLink, memory_pair
from buddy.daemon.memories import make_memory
from buddy.daemon.projects import Projects
from buddy.daemon.pump import LineCache
from buddy.daemon.session_list import SessionList
from buddy.daemon.tracing import start_tracing
from buddy.errors import ProtocolError, UserError
from buddy.log.contract import Log, TokenRecord
from buddy.log.owners import this_owner
from buddy.models.contract import Provider
from buddy.models.credentials import ApiKey, Credentials
from buddy.models.http.pool import Pool
from buddy.models.listing import Listings
from buddy.models.retry import Patience, RetryingProvider
from buddy.protocol.events import SessionStarted, WarningRaised
from buddy.protocol.ids import Ids, Ulids
from buddy.protocol.requests import DaemonStatusReply
from buddy.protocol.shapes import BootTime
from buddy.scrub import Scrubber
from buddy.sessions.services import SessionServices
from buddy.sessions.sessions import SessionFactories, Sessions
from buddy.targets.choose import OwnDirectories, TargetRequest, choose, clean_up, close_connections
from buddy.tools.contract import Place
from buddy.tools.registry import Registry
from buddy.tools.source import CombinedSource, FilteredSource, FixedSource, ToolSource
from buddy.tools.toolbox import ToolDeps, toolbox, without_panes
from buddy.version import VERSION as PRODUCT_VERSION


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


OWNER_RESERVE = 16
"""Connections that only the owner gets, so that guests with tokens do not keep the owner out."""


class RuntimeOverrides(Struct, frozen=True):
    """What can be replaced: the clocks, the ids, the log, the models, the memory's directory; more tools and agents.

    With another log, there is no memory unless `memory_dir` is set. `agents` are functions that make an agent, by the
    name that sessions ask for (`options.agentRuntime`).
    """

    clock: Callable[[], int] = unix_ms
    ids: Ids = Ulids()
    log: Log | None = None
    provider: Callable[[Resolved], Provider] | None = None
    memory_dir: Path | None = None
    tools: tuple[ToolSource, ...] = ()
    agents: Mapping[str, Callable[[], Agent]] = {}
    boot_clock: Callable[[], BootTime | None] = boot_time


class Runtime:
    """Everything behind the protocol, in one process."""

    def __init__(
        self, config: Config, places: Places, env: Mapping[str, str], overrides: RuntimeOverrides | None = None
    ) -> None:
        overrides = overrides or RuntimeOverrides()
        self.scrubber = Scrubber()
        self.scrubber.register_environment(env)
        for key in (*configured_keys(config, env), factory_key(env, *credential_folders(config, places))):
            self.scrubber.register(key)
        self.log = overrides.log or _open_log(places, overrides.clock)
        self._config = config
        self._env = env
        self._make_provider = overrides.provider or self._make_own
        self._user_folder = places.config_dir
        self._auth_file = places.config_dir / "auth.json"
        source = Path(config.source) if config.source else None
        self._own = OwnDirectories(places.config_dir, places.state_dir, places.socket.parent, source)
        self._listings = Listings()
        self._pool = Pool()
        self._patience: dict[tuple[str, float | None], Patience] = {}
        deps = ToolDeps(overrides.clock, self.log.read_blob, self._has_secret)
        builtin: ToolSource = FixedSource(toolbox(config.tools, deps))
        self._all_tools = CombinedSource(builtin, *overrides.tools) if overrides.tools else builtin
        self._tool_source = functools.cache(self._make_source)
        memory_dir = overrides.memory_dir or (places.state_dir if overrides.log is None else None)
        self.memory = make_memory(config, env, memory_dir, self.log) if memory_dir else None
        self._tracing = start_tracing(env)
        self._connections: dict[asyncio.Task[None], PeerConnection] = {}
        self.rulebook = RuleBook(config, places)
        self.session_list = SessionList(self.log, overrides.clock)
        services = SessionServices(
            self.log,
            overrides.clock,
            overrides.ids,
            self.scrubber,
            approval_timeout=config.agent.approval_timeout_seconds,
            max_turns=config.agent.max_turns,
            permissions=self.rulebook.permissions,
            boot_clock=overrides.boot_clock,
            listeners=tuple(
                part.observe for part in (self.session_list, self.memory, self._tracing) if part is not None
            ),
        )
        self.limits = read_limits(config.limits)
        self.stopping = asyncio.Event()
        self._encoded = LineCache()
        self._started = time.monotonic()
        projects = Projects(places.state_dir if overrides.log is None else None, overrides.ids)
        self.agents = Agents(config, places, env, projects, self.log.has_room, overrides.agents)
        factories = SessionFactories(self._place, self._backend, self._settle)
        self.sessions = Sessions(services, factories, this_owner(), self.limits.active_runs)
        self._dispatch = Dispatcher(
            self.sessions, make_handlers(self.sessions, self.log, overrides.clock, self)
        ).dispatch

    def connect(self) -> MemoryLink:
        """A client's end of a new connection inside this process."""
        theirs, ours = memory_pair()
        peer = PeerConnection(ours, self.sessions, self.log, self._dispatch, trusted=True, scrubber=self.scrubber)
        self._serve(peer)
        return theirs

    def accept(self, link: ServerLink, *, trusted: bool, grant: TokenRecord | None = None) -> bool:
        """Serve a peer from outside; False if there are too many, or the runtime is stopping."""
        most = self.limits.connections - (0 if trusted else min(OWNER_RESERVE, self.limits.connections // 4))
        if len(self._connections) >= most or self.stopping.is_set():
            return False
        peer = PeerConnection(
            link,
            self.sessions,
            self.log,
            self._dispatch,
            trusted=trusted,
            scrubber=self.scrubber,
            limits=self.limits,
            encoded=self._encoded,
        )
        if grant is not None:
            peer.roles.grant(grant)
        self._serve(peer)
        return True

    def disconnect_token(self, token_hash: str) -> None:
        """Close the connections that use a revoked token."""
        for connection in list(self._connections.values()):
            if connection.roles.uses(token_hash):
                connection.close()

    def has_observer_slot(self, session_id: str) -> bool:
        """Whether one more client may follow this session."""
        following = sum(connection.is_attached(session_id) for connection in self._connections.values())
        return following < self.limits.observers

    def trust(self, root: str, *, trusted: bool) -> str:
        return self.rulebook.trust.set(root, trusted=trusted)

    def status(self) -> DaemonStatusReply:
        sessions = self.sessions.open_sessions
        running = sum(session.runs.is_running for session in sessions)
        uptime = round(time.monotonic() - self._started, 3)
        return DaemonStatusReply(PRODUCT_VERSION, uptime, len(sessions), running, len(self._connections))

    def stop(self) -> None:
        self.stopping.set()

    def _serve(self, connection: PeerConnection) -> None:
        task = asyncio.get_running_loop().create_task(connection.serve())
        self._connections[task] = connection
        task.add_done_callback(lambda done: self._connections.pop(done, None))

    async def clean_up(self) -> None:
        """Remove from workspaces what a process that was killed has left there."""
        await clean_up(self._own)

    async def close(self) -> None:
        """A clean stop: runs are cancelled, approvals denied, clients disconnected, the log closed."""
        await self.sessions.close()
        await self.agents.close()
        await close_connections(self._own)
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._tracing is not None:
            await self._tracing.close()
        if self.memory is not None:
            await self.memory.close()
        self._pool.close()
        await self.log.close()

    async def forget(self, session_id: str) -> None:
        """Remove a deleted session from the list and from memory."""
        self.session_list.remove(session_id)
        if self.memory is not None:
            await self.memory.forget_session(session_id)

    def _settle(self, started: SessionStarted) -> tuple[SessionStarted, tuple[WarningRaised, ...]]:
        settled, notes = self.agents.settle(started)
        options = started.options
        is_here = ((options.target if options else None) or started.sandbox_provider) in ("local", "confined")
        own = self.rulebook.notes(started.repo.root_path) if is_here and started.repo else ()
        return settled, (*notes, *own, *self.rulebook.dead_rules())

    def _place(self, started: SessionStarted) -> Place:
        options = started.options
        request = TargetRequest(
            (options.target if options else None) or started.sandbox_provider,
            started.repo.root_path if started.repo else ".",
            options.sandbox if options else None,
            options.tmux if options else None,
        )
        chosen = choose(request, self._own)
        is_closed = functools.partial(self.rulebook.is_closed, chosen.root)
        return Place(chosen.target, chosen.root, chosen.sandbox, is_closed)

    def _backend(self, started: SessionStarted, profile: str | None, model: str | None) -> Backend:
        options = started.options
        other = self.agents.backend(started, model)
        if other is not None:
            return other
        named = profile or (None if started.provider == "default" else started.provider)
        instructions = (options.system_prompt if options else None) or self._config.agent.system_prompt
        source = self._tool_source(bool(options and options.tmux), bool(options and options.plan))
        agent = self._config.agent
        root = started.repo.root_path if started.repo else ""
        recall = self.memory.recaller(started.session_id, root) if self.memory else None
        place = (self._user_folder, recall, agent.temperature, agent.top_p)
        settings = PromptSettings(instructions, *place)
        try:
            return Native(self._provider, source, self.log.has_room, settings, named, model)
        except UserError as error:
            raise ProtocolError("PROVIDER_NOT_CONFIGURED", str(error), detail=error.hint or None) from error

    def _make_source(self, panes: bool, plan: bool) -> ToolSource:
        """The tools of one kind of session; all sessions of a kind share the same source."""
        source = self._all_tools if panes else FilteredSource(self._all_tools, without_panes)
        return FilteredSource(source, Registry.read_only) if plan else source

    def _provider(self, profile: str | None, model: str | None) -> Provider:
        resolved = resolve_profile(self._config, self._env, profile, model)
        resolved.check_key()
        self.scrubber.register(resolved.api_key)
        return self._make_provider(resolved)

    def _has_secret(self, text: str) -> bool:
        return self.scrubber.registered(text) != text

    def _make_own(self, resolved: Resolved) -> Provider:
        credentials = find_credentials(resolved, self._auth_file, self.scrubber)
        endpoint = resolved.base_url, resolved.retry_seconds
        patience = self._patience.setdefault(endpoint, Patience(resolved.retry_seconds))
        return make_provider(resolved, credentials, self._listings, self._pool, patience)


def make_provider(
    resolved: Resolved,
    credentials: Credentials,
    listings: Listings,
    pool: Pool | None = None,
    patience: Patience | None = None,
) -> Provider:
    """The model of a resolved profile; each wire is imported when it is first needed."""
    from buddy.models.catalog_provider import CatalogProvider
    from buddy.models.wires import Endpoint, make_wire

    if resolved.api == "scripted":
        from buddy.models.script import load_script
        from buddy.models.scripted import Scripted

        script = load_script(resolved.script) if resolved.script else None
        limit = resolved.context_limit if resolved.context_known else 128_000
        scripted = Scripted(resolved.profile, script, context_limit=limit) if script else Scripted.echo()
        return RetryingProvider(scripted, patience)
    if resolved.base_url == LOCAL_URL:
        from buddy.models.local import LocalModel

        api = "responses" if resolved.api == "responses" else "completions"
        return RetryingProvider(LocalModel(resolved.profile, api=api, context_limit=resolved.context_limit), patience)
    endpoint = Endpoint(
        resolved.profile,
        resolved.base_url,
        credentials,
        resolved.model,
        resolved.context_limit,
        login=resolved.auth == "login",
    )
    provider = RetryingProvider(make_wire(resolved.api, endpoint, pool), patience)
    return CatalogProvider(provider, resolved, lambda: listings.of(resolved.base_url, credentials))


def find_credentials(resolved: Resolved, auth_file: Path, scrubber: Scrubber) -> Credentials:
    """The profile's key, or its login, whose tokens are registered with the scrubber as they are received."""
    if resolved.auth == "api-key":
        return ApiKey(resolved.api_key)
    from buddy.models.login.bearer import Login
    from buddy.models.login.issuer import find_issuer
    from buddy.models.login.tokens import AuthFile

    issuer = find_issuer(resolved.issuer, resolved.client_id)
    return Login(resolved.profile, issuer, AuthFile(auth_file), learned=scrubber.register)


def _open_log(places: Places, clock: Callable[[], int]) -> Log:
    from buddy.log.sqlite import SqliteLog

    return SqliteLog.open(places.state_dir, clock)

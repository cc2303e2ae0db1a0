"""The composition root: concrete classes are chosen and connected here."""

import asyncio
import functools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from buddy.approvals.rulebook import RuleBook
from buddy.backends.choose import NATIVE
from buddy.backends.contract import Backend
from buddy.backends.droid.credentials import factory_key
from buddy.config.places import Places
from buddy.config.resolve import profile_names
from buddy.config.settings import Config, ToolSettings
from buddy.daemon.admission import Admission
from buddy.daemon.agent_definitions import AgentDefinitions, AgentSource, narrowed, tool_limits
from buddy.daemon.agents import Agents, credential_folders
from buddy.daemon.checkpoints import forget_checkpoints, make_checkpoints
from buddy.daemon.client_keys import ClientKeys
from buddy.daemon.configuration import Configuration, Find
from buddy.daemon.connection import PeerConnection
from buddy.daemon.crowding import disconnect_all, make_room
from buddy.daemon.dispatch import Dispatcher
from buddy.daemon.handlers.all import make_handlers
from buddy.daemon.handlers.host import WebControl
from buddy.daemon.hooks import make_hooks
from buddy.daemon.limits import read_limits
from buddy.daemon.link import MemoryLink, ServerLink, memory_pair
from buddy.daemon.memories import forget_in_memory, make_memory
from buddy.daemon.node import node_name
from buddy.daemon.notifications import make_notifications
from buddy.daemon.open_files import OpenFiles
from buddy.daemon.operations import Operations
from buddy.daemon.overrides import RuntimeOverrides, unix_ms
from buddy.daemon.prepared_texts import PreparedTexts
from buddy.daemon.projects import Projects, choose_store
from buddy.daemon.providers import Providers
from buddy.daemon.pump import LineCache
from buddy.daemon.session_list import SessionList
from buddy.daemon.session_model import SessionModels
from buddy.daemon.session_place import place_of
from buddy.daemon.tracing import start_tracing
from buddy.errors import ProtocolError, UserError
from buddy.log.contract import Log, TokenRecord
from buddy.log.owners import this_owner
from buddy.memory.sources import project_of
from buddy.protocol.events import SessionStarted, WarningRaised
from buddy.protocol.requests import DaemonStatusReply
from buddy.scrub import Scrubber
from buddy.sessions.children import ChildLimits, ChildSessions
from buddy.sessions.handing_over import let_go_of_all
from buddy.sessions.services import Expand, SessionServices
from buddy.sessions.sessions import SessionFactories, Sessions
from buddy.targets.choose import OwnDirectories, clean_up, close_connections
from buddy.tools.contract import Place
from buddy.tools.mcp.deferred import DeferredMcp, McpHost
from buddy.tools.source import CombinedSource, FilteredSource, FixedSource, ToolSource
from buddy.tools.toolbox import ToolDeps, toolbox, without_panes
from buddy.version import VERSION as PRODUCT_VERSION

if TYPE_CHECKING:
    from buddy.cluster.fleet import Fleet
    from buddy.tools.skills.expansion import Expansion


__all__ = ["OWNER_RESERVE", "Runtime", "RuntimeOverrides", "unix_ms"]

KINDS = 64
"""Kinds of sessions, by the tools they have, whose sources are kept."""
OWNER_RESERVE = 16
"""Connections that only the owner gets, so that guests with tokens do not keep the owner out."""


class Runtime:
    """Everything behind the protocol, in one process."""

    web_address: str | None = None
    web_token_file: str | None = None
    fleet: "Fleet | None" = None
    """The daemons that share the log, if it is shared."""

    def __init__(
        self,
        config: Config,
        places: Places,
        env: Mapping[str, str],
        overrides: RuntimeOverrides | None = None,
        *,
        find_config: Find | None = None,
    ) -> None:
        """With `find_config`, the configuration is read again when its file has changed."""
        overrides = overrides or RuntimeOverrides()
        self.scrubber = Scrubber()
        self.scrubber.register_environment(env)
        self.scrubber.register(factory_key(env, *credential_folders(config, places)))
        self.configuration = Configuration(config, env, self.scrubber, find_config)
        self.configuration.on_change = self._reconfigure
        self.shared_log = shared = overrides.shared
        for password in shared.address.passwords if shared else ():
            self.scrubber.register(password)
        self.log = shared or overrides.log or _open_log(places, overrides.clock)
        self.user_folder = places.config_dir
        self._providers = Providers(places.config_dir / "auth.json", self.scrubber)
        keys = ClientKeys(env, self._hide)
        make = overrides.provider or self._providers.make
        self.models = SessionModels(self.configuration, keys, make, self._providers.list_models)
        source = Path(config.source) if config.source else None
        self._own = OwnDirectories(places.config_dir, places.state_dir, places.socket.parent, source)
        self.limits = read_limits(config.limits, config.source)
        self.rulebook = RuleBook(config, places)
        self.children = _make_children(self)
        trust = self.rulebook.trust
        self.definitions = AgentDefinitions(str(places.config_dir), env.get("HOME", ""), trust.is_trusted)
        delegating = (self.children, self.definitions.find)
        self._tool_deps = ToolDeps(overrides.clock, self.log.read_blob, self._has_secret, *delegating)
        self.mcp = _make_mcp(self, env, places)
        self._more_tools = (*overrides.tools, self.mcp)
        self.texts = PreparedTexts(places.config_dir, self.rulebook.trust)
        self._use_tools(config.tools)
        memory_dir = overrides.memory_dir or (places.state_dir if overrides.log is None else None)
        self.memory = make_memory(config, env, memory_dir, self.log, is_shared=bool(shared)) if memory_dir else None
        self.tracing = start_tracing(env)
        self.notifications = make_notifications(self, places.state_dir)
        self.connections: dict[asyncio.Task[None], PeerConnection] = {}
        self.checkpoints = make_checkpoints(config, places.state_dir) if overrides.log is None else None
        self.open_files, self.session_list = OpenFiles(), SessionList(self.log, overrides.clock)
        self.admission = Admission(self.limits, self.log, overrides.clock)
        self.stopping = asyncio.Event()
        self.web: WebControl | None = None
        self.encoded = LineCache()
        self._started = time.monotonic()
        self.operations = Operations(node_name(config.node, places.state_dir))
        store = choose_store(places.state_dir, overrides.shared, overrides.log)
        projects = Projects(store, overrides.ids, self.scrubber.registered)
        self.agents = Agents(config, places, env, projects, self.log.has_room, overrides.agents, self.log.read_blob)
        factories = SessionFactories(self._place, self._backend, self._settle, keys.copy)
        services = _make_services(self, config, overrides)
        self.sessions = Sessions(services, factories, this_owner(), config.node.max_runs or self.limits.active_runs)
        self.children.bind(self.sessions)
        handlers = make_handlers(self.sessions, self.log, overrides.clock, self)
        self.dispatcher = Dispatcher(self.sessions, handlers)

    def connect(self) -> MemoryLink:
        """A client's end of a new connection inside this process."""
        theirs, ours = memory_pair()
        peer = PeerConnection(
            ours, self.sessions, self.log, self.dispatcher.dispatch, trusted=True, is_local=True, scrubber=self.scrubber
        )
        self._serve(peer)
        return theirs

    def accept(
        self,
        link: ServerLink,
        *,
        trusted: bool,
        is_local: bool = False,
        grant: TokenRecord | None = None,
        login: str | None = None,
        user: str | None = None,
    ) -> bool:
        """Serve a peer from outside; False if there are too many, or the runtime is stopping.

        `is_local`: it is a process of the owner on this machine, so it may send keys.
        `login` is the hash of the owner's login that the peer was admitted by; `user` has sessions of their own.
        """
        most = self.limits.connections - (0 if trusted else min(OWNER_RESERVE, self.limits.connections // 4))
        is_full = len(self.connections) >= most
        if is_full and trusted:
            is_full = not make_room(self.connections, time.monotonic(), self.limits.idle_seconds)
        if is_full or self.stopping.is_set():
            return False
        peer = PeerConnection(
            link,
            self.sessions,
            self.log,
            self.dispatcher.dispatch,
            trusted=trusted,
            is_local=is_local,
            scrubber=self.scrubber,
            limits=self.limits,
            encoded=self.encoded,
            user=user,
            audit=self.operations.audit,
        )
        if grant is not None:
            peer.roles.grant(grant)
        if login is not None:
            peer.roles.use_login(login)
        self._serve(peer)
        return True

    def disconnect_token(self, token_hash: str) -> None:
        """Close the connections that use a revoked token."""
        for connection in list(self.connections.values()):
            if connection.roles.uses(token_hash):
                connection.close()

    def has_observer_slot(self, session_id: str) -> bool:
        """Whether one more client may follow this session."""
        following = sum(connection.is_attached(session_id) for connection in self.connections.values())
        return following < self.limits.observers

    def trust(self, root: str, *, trusted: bool) -> str:
        return self.rulebook.trust.set(root, trusted=trusted)

    def status(self) -> DaemonStatusReply:
        sessions = self.sessions.open_sessions
        running = len(self.sessions.services.running)
        uptime = round(time.monotonic() - self._started, 3)
        known = (PRODUCT_VERSION, uptime, len(sessions), running, len(self.connections))
        places = (self.configuration.current.source, self.web_address, self.web_token_file)
        if self.fleet is None:
            return DaemonStatusReply(*known, *places, self.operations.node)
        return DaemonStatusReply(*known, *places, self.operations.node, tuple(one.info() for one in self.fleet.known))

    def stop(self) -> None:
        """Stop for good, also while handing over."""
        self.operations.handing_over = None
        self.stopping.set()

    def _serve(self, connection: PeerConnection) -> None:
        task = asyncio.get_running_loop().create_task(connection.serve())
        self.connections[task] = connection
        task.add_done_callback(lambda done: self.connections.pop(done, None))

    async def clean_up(self) -> None:
        """Remove from workspaces what a process that was killed has left there."""
        await clean_up(self._own)

    async def close(self) -> None:
        """A clean stop: runs are cancelled or handed over, approvals denied, clients disconnected, the log closed."""
        if self.fleet is not None:
            await self.fleet.hand_over()
        elif self.operations.handing_over is not None:
            await disconnect_all(self.connections)  # what clients ask for now, they ask the next daemon again
            await let_go_of_all(self.sessions)
        await self.sessions.close()
        if self.fleet is not None:
            await self.fleet.close()
        await self.mcp.close()
        await self.agents.close()
        await close_connections(self._own)
        await disconnect_all(self.connections)
        await self.operations.close()
        await self.notifications.close()
        if self.tracing is not None:
            await self.tracing.close()
        if self.memory is not None:
            await self.memory.close()
        if self.checkpoints is not None:
            await self.checkpoints.close()
        self._providers.close()
        await self.log.close()

    async def forget(self, session_id: str) -> None:
        """Remove a deleted session from the list and from memory."""
        self.session_list.remove(session_id)
        self.models.keys.forget(session_id)
        await forget_checkpoints(self.checkpoints, session_id)
        if self.memory is not None:
            await forget_in_memory(self.memory, session_id)

    def _settle(self, started: SessionStarted) -> tuple[SessionStarted, tuple[WarningRaised, ...]]:
        settled, notes = self.agents.settle(started)
        settled, differences = self.models.settle(settled)
        options = started.options
        is_here = ((options.target if options else None) or started.sandbox_provider) in ("local", "confined")
        own = self.rulebook.notes(started.repo.root_path) if is_here and started.repo else ()
        if settled.options is None or settled.options.agent_runtime in (None, NATIVE):
            root = os.path.realpath(started.repo.root_path if started.repo else ".")
            self.mcp.start(started.session_id, root, is_local=is_here)
        return settled, (*notes, *self.configuration.notes(), *differences, *own, *self.rulebook.dead_rules())

    def _place(self, started: SessionStarted) -> Place:
        return place_of(started, self._own, self.rulebook, self.open_files)

    def _backend(self, started: SessionStarted, profile: str | None, model: str | None) -> Backend:
        options = started.options
        other = self.agents.backend(started, model)
        if other is not None:
            return other
        from buddy.backends.native.prompt import PromptSettings
        from buddy.daemon.buddy_agent import BuddyAgent

        named = profile or (None if started.provider == "default" else started.provider)
        agent = self.configuration.current.agent
        instructions = (options.system_prompt if options else None) or agent.system_prompt
        source = self._tool_source(bool(options and options.tmux), *tool_limits(started, self.limits.child_depth))
        project = project_of(started.repo.root_path if started.repo else "", started.user)
        recall = self.memory.recaller(started.session_id, project) if self.memory else None
        place = (self.user_folder, recall, agent.temperature, agent.top_p)
        settings = PromptSettings(instructions, *place, self.log.read_blob)
        try:
            chosen = named, model
            return BuddyAgent(self.models.of(started), source, self.log.has_room, settings, chosen)
        except UserError as error:
            raise ProtocolError("PROVIDER_NOT_CONFIGURED", str(error), detail=error.hint or None) from error

    def _make_source(self, panes: bool, names: tuple[str, ...] | None, may_delegate: bool) -> ToolSource:
        """The tools of one kind of session; all sessions of a kind share the same source."""
        source = self._all_tools if panes else FilteredSource(self._all_tools, without_panes)
        if names is not None or not may_delegate:
            source = FilteredSource(source, narrowed(names, may_delegate=may_delegate))
        return AgentSource(source, self.definitions.find)

    def _use_tools(self, settings: ToolSettings) -> None:
        builtin: ToolSource = FixedSource(toolbox(settings, self._tool_deps))
        self._all_tools = self.texts.with_skills(CombinedSource(builtin, *self._more_tools))
        self._tool_source = functools.lru_cache(KINDS)(self._make_source)

    def _reconfigure(self, config: Config) -> None:
        """Use a changed configuration for what starts from now on."""
        self._use_tools(config.tools)
        self.agents.configure(config)
        self.rulebook.configure(config)
        agent = config.agent
        self.sessions.services = replace(
            self.sessions.services,
            approval_timeout=agent.approval_seconds,
            parks=agent.parks,
            max_turns=agent.max_turns,
        )

    def _hide(self, secret: str) -> None:
        if not self._has_secret(secret):
            self.scrubber.register(secret)

    def _has_secret(self, text: str) -> bool:
        return self.scrubber.registered(text) != text


def _make_services(runtime: Runtime, config: Config, overrides: RuntimeOverrides) -> SessionServices:
    listening = (runtime.session_list, runtime.memory, runtime.tracing, runtime.notifications)
    return SessionServices(
        runtime.log,
        overrides.clock,
        overrides.ids,
        runtime.scrubber,
        approval_timeout=config.agent.approval_seconds,
        parks=config.agent.parks,
        max_turns=config.agent.max_turns,
        permissions=runtime.rulebook.permissions,
        expand=_expander(runtime),
        hooks=make_hooks(runtime.user_folder / "hooks.json", runtime.rulebook.trust),
        boot_clock=overrides.boot_clock,
        checkpoints=runtime.checkpoints,
        stop_children=runtime.children.stop,
        day_limit=runtime.admission.day_costs,
        admit_session=runtime.admission.session,
        listeners=tuple(part.observe for part in listening if part),
    )


def _make_children(runtime: Runtime) -> ChildSessions:
    limits, configuration = runtime.limits, runtime.configuration
    most = ChildLimits(limits.children, limits.child_depth)
    return ChildSessions(most, lambda: profile_names(configuration.current, {}))


def _expander(runtime: Runtime) -> Expand:
    """Prompts and resources of MCP servers, and slash commands from files."""

    async def expand(text: str, place: Place, *, runs_commands: bool) -> "Expansion | None":
        found = await runtime.mcp.expand(text, place.root, is_local=place.target.name == "local")
        if found is not None:
            from buddy.tools.skills.expansion import Expansion

            return Expansion(found)
        return await runtime.texts.expand(text, place, runs_commands=runs_commands) if text.startswith("/") else None

    return expand


def _make_mcp(runtime: Runtime, env: Mapping[str, str], places: Places) -> DeferredMcp:
    def is_open(session_id: str) -> bool:
        return runtime.sessions.live(session_id) is not None

    def hide(secret: str) -> None:
        if runtime.scrubber.registered(secret) == secret:
            runtime.scrubber.register(secret)

    configuration, trust = runtime.configuration, runtime.rulebook.trust
    about = (lambda: configuration.current, env, this_owner(), trust.is_trusted, is_open, hide)
    return DeferredMcp(McpHost(*about, places.config_dir, places.state_dir))


def _open_log(places: Places, clock: Callable[[], int]) -> Log:
    from buddy.log.sqlite import SqliteLog

    return SqliteLog.open(places.state_dir, clock)

"""External agents: which are available, which one a session gets, and the backend for it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from buddy.backends.choose import ACP, AUTO, NATIVE, OTHERS, Choice, choose
from buddy.config.places import Places
from buddy.config.settings import Config
from buddy.daemon.projects import Project, Projects
from buddy.errors import ProtocolError, UserError
from buddy.protocol.events import SessionStarted, WarningRaised
from buddy.protocol.requests import AgentRuntimes
from buddy.protocol.shapes import SessionOptions
from buddy.sessions.pinning import is_on_this_machine
from buddy.targets.contract import Target

UNSAFE = "{} was started with --unsafe-agent: it may do what was denied, or more than plan"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from buddy.backends.external.adapter import ExternalBackend
    from buddy.backends.external.contract import Agent
    from buddy.backends.external.pool import AgentPool
    from buddy.backends.native.loaded_images import ReadBlob

    MakeAgent = Callable[[], Agent]


class Agents:
    """The agents of one daemon. Their packages are imported when a session first uses one."""

    def __init__(
        self,
        config: Config,
        places: Places,
        env: Mapping[str, str],
        projects: Projects,
        has_room: Callable[[], bool],
        own: "Mapping[str, MakeAgent] | None" = None,
        read_blob: "ReadBlob | None" = None,
    ) -> None:
        """`own` are the agents of the program that Buddy runs in, by name; each is made once per target."""
        self.projects = projects
        self._own = own or {}
        self._places = places
        self.configure(config)
        self._env = env
        self._has_room = has_room
        self._read_blob = read_blob
        self._pool: AgentPool | None = None

    def configure(self, config: Config) -> None:
        """Use this configuration for sessions that start from now on."""
        self._default = config.server.agent_runtime
        self._folders = credential_folders(config, self._places)

    def settle(self, started: SessionStarted) -> tuple[SessionStarted, tuple[WarningRaised, ...]]:
        """The session's start with its backend fixed, and a warning if the user should know why."""
        options = started.options
        root = started.repo.root_path if started.repo else ""
        chosen = options.agent_runtime if options else None
        project = None if chosen else self.projects.nearest(root, started.user)
        asked = chosen or (project.agent_runtime if project else None) or self._default
        if asked == NATIVE:
            return started, ()
        choice = self._choose(asked, started)
        if project is not None and project.agent_runtime and is_on_this_machine(started):
            self._check_project(project, choice.name)
        fixed = msgspec.structs.replace(options or SessionOptions(), agent_runtime=choice.name)
        notes = [WarningRaised(code="AGENT_RUNTIME", message=choice.note)] if choice.note else []
        if fixed.unsafe_agent and choice.name != NATIVE:
            notes.append(WarningRaised(code="UNSAFE_AGENT", message=UNSAFE.format(choice.name)))
        return msgspec.structs.replace(started, options=fixed), tuple(notes)

    def backend(self, started: SessionStarted, model: str | None) -> "ExternalBackend | None":
        """The backend of a session that an external agent runs; None for the native one."""
        options = started.options
        name = (options.agent_runtime if options else None) or NATIVE
        if name == NATIVE:
            return None
        from buddy.backends.external.adapter import AgentOptions, ExternalBackend
        from buddy.backends.external.pool import AgentPool

        if "confined" in (started.sandbox_provider, options.sandbox if options else None):
            raise ProtocolError("SANDBOX_UNAVAILABLE", f"{name} cannot be confined; use a container, or host")
        try:
            agent = self._make(name)
        except UserError as error:
            raise ProtocolError("INVALID_REQUEST", str(error), detail=error.hint or None) from error
        if is_on_this_machine(started):
            _check_available(agent)
        pool = self._pool = self._pool or AgentPool(self._make)
        options = AgentOptions(
            bool(options and options.plan),
            model or (options.model if options else None),
            options.system_prompt if options else None,
            agent.reports_cost,
            bool(options and options.unsafe_agent),
            name.startswith(ACP),
        )

        async def start_agent(target: Target, root: str) -> "Agent":
            return await pool.start_agent(name, target, root)

        return ExternalBackend(name, started.session_id, start_agent, options, self._has_room, self._read_blob)

    def warn_about(self, project: Project) -> str | None:
        """Why sessions in a project cannot start as things are."""
        if project.agent_runtime in (None, NATIVE, AUTO):
            return None
        try:
            self._make(project.agent_runtime).check()
        except UserError as error:
            return f"sessions in {project.root_path} will fail: {error}" + (f" ({error.hint})" if error.hint else "")
        return None

    def _check_project(self, project: Project, name: str) -> None:
        """Refuse an agent that is not available, naming the project that chose it."""
        if name == NATIVE:
            return
        try:
            self._make(name).check()
        except UserError as error:
            change = f"buddy project set {project.name} --agent-runtime native"
            raise ProtocolError(
                "PROVIDER_NOT_CONFIGURED",
                f"{error}; the project {project.name} ({project.root_path}) uses {name}",
                detail=f"{error.hint}; or change the project: {change}" if error.hint else change,
            ) from error

    def runtimes(self) -> AgentRuntimes:
        names = (name for name in self.names() if self._make(name).is_available)
        return AgentRuntimes((NATIVE, *names), self._default)

    def names(self) -> tuple[str, ...]:
        """All agents that have a name, but for the native one."""
        from buddy.backends.acp.presets import PRESETS

        return (*self._own, *OTHERS, *(f"{ACP}{preset}" for preset in PRESETS if preset not in OTHERS))

    def missing(self) -> dict[str, tuple[str, str]]:
        """The agents that cannot be used here, the default one among them: why, and what to do about it."""
        found: dict[str, tuple[str, str]] = {}
        default = () if self._default in (AUTO, NATIVE) else (self._default,)
        for name in dict.fromkeys((*default, *self.names())):
            try:
                self._make(name).check()
            except UserError as error:
                found[name] = str(error), error.hint
        return found

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    def _choose(self, asked: str, started: SessionStarted) -> Choice:
        if asked in self._own:
            return Choice(asked)
        try:
            return choose(
                asked,
                prefers_droid=lambda: bool(self._factory_key()),
                is_installed=lambda name: is_on_this_machine(started) and self._make(name).is_available,
            )
        except UserError as error:
            raise ProtocolError("INVALID_REQUEST", str(error), detail=error.hint or None) from error

    def _factory_key(self) -> str:
        from buddy.backends.droid.credentials import factory_key

        return factory_key(self._env, *self._folders)

    def _make(self, name: str) -> "Agent":
        if name in self._own:
            return self._own[name]()
        from buddy.approvals.trust import Trust

        salt, is_trusted = str(self._places.state_dir), Trust(self._places.state_dir).is_trusted
        if name == "droid":
            from buddy.backends.droid.agent import Droid

            return Droid(self._env, *self._folders, salt=salt, is_trusted=is_trusted)
        if name == "opencode":
            from buddy.backends.opencode.agent import OpenCode

            return OpenCode(self._env, salt=salt, is_trusted=is_trusted)
        from buddy.backends.acp.agent import Acp

        return Acp(name.removeprefix(ACP), self._env, is_trusted)


def credential_folders(config: Config, places: Places) -> tuple[Path, ...]:
    """Where the files with credentials of other agents are: next to the configuration that is used."""
    beside = (Path(config.source).parent,) if config.source else ()
    return tuple(dict.fromkeys((*beside, places.config_dir)))


def _check_available(agent: "Agent") -> None:
    """Refuse an agent that could not start here before a session is created for it."""
    try:
        agent.check()
    except UserError as error:
        raise ProtocolError("PROVIDER_NOT_CONFIGURED", str(error), detail=error.hint or None) from error

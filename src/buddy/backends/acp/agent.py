"""Any agent that speaks the Agent Client Protocol over stdin and stdout, by command or preset name."""

import asyncio
import shlex
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from buddy.backends.acp.presets import PRESETS
from buddy.backends.external.contract import AgentRequest, AgentResult, Executor, once
from buddy.errors import ProviderError, UserError
from buddy.targets.contract import Target
from buddy.targets.programs import start_program


class Acp:
    """Satisfies `Agent`: each conversation has its own process, so nothing is started in advance."""

    reports_cost = False

    def __init__(
        self, command: str, env: Mapping[str, str], is_trusted: Callable[[str], bool] = lambda _: False
    ) -> None:
        """`is_trusted` says whether a folder's own settings for the agent may take effect."""
        preset = PRESETS.get(command)
        self.name = f"acp:{command}"
        self._install = preset.install if preset else "use a command that is on the PATH"
        self._login = preset.login if preset else "log in with the agent's own program"
        try:
            self._words = shlex.split(preset.command if preset else command)
        except ValueError as error:
            raise UserError(f"acp:{command[:80]} is not a valid command: {error}", hint="check the quoting") from error
        self._env = env
        self._command = command
        self._settings = preset.settings if preset else ()
        self._is_trusted = is_trusted
        self._environment = _opencode_environment() if command == "opencode" else {}
        self._target: Target | None = None

    @property
    def is_available(self) -> bool:
        try:
            self.check()
        except UserError:
            return False
        return True

    def check(self) -> None:
        if find_spec("acp") is None:
            raise UserError(
                "ACP agents require a package that is not installed", hint="pip install '.[acp]' in Buddy's clone"
            )
        self._program()

    def _program(self) -> str:
        found = shutil.which(self._words[0], path=self._env.get("PATH")) if self._words else None
        if found is None:
            raise UserError(f"{self.name}: {' '.join(self._words[:1])} is not installed", hint=self._install)
        return found

    async def start(self, target: Target, project: str) -> None:  # noqa: ARG002 - the contract's
        if find_spec("acp") is None:
            self.check()
        # Importing takes half a second and must not block the event loop.
        await asyncio.to_thread(__import__, "acp.connection")
        self._target = target

    async def execute(self, request: AgentRequest) -> Executor:
        if self._target is None:
            raise ProviderError(f"{self.name} was not started", retryable=False)
        from buddy.backends.acp.session import AcpSession

        await self._check_folder(self._target, request)
        words = [self._program(), *self._words[1:]] if self._target.name == "local" else self._words
        if self._command == "opencode":
            from buddy.backends.opencode.settings import with_guard

            words = with_guard(words)
        elif self._command == "droid":
            from buddy.backends.droid.agent import with_settings

            words = with_settings(words)
        program = await start_program(self._target, words, cwd=request.cwd, nonce=request.nonce, env=self._environment)
        session = AcpSession(program, self.name, self._login)
        try:
            await session.open(request)
        except BaseException:
            await session.close()
            raise
        if request.text:
            await session.send_message(request.text)
        return session

    async def _check_folder(self, target: Target, request: AgentRequest) -> None:
        """Agents known to run a repository's own code without asking only start in trusted folders."""
        if self._command == "opencode":
            from buddy.backends.opencode.repository import check_repository

            home = self._env.get("HOME", "")
            await check_repository(target, request.cwd, request.nonce, home, self._is_trusted)
        elif self._command == "droid":
            from buddy.backends.droid.project import check_project

            await check_project(target, request.cwd, self._is_trusted)
        elif self._settings:
            from buddy.backends.droid.project import check_project

            await check_project(target, request.cwd, self._is_trusted, self._command, self._settings)

    async def is_priced(self, model: str | None, cwd: str) -> bool:  # noqa: ARG002 - the contract's
        return self.reports_cost

    async def execute_once(self, request: AgentRequest) -> AgentResult:
        return await once(self, request)

    async def ping(self) -> None:
        """Each conversation has its own process; there is nothing to ping."""

    async def close(self) -> None:
        """Each conversation closes its own process."""


def _opencode_environment() -> dict[str, str]:
    """The settings that make OpenCode ask; by default it runs commands and edits files without asking."""
    from buddy.backends.opencode.settings import environment

    return {name: value for name, value in environment("").items() if "_SERVER_" not in name}

"""Droid as an agent: each conversation is its own process that speaks JSON-RPC over stdin and stdout.

Invariants: it always asks (autonomy is off, and commands it would run unasked are put on its denylist, which makes it
ask); a key reaches a process through its environment only.
"""

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from buddy.approvals.digest import nonce_of
from buddy.backends.droid.credentials import KEY, factory_key, has_own_credentials
from buddy.backends.droid.project import check_project
from buddy.backends.droid.session import DroidSession
from buddy.backends.external.contract import AgentRequest, AgentResult, once
from buddy.errors import ProviderError, UserError
from buddy.targets.cancellation import finish_despite_cancel
from buddy.targets.contract import Target
from buddy.targets.programs import runs_locally, start_program

INSTALL = "npm install -g droid"
CHECK_SECONDS = 30.0
ARGUMENTS = ("exec", "--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc")
# Droid runs a few commands that it considers harmless without asking, including `git` with any options, which can run
# anything. It asks before it runs a command on its denylist.
_SETTINGS = '{"commandDenylist":["git","ls","dir","pwd"]}'
# The settings must be a file on the target: in the user's cache, always the same, replaced atomically.
_SHELL = (
    'folder=${XDG_CACHE_HOME:-$HOME/.cache}/buddy && mkdir -p "$folder" && printf %s "$1" >"$folder/droid.json.$$" && '
    'mv -f "$folder/droid.json.$$" "$folder/droid.json" && shift && '
    'FACTORY_RUNTIME_SETTINGS_PATH=$folder/droid.json exec "$@"'
)


def with_settings(words: Sequence[str]) -> list[str]:
    """The command that starts Droid with our settings in place, on any target."""
    return ["sh", "-c", _SHELL, "sh", _SETTINGS, *words]


class Droid:
    """Satisfies `Agent`; `program` is looked up on the PATH of `env` by default."""

    name = "droid"
    reports_cost = False

    def __init__(
        self,
        env: Mapping[str, str],
        *folders: Path,
        salt: str = "",
        program: str | None = None,
        is_trusted: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`is_trusted` says whether a folder's own settings for Droid may take effect.

        A `factory.json` is looked for in `folders`.
        """
        self._env = env
        self._folders = folders
        self._machine_id = nonce_of(salt, self.name)
        self._program = program or self.name
        self._is_trusted = is_trusted
        self._target: Target | None = None
        self._sessions: set[DroidSession] = set()

    @property
    def is_available(self) -> bool:
        try:
            self.check()
        except UserError:
            return False
        return True

    def check(self) -> None:
        if self._find_program() is None:
            raise UserError(f"the program {self._program} was not found", hint=INSTALL)
        if not factory_key(self._env, *self._folders) and not has_own_credentials(self._env):
            raise UserError(
                f"droid has no credentials: {KEY} is not set",
                hint=f"set {KEY}, or write it to {self._folders[0] / 'factory.json'} as api_key, or log in with droid",
            )

    async def start(self, target: Target, project: str) -> None:
        if runs_locally(target):
            self.check()
        else:
            await self._check_remote(target, project)
        self._target = target

    async def execute(self, request: AgentRequest) -> DroidSession:
        target = self._ready()
        await check_project(target, request.cwd, self._is_trusted)
        program = await start_program(
            target,
            self._words(target, request.cwd),
            cwd=request.cwd,
            nonce=request.nonce,
            env=self._environment(target),
        )
        session = DroidSession(program, plan=request.plan)
        self._sessions = {known for known in self._sessions if not known.is_closed} | {session}
        opened = False
        try:
            await session.open(request, self._machine_id)
            opened = True
        finally:
            if not opened:
                await finish_despite_cancel(session.close())
        if request.text:
            await session.send_message(request.text)
        return session

    async def is_priced(self, model: str | None, cwd: str) -> bool:  # noqa: ARG002 - the contract's
        return self.reports_cost

    async def execute_once(self, request: AgentRequest) -> AgentResult:
        return await once(self, request)

    async def ping(self) -> None:
        """Conversations share nothing: being started is enough."""
        self._ready()

    async def close(self) -> None:
        self._target = None
        sessions, self._sessions = self._sessions, set()
        for session in sessions:
            await session.close()

    def _ready(self) -> Target:
        if self._target is None:
            raise ProviderError("droid was not started", retryable=False)
        return self._target

    def _find_program(self) -> str | None:
        return shutil.which(self._program, path=self._env.get("PATH"))

    def _words(self, target: Target, cwd: str) -> list[str]:
        program = (self._find_program() if runs_locally(target) else None) or self._program
        return with_settings([program, *ARGUMENTS, "--cwd", cwd])

    def _environment(self, target: Target) -> dict[str, str]:
        """Its own variables, plus this machine's if it runs locally."""
        env = {name: value for name, value in self._env.items() if name.startswith("FACTORY_")}
        if runs_locally(target):
            env |= {name: self._env[name] for name in ("HOME", "PATH") if name in self._env}
        if key := factory_key(self._env, *self._folders):
            env[KEY] = key
        return {**env, "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"}

    async def _check_remote(self, target: Target, project: str) -> None:
        async def ignore(stream: str, data: bytes) -> None:
            del stream, data

        command = f"command -v {shlex.quote(self._program)}"
        nonce = nonce_of(self._machine_id, target.name)
        found = await target.run(command, cwd=project, nonce=nonce, on_output=ignore, timeout=CHECK_SECONDS)
        if found.exit_code != 0:
            raise UserError(
                f"the program {self._program} was not found on {target.name}", hint=f"on {target.name}: {INSTALL}"
            )

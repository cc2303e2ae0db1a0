"""A runtime in this process and clients of it: how most tests drive the system as its users do.

Invariants: at the end of a `checked_host`, each log passes the offline checker and every open session's state equals
the one that is folded from its log.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from buddy.client.client import Client
from buddy.config.mcp import McpSettings
from buddy.config.places import Places
from buddy.config.resolve import Resolved
from buddy.config.settings import AgentSettings, Config, Profile
from buddy.daemon.boot_clock import boot_time
from buddy.daemon.runtime import Runtime, RuntimeOverrides, unix_ms
from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.log.owners import this_owner
from buddy.models.catalog import configured_facts
from buddy.models.contract import Provider
from buddy.models.script import Script, ScriptedReply
from buddy.models.scripted import Scripted
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody
from buddy.protocol.ids import Ulids
from buddy.protocol.requests import SendUserMessage, StartSession
from buddy.protocol.shapes import BootTime, Criterion, Repo, RunOptions, SessionOptions
from tests.harness.checker import Recorded, check
from tests.harness.logs import read_all, refold, types_of
from tests.harness.models import StepModel

Body = TypeVar("Body", bound=EventBody)

ids = Ulids()


class RuntimeHost:
    """A runtime and its workspace."""

    def __init__(self, runtime: Runtime, workspace: Path) -> None:
        self.runtime = runtime
        self.workspace = workspace

    @asynccontextmanager
    async def client(self, name: str = "cli") -> AsyncGenerator["RuntimeClient"]:
        async with Client(self.runtime.connect(), name) as client:
            yield RuntimeClient(client, self.workspace)


class RuntimeClient:
    """A client, with what it has received so far."""

    def __init__(self, client: Client, workspace: Path) -> None:
        self.api = client
        self.workspace = workspace
        self.received: list[Event] = []
        self.session_id = ""
        self.token = ""
        self._events = client.events()

    async def start(self, mode: str = "interactive", **options: Any) -> str:
        request = StartSession(
            "headless" if mode == "headless" else "interactive",
            "default",
            "local",
            Repo(str(self.workspace)),
            options=SessionOptions(**options) if options else None,
        )
        started = await self.api.start_session(request)
        self.session_id, self.token = started.session_id, started.attach_token
        return started.session_id

    async def send(
        self,
        text: str,
        *,
        message_id: str | None = None,
        accept: Sequence[Criterion] = (),
        options: RunOptions | None = None,
    ) -> str:
        message = SendUserMessage(self.session_id, message_id or ids("msg"), text, tuple(accept), options)
        return await self.api.send(message)

    async def wait_for(self, kind: type[Body], where: Callable[[Body], bool] = lambda _: True) -> Body:
        """Receive until an event of this kind arrives, and return it."""
        async for event in self._events:
            self.received.append(event)
            body = event.body()
            if isinstance(body, kind) and where(body):
                return body
        raise AssertionError(f"the connection ended before a {kind.__name__}")

    def types(self) -> list[str]:
        """The types of what was received, but for those that report progress."""
        return types_of(self.received)

    def bodies(self, kind: type[Body]) -> list[Body]:
        return [body for event in self.received if isinstance(body := event.body(), kind)]


@asynccontextmanager
async def scripted_host(
    workspace: Path,
    *replies: ScriptedReply,
    log: Log | None = None,
    provider: Callable[[Resolved], Provider] | None = None,
    agent: AgentSettings | None = None,
    overrides: RuntimeOverrides | None = None,
    env: Mapping[str, str] | None = None,
    profiles: Mapping[str, Profile] | None = None,
    mcp: McpSettings | None = None,
    limits: Mapping[str, object] | None = None,
) -> AsyncGenerator[RuntimeHost]:
    """A runtime whose model gives these replies in order."""
    runtime = make_runtime(
        workspace,
        *replies,
        log=log,
        provider=provider,
        agent=agent,
        overrides=overrides,
        env=env,
        profiles=profiles,
        mcp=mcp,
        limits=limits,
    )
    try:
        yield RuntimeHost(runtime, workspace)
    finally:
        await runtime.close()


@asynccontextmanager
async def checked_host(
    workspace: Path,
    model: StepModel,
    *,
    log: Log | None = None,
    clock: Callable[[], int] = unix_ms,
    boot_clock: Callable[[], BootTime | None] = boot_time,
    agent: AgentSettings | None = None,
    env: Mapping[str, str] | None = None,
    profiles: Mapping[str, Profile] | None = None,
    mcp: McpSettings | None = None,
    pruned: bool = False,
) -> AsyncGenerator[RuntimeHost]:
    """A runtime with this model, checked at the end; `pruned`: the beginning of its log is deleted on the way."""
    overrides = RuntimeOverrides(
        clock=clock, boot_clock=boot_clock, log=log or MemoryLog(clock), provider=lambda _: model
    )
    async with scripted_host(workspace, overrides=overrides, agent=agent, env=env, profiles=profiles, mcp=mcp) as host:
        yield host
        await check_host(host, pruned=pruned)


def make_runtime(
    workspace: Path,
    *replies: ScriptedReply,
    log: Log | None = None,
    provider: Callable[[Resolved], Provider] | None = None,
    agent: AgentSettings | None = None,
    overrides: RuntimeOverrides | None = None,
    env: Mapping[str, str] | None = None,
    profiles: Mapping[str, Profile] | None = None,
    mcp: McpSettings | None = None,
    limits: Mapping[str, object] | None = None,
) -> Runtime:
    script = Script(replies=replies)
    known = {"test": Profile(api="scripted"), "other": Profile(api="scripted", model="other-model")}
    config = Config(models={**known, **(profiles or {})}, agent=agent or AgentSettings(model="test"))
    config = replace(config, limits=dict(limits or {}))
    if mcp is not None:
        config = replace(config, mcp=mcp)
    places = Places(workspace / "config", workspace / "state", workspace / "socket")

    def scripted(resolved: Resolved) -> Provider:
        prices = configured_facts(resolved).prices
        return Scripted(resolved.profile, script, model=resolved.model or "scripted", prices=prices)

    chosen = overrides or RuntimeOverrides(log=log or MemoryLog(unix_ms), provider=provider or scripted)
    return Runtime(config, places, env or {}, chosen)


async def check_host(host: RuntimeHost, *, pruned: bool = False) -> None:
    """Fail unless every open session's log is sound and gives the state that is live."""
    log = host.runtime.log
    for session in host.runtime.sessions.open_sessions:
        if session.broken:
            continue
        while True:  # a queued message may just have started a run: compare once nothing is pending
            await session.journal.commit()
            events = await read_all(log, session.session_id)
            folded = await refold(log, events)
            if events[-1].seq >= session.journal.last_seq:
                break
        if events[-1].seq > session.journal.last_seq:
            continue  # another host has continued it since
        assert folded == session.fold
        if not pruned:
            assert check(Recorded({session.session_id: events}, complete=session.fold.run is None)) == []


async def crash(host: RuntimeHost, session_id: str) -> None:
    """Make the session look as if its process died: nothing more of it is written to the log."""
    session = host.runtime.sessions.live(session_id)
    assert session is not None
    await session.journal.commit()
    await host.runtime.log.acquire(session_id, this_owner())
    session.broken = True  # as it would find out with its next append


async def recorded_types(host: RuntimeHost, session_id: str) -> list[str]:
    """The types of everything in the log, but for those that report progress."""
    return types_of(await read_all(host.runtime.log, session_id))

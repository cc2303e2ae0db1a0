"""A runtime with a scripted model, and clients of it: how tests drive the system as its users do."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from buddy.client.client import Client
from buddy.config.places import Places
from buddy.config.resolve import Resolved
from buddy.config.settings import AgentSettings, Config, Profile
from buddy.daemon.runtime import Runtime, RuntimeOverrides, unix_ms
from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.models.contract import Provider
from buddy.models.script import Script, ScriptedCall, ScriptedReply
from buddy.models.scripted import Scripted
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody
from buddy.protocol.ids import Ulids
from buddy.protocol.requests import SendUserMessage, StartSession
from buddy.protocol.shapes import Criterion, Repo, RunOptions, SessionOptions

Body = TypeVar("Body", bound=EventBody)

ids = Ulids()


def says(text: str = "", **more: Any) -> ScriptedReply:
    """A reply of the model without tool calls."""
    return ScriptedReply(text=text, **more)


def calls(*wanted: tuple[str, dict[str, object]], text: str = "", **more: Any) -> ScriptedReply:
    """A reply that calls tools."""
    return ScriptedReply(text=text, calls=tuple(ScriptedCall(name, args) for name, args in wanted), **more)


class House:
    """A runtime, its workspace, and what was received from it."""

    def __init__(self, runtime: Runtime, workspace: Path) -> None:
        self.runtime = runtime
        self.workspace = workspace

    @asynccontextmanager
    async def client(self, name: str = "cli") -> AsyncGenerator["Guest"]:
        async with Client(self.runtime.connect(), name) as client:
            yield Guest(client, self.workspace)


class Guest:
    """A client, with what it has received so far."""

    def __init__(self, client: Client, workspace: Path) -> None:
        self.client = client
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
        started = await self.client.start_session(request)
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
        return await self.client.send(message)

    async def until(self, kind: type[Body], where: Callable[[Body], bool] = lambda _: True) -> Body:
        """Receive until an event of this kind has come, and give it."""
        async for event in self._events:
            self.received.append(event)
            body = event.body()
            if isinstance(body, kind) and where(body):
                return body
        raise AssertionError(f"the connection ended before a {kind.__name__}")

    def types(self) -> list[str]:
        """The types of what was received, without the chatter of phases, progress and status."""
        return [event.type for event in self.received if event.type not in ("phase", "progress", "status")]

    def bodies(self, kind: type[Body]) -> list[Body]:
        return [body for event in self.received if isinstance(body := event.body(), kind)]


@asynccontextmanager
async def house(
    workspace: Path,
    *replies: ScriptedReply,
    log: Log | None = None,
    provider: Callable[[Resolved], Provider] | None = None,
    agent: AgentSettings | None = None,
    parts: RuntimeOverrides | None = None,
    env: Mapping[str, str] | None = None,
    profiles: Mapping[str, Profile] | None = None,
) -> AsyncGenerator[House]:
    """A runtime whose model gives these replies in order."""
    runtime = make_runtime(
        workspace, *replies, log=log, provider=provider, agent=agent, parts=parts, env=env, profiles=profiles
    )
    try:
        yield House(runtime, workspace)
    finally:
        await runtime.close()


def make_runtime(
    workspace: Path,
    *replies: ScriptedReply,
    log: Log | None = None,
    provider: Callable[[Resolved], Provider] | None = None,
    agent: AgentSettings | None = None,
    parts: RuntimeOverrides | None = None,
    env: Mapping[str, str] | None = None,
    profiles: Mapping[str, Profile] | None = None,
) -> Runtime:
    script = Script(replies=replies)
    known = {"test": Profile(api="scripted"), "other": Profile(api="scripted", model="other-model")}
    config = Config(models={**known, **(profiles or {})}, agent=agent or AgentSettings(model="test"))
    places = Places(workspace / "config", workspace / "state", workspace / "socket")
    made = parts or RuntimeOverrides(
        log=log or MemoryLog(unix_ms),
        provider=provider or (lambda resolved: Scripted(resolved.profile, script, model=resolved.model or "scripted")),
    )
    return Runtime(config, places, env or {}, made)

"""OpenCode with a server of the tests' own, and talking to it."""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from buddy.backends.external.contract import (
    AgentEvent,
    AgentRequest,
    Completion,
    Executor,
    Permission,
    PermissionAnswer,
)
from buddy.backends.opencode.agent import OpenCode
from buddy.targets.contract import Target
from buddy.targets.local import Local

FAKE = Path(__file__).parent.parent / "fakes" / "opencode.py"

Decide = Callable[[Permission], PermissionAnswer]


def yes(_: Permission) -> PermissionAnswer:
    return PermissionAnswer(approved=True)


def no(_: Permission) -> PermissionAnswer:
    return PermissionAnswer(approved=False, comment="not that")


def make(salt: str, *program: str, is_trusted: Callable[[str], bool] = lambda _: False) -> OpenCode:
    words = program or (sys.executable, str(FAKE))
    return OpenCode(os.environ, salt=salt, is_trusted=is_trusted, program=words)


@asynccontextmanager
async def serving(place: Path, target: Target | None = None) -> AsyncGenerator[OpenCode]:
    agent = make(str(place))
    await agent.start(target or Local(), str(place))
    try:
        yield agent
    finally:
        await agent.close()


@asynccontextmanager
async def conversation(place: Path) -> AsyncGenerator[Executor]:
    async with serving(place) as agent:
        yield await agent.execute(request(place))


def request(place: Path, text: str = "") -> AgentRequest:
    return AgentRequest(text, str(place), "nonce")


async def tell(executor: Executor, text: str, decide: Decide = yes) -> list[AgentEvent]:
    """Everything that comes of a message, its completion last."""
    await executor.send_message(text)
    return await listen(executor, decide)


async def listen(executor: Executor, decide: Decide = yes) -> list[AgentEvent]:
    came: list[AgentEvent] = []
    async for event in executor.events():
        came.append(event)
        if isinstance(event, Permission):
            await event.reply(decide(event))
        if isinstance(event, Completion):
            return came
    return came


async def until(executor: Executor, kind: type[AgentEvent]) -> AgentEvent:
    async for event in executor.events():
        if isinstance(event, kind):
            return event
    raise AssertionError(f"it ended before a {kind.__name__}")


def kinds(events: list[AgentEvent]) -> list[str]:
    return [type(event).__name__ for event in events]

"""OpenCode with a server of the tests' own, and talking to it."""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from buddy.backends.external.contract import (
    AgentEvent,
    AgentRequest,
    Executor,
)
from buddy.backends.opencode.agent import OpenCode
from buddy.targets.contract import Target
from buddy.targets.local import Local

FAKE = Path(__file__).parent.parent / "fakes" / "opencode.py"


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


def kinds(events: list[AgentEvent]) -> list[str]:
    return [type(event).__name__ for event in events]

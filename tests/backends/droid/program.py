"""A Droid on this machine that is really the fake, and ways to listen to it."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from buddy.approvals.digest import nonce_of
from buddy.backends.droid.agent import Droid
from buddy.backends.external.contract import (
    AgentEvent,
    AgentRequest,
    Completion,
    Executor,
    Permission,
    PermissionAnswer,
)
from buddy.targets.local import Local

FAKE = Path(__file__).parent.parent / "fakes" / "droid.py"

Decide = Callable[[Permission], PermissionAnswer]


def install(folder: Path) -> str:
    """A program `droid` in a folder of its own; the PATH with it."""
    folder.mkdir(exist_ok=True)
    program = folder / "droid"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    known = {"PATH": install(tmp_path / "programs"), "HOME": str(home), "FACTORY_API_KEY": "fk-for-tests"}
    return {**known, "FACTORY_FAKE_RECORD": str(tmp_path / "heard.jsonl"), **more}


def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    return folder


def agent_request(tmp_path: Path, text: str = "", **more: Any) -> AgentRequest:
    return AgentRequest(text, str(workspace(tmp_path)), nonce_of(str(tmp_path), "droid"), **more)


@asynccontextmanager
async def droid(tmp_path: Path, **env: str) -> AsyncGenerator[Droid]:
    agent = Droid(environment(tmp_path, **env), tmp_path / "config")
    await agent.start(Local(), str(workspace(tmp_path)))
    try:
        yield agent
    finally:
        await agent.close()


@asynccontextmanager
async def conversation(tmp_path: Path, mode: str = "", **more: Any) -> AsyncGenerator[Executor]:
    async with droid(tmp_path, FACTORY_FAKE=mode) as agent:
        yield await agent.execute(agent_request(tmp_path, **more))


async def listen(executor: Executor, decide: Decide | None = None) -> list[AgentEvent]:
    """All events up to the next completion, or to the end."""
    heard: list[AgentEvent] = []
    async for event in executor.events():
        heard.append(event)
        if isinstance(event, Permission) and decide is not None:
            await event.reply(decide(event))
        if isinstance(event, Completion):
            break
    return heard


async def ask(executor: Executor, text: str, decide: Decide | None = None) -> list[AgentEvent]:
    await executor.send_message(text)
    return await listen(executor, decide)


async def until(executor: Executor, kind: type[AgentEvent]) -> AgentEvent:
    async for event in executor.events():
        if isinstance(event, kind):
            return event
    raise AssertionError(f"the events ended before a {kind}")


def yes(_: Permission) -> PermissionAnswer:
    return PermissionAnswer(approved=True)


def no(_: Permission) -> PermissionAnswer:
    return PermissionAnswer(approved=False, comment="use tea")


def requests(tmp_path: Path, method: str = "") -> list[dict[str, Any]]:
    """What the program was sent."""
    lines = [json.loads(line) for line in (tmp_path / "heard.jsonl").read_text().splitlines()]
    return [line for line in lines if line.get("method", "").endswith(method)] if method else lines

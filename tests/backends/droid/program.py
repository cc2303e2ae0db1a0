"""A fake Droid program on this machine, and helpers to talk to it."""

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from buddy.approvals.digest import nonce_of
from buddy.backends.droid.agent import Droid
from buddy.backends.external.contract import (
    AgentRequest,
    Executor,
)
from buddy.targets.local import Local

FAKE = Path(__file__).parent.parent / "fakes" / "droid.py"


def install(folder: Path) -> str:
    """Install the fake as `droid` in `folder`; returns a PATH that includes it."""
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


def requests(tmp_path: Path, method: str = "") -> list[dict[str, Any]]:
    """The requests that the program received."""
    lines = [json.loads(line) for line in (tmp_path / "heard.jsonl").read_text().splitlines()]
    return [line for line in lines if line.get("method", "").endswith(method)] if method else lines

"""One command language for all backends: which backend a test uses, and how each is made to obey a message.

A message is a word and its rest: `say`, `look FILE`, `run COMMAND`, `wait`, `die`, `recall`. The agents under `fakes/`
understand it, and so does the model that our own agent is given here.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from buddy.config.places import Places
from buddy.config.settings import AgentSettings, Config, Profile, ServerSettings
from buddy.daemon.runtime import Runtime, RuntimeOverrides, unix_ms
from buddy.errors import ProviderError
from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.models.contract import Piece, Prompt, Reply, TextDelta, TokenUsage, ToolItem, UserItem
from buddy.protocol.shapes import ToolCallItem
from tests.harness.runtime import RuntimeHost, check_host

FAKES = Path(__file__).parent / "fakes"


class Agent(Struct, frozen=True):
    """A backend under test: its agent runtime, the program on the PATH and its environment."""

    name: str
    runtime: str | None = None
    script: str = ""
    env: dict[str, str] = {}


AGENTS = (
    Agent("native"),
    Agent("droid", runtime="droid", script="droid.py", env={"FACTORY_API_KEY": "fk-not-a-real-key"}),
    Agent("opencode", runtime="opencode", script="opencode.py"),
    Agent("acp", runtime=f"acp:{sys.executable} {FAKES / 'acp.py'}"),
)


class CommandModel:
    """A model that understands the commands, for the native agent."""

    profile = "test"
    model = "commands"
    api = "scripted"
    context_limit = 128_000

    def __init__(self) -> None:
        self._calls = 0

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        last = prompt.items[-1]
        if isinstance(last, ToolItem):
            text = "went on" if "unknown" in last.text else "done"
            yield TextDelta(text)
            yield Reply(text, (), "stop", usage=TokenUsage(20, 10))
            return
        said = [item.text for item in prompt.items if isinstance(item, UserItem)]
        word, _, rest = said[-1].partition(" ")
        call: tuple[str, dict[str, str]] | None = None
        text = ""
        match word:
            case "look":
                call = "read_file", {"path": rest}
            case "run":
                call = "run_shell", {"command": rest}
            case "wait":
                yield TextDelta("waiting for it\n")
                await asyncio.Event().wait()
            case "die":
                raise ProviderError("the model met its end", retryable=False)
            case "recall":
                text = f"{len(said) - 1} before"
            case _:
                text = rest
        for piece in text.split(" ") if text else ():
            yield TextDelta(f"{piece} ")
        calls: tuple[ToolCallItem, ...] = ()
        if call is not None:
            self._calls += 1
            calls = (ToolCallItem(f"call-{self._calls}-{id(self)}", call[0], msgspec.json.encode(call[1]).decode()),)
        yield Reply(f"{text} " if text else "", calls, "tool_calls" if calls else "stop", usage=TokenUsage(20, 10))

    async def close(self) -> None:
        """Nothing to close."""


def runtime_of(agent: Agent, workspace: Path, log: Log | None = None, *, more: dict[str, str] | None = None) -> Runtime:
    """A runtime for this backend; with the log of another runtime, it continues after that one."""
    programs = workspace.parent / f"{workspace.name}-programs"
    programs.mkdir(exist_ok=True)
    if agent.script:
        program = programs / agent.name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKES / agent.script}" "$@"\n')
        program.chmod(0o755)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **agent.env, **(more or {})}
    profiles = {"test": Profile(api="scripted")}
    config = Config(profiles, AgentSettings(model="test"), server=ServerSettings(agent.runtime or "native"))
    places = Places(programs / "config", programs / "state", programs / "socket")
    overrides = RuntimeOverrides(log=log or MemoryLog(unix_ms), provider=lambda _: CommandModel())
    return Runtime(config, places, env, overrides)


@asynccontextmanager
async def agent_host(
    agent: Agent, workspace: Path, log: Log | None = None, *, more: dict[str, str] | None = None
) -> AsyncGenerator[RuntimeHost]:
    """A running service for this backend; at the end its log must pass the checker."""
    runtime = runtime_of(agent, workspace, log, more=more)
    host = RuntimeHost(runtime, workspace)
    try:
        yield host
        await check_host(host)
    finally:
        await runtime.close()

"""The smallest agent with pydantic-ai: `python with_pydantic_ai.py BASE_URL PROMPTS`, prompts (one per line) at once.

It is run by the interpreter of its own environment, where its library is.
"""
# Our environment does not have that library.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import asyncio
import subprocess
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits


def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


def run_shell(command: str) -> str:
    """Run a command."""
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False).stdout


async def main(base_url: str, prompts: list[str]) -> None:
    model = OpenAIChatModel("bench", provider=OpenAIProvider(base_url=base_url, api_key="x"))
    agent = Agent(model, tools=[read_file, run_shell])

    async def show(_: object, events: object) -> None:
        async for _event in events:  # type: ignore[attr-defined] - installed for measurements only
            pass

    async def run(prompt: str) -> str:
        done = await agent.run(prompt, event_stream_handler=show, usage_limits=UsageLimits(request_limit=None))
        return done.output

    for answer in await asyncio.gather(*(run(prompt) for prompt in prompts)):
        print(answer)


asyncio.run(main(sys.argv[1], sys.argv[2].split("\n")))

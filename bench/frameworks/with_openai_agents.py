"""The smallest agent with openai-agents: `with_openai_agents.py BASE_URL PROMPTS`, prompts (one per line) at once.

It is run by the interpreter of its own environment, where its library is.
"""
# Our environment does not have that library.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import asyncio
import subprocess
import sys
from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI


@function_tool
def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


@function_tool
def run_shell(command: str) -> str:
    """Run a command."""
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False).stdout


async def main(base_url: str, prompts: list[str]) -> None:
    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("bench", AsyncOpenAI(base_url=base_url, api_key="x"))
    agent = Agent("bench", model=model, tools=[read_file, run_shell])

    async def run(prompt: str) -> str:
        running = Runner.run_streamed(agent, prompt, max_turns=100_000)
        async for _ in running.stream_events():
            pass
        return str(running.final_output)

    for answer in await asyncio.gather(*(run(prompt) for prompt in prompts)):
        print(answer)


asyncio.run(main(sys.argv[1], sys.argv[2].split("\n")))

"""How one model call's prompt is built: instructions, tools, history."""

import os

from buddy.backends.contract import Run
from buddy.backends.native.transcript import Transcript
from buddy.models.contract import Prompt, ToolSpec

SYSTEM = """\
You are Buddy, an agent that works in a person's workspace through tools.
Workspace: {root} on {target}. Sandbox: {sandbox}.
Work step by step: look before you change, change little, check what you did. A tool result that begins with \
"Tool execution failed" tells you what to correct. When a result says that its outcome is unknown, find out what \
happened before you repeat anything. When the task is done, answer in plain text without calling a tool.
"""


def build_prompt(run: Run, transcript: Transcript, tools: tuple[ToolSpec, ...], instructions: str) -> Prompt:
    place = run.place
    system = SYSTEM.format(root=place.root, target=place.target.name, sandbox=place.sandbox)
    if instructions:
        system += f"\n{instructions}\n"
    return Prompt(system=system, items=transcript.closed(), tools=tools)


def estimate_tokens(prompt_bytes: int) -> int:
    """About four bytes to a token."""
    return prompt_bytes // 4 + 1


def agents_text(root: str) -> str:
    """The workspace's AGENTS.md: text for the model, without power over policy."""
    for name in ("AGENTS.md", "CLAUDE.md"):
        try:
            with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:  # noqa: PTH118, PTH123
                return file.read(65536)
        except OSError:
            continue
    return ""

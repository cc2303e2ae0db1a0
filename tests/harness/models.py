"""Models for tests: one that takes a step at a time, and the replies of scripted ones."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from buddy.models.contract import Item, Piece, Prompt, Reply, TextDelta, TokenUsage, ToolItem, UserItem
from buddy.models.script import ScriptedCall, ScriptedReply
from buddy.protocol.shapes import ToolCallItem

#: Stream a piece, wait until an event is set, or fail.
Step = Piece | asyncio.Event | Exception
Turn = Sequence[Step]

_call_numbers = itertools.count(1)


class StepModel:
    """A model that performs the given steps, one sequence per turn.

    `received` is what it was sent, turn by turn; `waiting` is set whenever it waits for an event.
    """

    profile = "test"
    model = "step-by-step"
    api = "scripted"
    context_limit = 128_000

    def __init__(self, *turns: Turn) -> None:
        self.received: list[list[Item]] = []
        self.images: list[Mapping[str, bytes]] = []
        self.waiting = asyncio.Event()
        self._turns = turns

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        self.received.append(list(prompt.items))
        self.images.append(prompt.images)
        if len(self.received) > len(self._turns):
            raise AssertionError(f"the model was asked for more than its {len(self._turns)} turns")
        for step in self._turns[len(self.received) - 1]:
            match step:
                case asyncio.Event():
                    self.waiting.set()
                    await step.wait()
                case Exception():
                    raise step
                case _:
                    yield step

    async def close(self) -> None:
        """Nothing to close."""

    def tool_results(self, turn: int = -1) -> list[str]:
        """The tool results in what it was sent."""
        return [item.text for item in self.received[turn] if isinstance(item, ToolItem)]

    def user_messages(self, turn: int = -1) -> list[str]:
        """The user's messages in what it was sent."""
        return [item.text for item in self.received[turn] if isinstance(item, UserItem)]


def call(name: str, arguments: Mapping[str, object] | str, call_id: str | None = None) -> ToolCallItem:
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return ToolCallItem(call_id or f"call_{next(_call_numbers)}", name, text)


def shell(command: str) -> ToolCallItem:
    return call("run_shell", {"command": command})


def answer(text: str = "done", *calls: ToolCallItem, usage: TokenUsage | None = None) -> Turn:
    """A complete reply, its text streamed first."""
    streamed: list[Step] = [TextDelta(text)] if text else []
    return [*streamed, Reply(text, calls, "tool_calls" if calls else "stop", usage=usage or TokenUsage(10, 5))]


def asks_for(*calls: ToolCallItem) -> Turn:
    return answer("", *calls)


def says(text: str = "", **more: Any) -> ScriptedReply:
    """A scripted reply without tool calls."""
    return ScriptedReply(text=text, **more)


def calls(*wanted: tuple[str, dict[str, object]], text: str = "", **more: Any) -> ScriptedReply:
    """A scripted reply that calls tools."""
    return ScriptedReply(text=text, calls=tuple(ScriptedCall(name, args) for name, args in wanted), **more)

"""Captures a command's output and waits for a text in it."""

import asyncio
from typing import Literal

Stream = Literal["stdout", "stderr"]


class CapturedOutput:
    """`largest` is the size of the largest chunk."""

    def __init__(self) -> None:
        self.output: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self.largest = 0
        self._grew = asyncio.Event()

    async def __call__(self, stream: Stream, chunk: bytes) -> None:
        self.output[stream] += chunk
        self.largest = max(self.largest, len(chunk))
        self._grew.set()

    async def wait_for(self, text: bytes) -> None:
        while text not in self.output["stdout"]:
            self._grew.clear()
            await self._grew.wait()

"""The line transport between an ACP agent and the SDK's connection.

Invariants: a line that is not a message is skipped and reported as an error; line length is bounded by the program's
pipe limit. The SDK's own reader stops at the first non-object and accepts lines of any length.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from buddy.backends.external import lenient
from buddy.errors import ProviderError
from buddy.targets.programs import Program


class AcpTransport:
    """Satisfies the SDK's `Transport`."""

    def __init__(self, program: Program, report_error: Callable[[Exception], None]) -> None:
        self._program = program
        self._report_error = report_error

    async def send(self, message: dict[str, Any]) -> None:
        # Not drained: our messages are small, and an agent that does not read must not delay its interruption.
        if self._program.stdin.is_closing():
            raise ConnectionError("its stdin is closed")
        self._program.stdin.write(msgspec.json.encode(message) + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        while True:
            try:
                line = await self._program.stdout.readline()
                if not line:
                    return None
                if message := _message(line):
                    return message
            except ValueError as error:
                self._report_error(ProviderError(f"sent an invalid message: {error}", retryable=False))

    async def close(self) -> None:
        """The program is closed separately."""


def _message(line: bytes) -> dict[str, Any]:
    """A message the SDK accepts; an error response in another shape is converted."""
    if not line.strip():
        return {}
    message = lenient.mapping(lenient.decode(line))
    if not isinstance(message.get("id"), int | str | None):
        return {}
    if "error" in message and not isinstance(message["error"], dict):
        message["error"] = {"message": str(message["error"])}
    return message

"""The lines that an ACP agent writes, for the SDK's connection.

Invariants: a line that is no message is passed over and reported as an error; none takes more memory than a
program's pipe may hold. The SDK's own reader ends at the first that is not an object, and takes lines of any length.
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
        # Not drained: what we say is small, and who does not read must not hold up that it is interrupted.
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
                self._report_error(ProviderError(f"said something that is not understood: {error}", retryable=False))

    async def close(self) -> None:
        """The program has its own end."""


def _message(line: bytes) -> dict[str, Any]:
    """A message as the SDK can take it; an answer that is an error in another shape is an error still."""
    if not line.strip():
        return {}
    message = lenient.mapping(lenient.decode(line))
    if not isinstance(message.get("id"), int | str | None):
        return {}
    if "error" in message and not isinstance(message["error"], dict):
        message["error"] = {"message": str(message["error"])}
    return message

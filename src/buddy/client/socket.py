"""The client's end of a stream socket: the Unix socket of the daemon."""

import asyncio
from pathlib import Path

MAX_LINE = 16 * 1024 * 1024


class SocketLink:
    """Lines over a stream; a read error is the end of the stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read_line(self) -> bytes | None:
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):
            return None
        return line.rstrip(b"\n") if line.endswith(b"\n") else None

    async def write(self, lines: bytes) -> None:
        self._writer.write(lines)
        try:
            await self._writer.drain()
        except ConnectionError:
            raise
        except OSError as error:
            # If the listening socket's backlog is full, only the first write fails.
            raise ConnectionResetError(f"can't connect: {error.strerror}") from error

    def close(self) -> None:
        self._writer.close()


async def connect_unix(path: Path) -> SocketLink:
    """Connect to the daemon; ConnectionError or FileNotFoundError if none is listening."""
    reader, writer = await asyncio.open_unix_connection(str(path), limit=MAX_LINE)
    return SocketLink(reader, writer)

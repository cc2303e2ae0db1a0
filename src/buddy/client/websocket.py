"""The client's end of a WebSocket: the daemon on another machine, or behind a tunnel."""

from ssl import SSLContext
from typing import TYPE_CHECKING

from buddy.client.socket import MAX_LINE

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection


class WebSocketLink:
    """One message per line, both ways; a read error is the end of the stream."""

    def __init__(self, connection: "ClientConnection") -> None:
        self._connection = connection
        self._lines: list[bytes] = []

    async def read_line(self) -> bytes | None:
        from websockets.exceptions import ConnectionClosed

        while not self._lines:
            try:
                message = await self._connection.recv()
            except ConnectionClosed:
                return None
            data = message.encode() if isinstance(message, str) else message
            self._lines = data.split(b"\n")[::-1]
        return self._lines.pop()

    async def write(self, lines: bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(lines.decode().removesuffix("\n"))
        except ConnectionClosed as error:
            raise ConnectionResetError("the connection was closed") from error

    def close(self) -> None:
        # Skip the closing handshake: the end of the stream is enough for the daemon.
        self._connection.transport.close()


async def connect_websocket(url: str, token: str, ssl: SSLContext | None = None) -> WebSocketLink:
    """Connect to `ws://` or `wss://`; ConnectionError if nothing is listening or the token is refused."""
    import websockets

    headers = {"Authorization": f"Bearer {token}"}
    try:
        connection = await websockets.connect(url, additional_headers=headers, max_size=MAX_LINE, ssl=ssl, proxy=None)
    except websockets.InvalidStatus as error:
        status = error.response.status_code
        raise ConnectionRefusedError(f"{url} answered {status}: is the token right?") from error
    except websockets.InvalidHandshake as error:
        raise ConnectionRefusedError(f"{url} does not speak the protocol: {error}") from error
    return WebSocketLink(connection)

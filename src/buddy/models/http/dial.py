"""Opens a connection to a server: directly or through a proxy, with TLS if its address asks for it."""

import asyncio

from buddy.models.http.address import Address
from buddy.models.http.connection import Connection
from buddy.models.http.http1 import TruncatedResponse, encode_request
from buddy.models.http.tls import ssl_context


async def open_connection(address: Address, proxy: Address | None, idle_seconds: float) -> Connection:
    """A connection that is ready for a request; OSError if there is none to be had."""
    trust = asyncio.create_task(asyncio.to_thread(ssl_context)) if address.scheme == "https" else None
    loop = asyncio.get_running_loop()
    first_hop = proxy or address
    try:
        transport, connection = await loop.create_connection(
            lambda: Connection(idle_seconds), first_hop.host, first_hop.port, happy_eyeballs_delay=0.25
        )
        if trust is None:
            return connection
        try:
            if proxy is not None:
                await _open_tunnel(connection, address, proxy)
            secured = Connection(idle_seconds)
            transport = await loop.start_tls(transport, secured, await trust, server_hostname=address.host)
        except BaseException:
            connection.abort()
            raise
    finally:
        if trust is not None:
            trust.cancel()
    if transport is None:
        raise TruncatedResponse("the connection was closed")
    secured.connection_made(transport)
    return secured


async def _open_tunnel(connection: Connection, address: Address, proxy: Address) -> None:
    target = f"{address.bracketed_host}:{address.port}"
    headers = {"host": target, **({"proxy-authorization": proxy.login} if proxy.login else {})}
    response = await connection.send(encode_request("CONNECT", target, headers))
    if response.status != 200:
        raise ConnectionRefusedError(f"the proxy {proxy.authority} answered {response.status}")

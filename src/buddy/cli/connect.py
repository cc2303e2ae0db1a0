"""How a command reaches a runtime: the daemon if it is running, else a runtime in this process, by the same protocol.

A configuration that is named on the command line is always read by a runtime in this process, and so is a log that is
not the daemon's. Heavy modules are imported inside the functions: `exec` sends its message through here before it
loads anything else.
"""

import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from buddy.cli.endpoint import endpoint_for_attach, has_other_config, has_other_log, named_log
from buddy.cli.options import Options
from buddy.cli.settings import config_finder, places_of, read_config
from buddy.client.blocking import BlockingClient
from buddy.client.blocking import connect_unix as connect_blocking
from buddy.config.paths import socket_path
from buddy.errors import RunLeft, UserError
from buddy.version import VERSION

if TYPE_CHECKING:
    from buddy.client.client import Client
    from buddy.client.socket import SocketLink


@contextmanager
def blocking_client(
    options: Options, name: str, *, needs_own_config: bool = False
) -> Generator[BlockingClient, None, None]:
    """A client without an event loop of its own.

    With `needs_own_config`, a daemon that reads another configuration file than this shell names is not used.
    """
    path = socket_path(os.environ, options.state_dir, options.socket)
    client = _daemon_client(path, options, name, needs_own_config=needs_own_config)
    if client is None:
        from buddy.cli.runtime_thread import GATHER_SECONDS, RuntimeThread

        with RuntimeThread(options) as runtime:
            client = BlockingClient(runtime.connect(), name, VERSION, gather=GATHER_SECONDS)
            try:
                yield client
            except RunLeft:
                runtime.leaves_runs = True
                raise
            finally:
                client.close()
        return
    try:
        yield client
    finally:
        client.close()


def _daemon_client(path: str, options: Options, name: str, *, needs_own_config: bool) -> BlockingClient | None:
    """A client of the daemon; None if it is not running, or not to be used."""
    connection = connect_blocking(path)
    if connection is None:
        return None
    client = BlockingClient(connection, name, VERSION, lambda: connect_blocking(path))
    try:
        if options.config or needs_own_config or named_log(options):
            hello = client.hello()
            reads_own = bool(options.config or needs_own_config)
            is_other = reads_own and has_other_config(options, hello.get("config"))
            if options.config or is_other or has_other_log(options, hello.get("log")):
                client.close()
                return None
    except BaseException:
        client.close()
        raise
    return client


@asynccontextmanager
async def async_client(
    options: Options, name: str, *, needs_own_config: bool = False
) -> "AsyncGenerator[Client, None]":
    """An asyncio client; with `needs_own_config`, of a runtime in this process."""
    link = None if options.config or needs_own_config else await find_daemon(options)
    if link is not None:
        async with daemon_client(link, options, name) as client:
            if not has_other_log(options, client.runtime.log if client.runtime else None):
                yield client
                return
    from buddy.client.client import Client
    from buddy.daemon.opening import open_runtime

    config, places = read_config(options), places_of(options)
    env, find = dict(os.environ), config_finder(options)
    runtime = await open_runtime(config, places, env, log_url=options.log, find_config=find)
    try:
        async with Client(runtime.connect(), name, VERSION) as client:
            yield client
    finally:
        await runtime.close()


@asynccontextmanager
async def daemon_client(link: "SocketLink", options: Options, name: str) -> "AsyncGenerator[Client, None]":
    """A client of the daemon that reconnects if the daemon is restarted."""
    from buddy.client.client import Client
    from buddy.client.socket import connect_unix

    client = Client(link, name, VERSION, reconnect=lambda: connect_unix(places_of(options).socket))
    try:
        await client.__aenter__()
    except ConnectionError as error:
        raise UserError(
            "the daemon closed the connection",
            hint="it is stopping or has too many clients; try again, and see buddy daemon logs",
            exit_code=75,
        ) from error
    try:
        yield client
    finally:
        await client.__aexit__(None, None, None)


def offer_endpoint(client: "Client") -> None:
    """Send what this shell says about the model when the client attaches to a session."""
    client.offer(endpoint_for_attach(client.runtime.key_variables if client.runtime else None))


async def find_daemon(options: Options) -> "SocketLink | None":
    """A connection to the daemon; None if it is not running."""
    from buddy.client.socket import connect_unix

    try:
        return await connect_unix(places_of(options).socket)
    except OSError:
        return None

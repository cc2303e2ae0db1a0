"""How a command reaches the runtime: the daemon where one runs, else one in this process, by the same protocol."""

import argparse
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from buddy.client.client import Client
from buddy.client.socket import SocketLink, connect_unix
from buddy.config.load import load_config
from buddy.config.places import Places, find_places
from buddy.config.settings import Config
from buddy.errors import UserError
from buddy.version import VERSION


def places_of(options: argparse.Namespace) -> Places:
    return find_places(os.environ, options.state_dir, options.socket)


def read_config(options: argparse.Namespace) -> Config:
    return load_config(os.environ, Path(options.config) if options.config else None, places_of(options))


@asynccontextmanager
async def connected(options: argparse.Namespace, name: str) -> AsyncGenerator[Client, None]:
    """A client of the daemon; of a runtime of our own where none runs or a configuration was named for this call."""
    link = None if options.config else await find_daemon(options)
    if link is not None:
        async with joined(link, options, name) as client:
            yield client
        return
    from buddy.daemon.runtime import Runtime

    runtime = Runtime(read_config(options), places_of(options), os.environ)
    try:
        async with Client(runtime.connect(), name, VERSION) as client:
            yield client
    finally:
        await runtime.close()


@asynccontextmanager
async def joined(link: SocketLink, options: argparse.Namespace, name: str) -> AsyncGenerator[Client, None]:
    """A client of the daemon that comes back by itself when the daemon was restarted."""
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


async def find_daemon(options: argparse.Namespace) -> SocketLink | None:
    """A connection to the daemon, if one runs."""
    path = places_of(options).socket
    try:
        return await connect_unix(path)
    except OSError:
        return None

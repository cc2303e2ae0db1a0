"""A runtime inside this process, and a client of it: the same protocol, over memory."""

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from buddy.client.client import Client
from buddy.config.load import load_config
from buddy.config.places import find_places
from buddy.config.settings import Config
from buddy.daemon.runtime import Runtime
from buddy.version import VERSION


def read_config(options: argparse.Namespace) -> Config:
    places = find_places(os.environ, options.state_dir, options.socket)
    return load_config(os.environ, Path(options.config) if options.config else None, places)


@asynccontextmanager
async def connected(options: argparse.Namespace, name: str) -> AsyncIterator[Client]:
    """A client of the runtime; leaving it is a clean stop."""
    places = find_places(os.environ, options.state_dir, options.socket)
    runtime = Runtime(read_config(options), places, os.environ)
    try:
        async with Client(runtime.connect(), name, VERSION) as client:
            yield client
    finally:
        await runtime.close()

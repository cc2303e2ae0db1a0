"""The program of the child process that serves the local model; `local.py` starts it and calls it over HTTP.

Invariants: it listens on loopback only, answers only clients with the key, and lives as long as its standard input is
open: it ends with the process that started it, however that ends. The first input line has the settings, the only
output line its address.
"""

import importlib
import os
import sys
from typing import Protocol

import msgspec
from msgspec import Struct


class Settings(Struct, frozen=True):
    model_file: str
    name: str
    key: str
    context: int


class Started(Struct, frozen=True):
    """What the child reports: its address, or why it has none."""

    address: str = ""
    error: str = ""


def main() -> None:
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=Settings)
    # The library may print: there must be only one line of output.
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        server = _serve(settings)
        started = Started(server.listening_address)
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent that waits for the line must learn of it
        started = Started(error=str(error) or type(error).__name__)
    os.write(out, msgspec.json.encode(started) + b"\n")
    sys.stdin.buffer.read()
    os._exit(0)


class _File(Protocol):
    path: str


class _Threads(Protocol):
    n_threads: int


class _Parameters(Protocol):
    model: _File
    model_alias: set[str]
    hostnames: list[str]
    port: int
    api_keys: list[str]
    n_ctx: int
    n_predict: int
    cpuparams: _Threads
    endpoint_slots: bool
    ui: bool


class _Server(Protocol):
    @property
    def listening_address(self) -> str: ...


MOST_TOKENS = 1024


def _serve(settings: Settings) -> _Server:
    library = importlib.import_module("xllamacpp")
    wanted: _Parameters = library.CommonParams()
    wanted.model.path = settings.model_file
    wanted.model_alias = {settings.name}
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = 0
    wanted.api_keys = [settings.key]
    wanted.n_ctx = settings.context
    wanted.n_predict = MOST_TOKENS
    # Its threads spin while they wait for each other: with one per core, any other load slows it down drastically.
    wanted.cpuparams.n_threads = max(1, (os.cpu_count() or 2) // 2)
    wanted.endpoint_slots = False
    wanted.ui = False
    return library.Server(wanted)


if __name__ == "__main__":
    main()

"""`buddy acp`: an agent for editors on stdin and stdout, as a client of the daemon, which is started when needed.

Invariants: stdout carries the protocol and nothing else; the editor's end ends no run of the daemon.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from buddy.cli.connect import async_client, offer_endpoint
from buddy.cli.daemon import launch
from buddy.cli.endpoint import endpoint_for_start, has_other_config, has_other_log
from buddy.cli.options import Options
from buddy.cli.session_options import (
    apply_configured,
    is_default_level,
    level_of,
    policy_of,
    session_payload,
    target_of,
)
from buddy.cli.settings import places_of
from buddy.client.client import Client
from buddy.client.socket import SocketLink, connect_unix
from buddy.editor.agent import Agent
from buddy.editor.open_sessions import Runtime
from buddy.editor.permissions import ApprovalLines
from buddy.editor.stdio import StdioLines
from buddy.errors import ProtocolError
from buddy.protocol.requests import StartSession
from buddy.protocol.shapes import ApprovalRequest
from buddy.terminal.approval_prompt import describe_rule
from buddy.terminal.approval_screen import approval_text
from buddy.version import VERSION

PATIENCE = 86_400.0
COLUMNS = 100
FLUSH_SECONDS = 2.0
NAME = "editor"


def acp(options: Options) -> int:
    """Serve an editor until it closes our stdin."""
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # whatever prints must not get between the protocol's lines

    async def work() -> None:
        lines = StdioLines(source, sink)
        await Agent(lines, _runtime(options)).run()
        await lines.flush(FLUSH_SECONDS)

    asyncio.run(work())
    return 0


def _runtime(options: Options) -> Runtime:
    def connect(is_wanted: Callable[[], bool]) -> AbstractAsyncContextManager[Client]:
        return _connect(options, is_wanted)

    async def start(client: Client, cwd: str) -> str:
        return await _start(client, _in_directory(options, cwd))

    return Runtime(connect, start, _describe)


@asynccontextmanager
async def _connect(options: Options, is_wanted: Callable[[], bool]) -> AsyncGenerator[Client, None]:
    """A client of the daemon, or of a runtime here if the daemon reads another configuration or log."""

    async def reconnect() -> SocketLink:
        try:
            return await connect_unix(places_of(options).socket)
        except OSError:
            if not is_wanted():
                raise
            return await _launched(options)

    if not options.config:
        async with Client(await _launched(options), NAME, VERSION, reconnect=reconnect, patience=PATIENCE) as client:
            theirs = client.runtime
            is_other = has_other_config(options, theirs.config if theirs else None)
            if not is_other and not has_other_log(options, theirs.log if theirs else None):
                offer_endpoint(client)
                yield client
                return
    async with async_client(options, NAME, needs_own_config=True) as client:
        offer_endpoint(client)
        yield client


async def _launched(options: Options) -> SocketLink:
    try:
        return await connect_unix(places_of(options).socket)
    except OSError:
        await asyncio.to_thread(launch, options)
        return await connect_unix(places_of(options).socket)


def _in_directory(options: Options, cwd: str) -> Options:
    """The options of a session in the editor's folder; on another machine or in a container, -C names it."""
    own = Options(**vars(options))
    if target_of(own) == "local" or own.directory == ".":
        own.directory = cwd
    apply_configured(own)
    return own


async def _start(client: Client, options: Options) -> str:
    level = level_of(options)
    while True:
        payload = session_payload(options, "interactive", level, policy_of(options, level))
        payload["metadata"] = {"source": "editor"}
        payload["options"]["endpoint"] = endpoint_for_start(client.runtime.key_variables if client.runtime else None)
        try:
            return (await client.start_session(msgspec.convert(payload, StartSession))).session_id
        except ProtocolError as error:
            if error.code != "SANDBOX_UNAVAILABLE" or level != "confined" or not is_default_level(options):
                raise
            print(f"commands are not confined here: {error.message}", file=sys.stderr)
            level = "host"  # nobody asked for `confined`, and `host` has the stricter policy


def _describe(approval: ApprovalRequest) -> ApprovalLines:
    rule = approval.details.get("alwaysRule")
    words = "" if rule is None else describe_rule(rule)
    lines = approval_text(approval, COLUMNS, rule=words).lines
    return ApprovalLines([(line.text, line.kind == "diff") for line in lines if line.text], words)

"""What MCP servers answer now: for `buddy mcp list`, `buddy mcp test` and `buddy doctor`.

Invariants: every server gets a connection of its own, all at once, and none is left running; nothing that may be a
secret is shown.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from buddy.approvals.trust import Trust
from buddy.config.places import Places
from buddy.config.settings import Config
from buddy.scrub import Scrubber
from buddy.tools.mcp.connection import ServerConnection
from buddy.tools.mcp.contract import State
from buddy.tools.mcp.definitions import PROJECT_FILE, Definitions, ServerDefinition, define, merge, read_project_file
from buddy.tools.mcp.servers import Servers

STDERR_SHOWN = 600


class ServerReport(Struct, frozen=True, rename="camel"):
    """One server: whether it answers, what it says of itself, and why it does not."""

    name: str
    state: State
    reached_by: str
    origin: str
    server: str = ""
    tools: tuple[str, ...] = ()
    problem: str = ""
    stderr: str = ""

    @property
    def is_up(self) -> bool:
        return self.state == "ready"


class Found(Struct, frozen=True):
    """The servers of a folder; `untrusted` is true if its `.mcp.json` is ignored."""

    definitions: Definitions
    untrusted: bool = False


def find_servers(config: Config, places: Places, folder: str) -> Found:
    own = define(config.mcp.servers, os.environ, config.source, str(Path.home()))
    root = os.path.realpath(folder)
    if not os.path.lexists(f"{root}/{PROJECT_FILE}"):
        return Found(own)
    trust = Trust(places.state_dir)
    if not trust.is_trusted(root):
        return Found(own, untrusted=True)
    # Still the same after it was judged once more: what is started is what was judged.
    project = read_project_file(root, os.environ)
    is_judged = trust.is_trusted(root) and read_project_file(root, os.environ) == project
    return Found(merge(own, project)) if is_judged else Found(own, untrusted=True)


async def check_servers(
    definitions: Definitions, scrubber: Scrubber, places: Places, most: float = 600.0
) -> list[ServerReport]:
    """Connect to all of them; a server has its own time to start, or `most` seconds if that is less."""
    for definition in definitions.servers:
        for secret in definition.secrets():
            scrubber.register(secret)
    servers = Servers(lambda _: True, f"check {os.getpid()}", places.config_dir)
    try:
        connections = servers.use("check", definitions.servers)
        await asyncio.gather(*(one.wait_settled(min(most, one.definition.startup_seconds + 5)) for one in connections))
        reports = [_report(one, scrubber) for one in connections]
    finally:
        await servers.close()
    return [*reports, *_problems(definitions)]


def _report(connection: ServerConnection, scrubber: Scrubber) -> ServerReport:
    definition = connection.definition
    is_up = connection.state == "ready"
    stderr = "" if is_up else scrubber.text(connection.stderr)[-STDERR_SHOWN:]
    problem = "" if is_up else connection.problem or "it is still starting"
    return ServerReport(
        definition.name,
        connection.state,
        scrubber.text(definition.describe()),
        definition.origin,
        connection.server,
        tuple(tool.name for tool in connection.tools),
        scrubber.text("; ".join(filter(None, (problem, *connection.skipped)))),
        stderr,
    )


def _problems(definitions: Definitions) -> list[ServerReport]:
    return [ServerReport(name, "failed", "", "", problem=problem) for name, problem in definitions.problems]


def only(name: str, definitions: Definitions) -> Definitions:
    servers: Sequence[ServerDefinition] = [one for one in definitions.servers if one.name == name]
    problems, notes = (
        tuple(one for one in pairs if one[0] == name) for pairs in (definitions.problems, definitions.notes)
    )
    return Definitions(tuple(servers), problems, notes)

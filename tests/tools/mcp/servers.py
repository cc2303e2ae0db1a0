"""Definitions of the servers that the tests start."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from buddy.config.mcp import McpServer, McpSettings
from tests.harness.processes import ROOT, SOURCES

MODULES = {"PYTHONPATH": os.pathsep.join((str(SOURCES), str(ROOT)))}


def python_server(module: str, *args: str, env: Mapping[str, str] | None = None) -> McpServer:
    """A module below `tests` as a server on stdin and stdout."""
    return McpServer(command=sys.executable, args=("-m", module, *args), env={**MODULES, **(env or {})})


def plain_server(ledger: Path | None = None, env: Mapping[str, str] | None = None) -> McpServer:
    more = {"MCP_LEDGER": str(ledger)} if ledger else {}
    return python_server("tests.harness.mcp_server", env={**more, **(env or {})})


def settings(**servers: McpServer) -> McpSettings:
    return McpSettings(servers)


def lines(ledger: Path) -> list[str]:
    """What the server did, without its starts."""
    if not ledger.exists():
        return []
    return [line for line in ledger.read_text().splitlines() if not line.startswith("start ")]


def starts(ledger: Path) -> int:
    return sum(line.startswith("start ") for line in ledger.read_text().splitlines())

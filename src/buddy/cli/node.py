"""`buddy node list|drain|status`: the daemons that share one log."""

import asyncio
import json
import sys
import time

from buddy.cli.connect import daemon_client, find_daemon
from buddy.cli.options import Options
from buddy.client.client import Client
from buddy.errors import ProtocolError, UserError
from buddy.protocol.node_requests import DrainNode, ListNodes, ListNodesReply, NodeInfo
from buddy.protocol.requests import AcceptedReply, DaemonStatus, DaemonStatusReply
from buddy.terminal.escape import escape
from buddy.terminal.phrases import plural

DRAIN_SECONDS = 30.0
LOOK_SECONDS = 0.1


def node(options: Options) -> int:
    return asyncio.run(_node(options))


async def _node(options: Options) -> int:
    link = await find_daemon(options)
    if link is None:
        raise UserError("no daemon is running", hint="buddy daemon start", exit_code=1)
    async with daemon_client(link, options, "cli") as client:
        match options.action:
            case "drain":
                return await _drain(client, options.name)
            case "status":
                return await _status(client, options)
            case _:
                return _show(await _nodes(client), options)


async def _nodes(client: Client) -> tuple[NodeInfo, ...]:
    return (await client.request(ListNodes(), ListNodesReply)).nodes


def _show(nodes: tuple[NodeInfo, ...], options: Options) -> int:
    if options.json:
        print(json.dumps({"nodes": [_plain(one) for one in nodes]}))
        return 0
    rows = [("NODE", "STATE", "RUNS", "SESSIONS", "VERSION", "SEEN", "LABELS")]
    rows += [_row(one) for one in nodes]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _row(one: NodeInfo) -> tuple[str, ...]:
    ago = max(0.0, time.time() - one.last_seen / 1000)
    seen = "now" if ago < 5 else f"{ago:.0f} s ago"
    labels = escape(", ".join(one.labels))
    return (escape(one.node), one.state, str(one.runs), str(one.sessions), escape(one.version), seen, labels)


def _plain(one: NodeInfo) -> dict[str, object]:
    return {
        "node": one.node,
        "state": one.state,
        "version": one.version,
        "runs": one.runs,
        "sessions": one.sessions,
        "lastSeen": one.last_seen,
        "gateway": one.gateway,
        "worker": one.worker,
        "labels": list(one.labels),
    }


async def _drain(client: Client, name: str) -> int:
    """Ask, and wait until it has handed over."""
    try:
        await client.request(DrainNode(name), AcceptedReply)
    except ProtocolError as error:
        raise UserError(error.message, hint="buddy node list") from error
    deadline = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < deadline:
        states = [one.state for one in await _nodes(client) if one.node == name]
        if not {"ready", "draining"} & set(states):
            print(f"{escape(name)} has handed over its sessions", file=sys.stderr)
            return 0
        await asyncio.sleep(LOOK_SECONDS)
    raise UserError(f"{name} is still handing over", hint="buddy node list", exit_code=75)


async def _status(client: Client, options: Options) -> int:
    status = await client.request(DaemonStatus(), DaemonStatusReply)
    nodes = await _nodes(client)
    name = options.name or status.node
    found = [one for one in nodes if one.node == name]
    if not found:
        known = ", ".join(one.node for one in nodes)
        raise UserError(f"no node {name!r}. Available: {known}", hint="buddy node list")
    if options.json:
        print(json.dumps(_plain(found[-1])))
        return 0
    one = found[-1]
    here = " (this daemon)" if name == status.node else ""
    print(f"{escape(one.node)}{here}: {one.state}, version {escape(one.version)}")
    print(f"{plural(one.runs, 'active run')}, {plural(one.sessions, 'open session')}")
    roles = [word for word, is_so in (("gateway", one.gateway), ("worker", one.worker)) if is_so]
    print(f"{' and '.join(roles) or 'a command'}{', labels ' + escape(', '.join(one.labels)) if one.labels else ''}")
    return 0

"""The arguments of `mcp`."""

import argparse
from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import add, add_actions, add_json, finish

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers


def add_mcp(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "mcp", "MCP servers: add, list, remove or test them"))
    adding = add(
        actions,
        "add",
        "add a server to your buddy.toml",
        "buddy mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes\n"
        "buddy mcp add issues https://issues.example/mcp --header 'Authorization: Bearer ${TOKEN}'",
    )
    adding.add_argument("name", metavar="NAME", help="name of the server; its tools are mcp__NAME__TOOL")
    adding.add_argument(
        "words", nargs="*", default=argparse.SUPPRESS, metavar="URL | -- COMMAND", help="how to reach it"
    )
    adding.add_argument("--env", action="append", default=[], metavar="K=V", help="variable for the command")
    adding.add_argument("--header", action="append", default=[], metavar="'K: V'", help="header for the URL")
    adding.set_defaults(takes_words=True)
    listing = add(actions, "list", "list servers and whether they work")
    removing = add(actions, "remove", "remove a server from your buddy.toml")
    removing.add_argument("name", metavar="NAME", help="name of the server")
    testing = add(actions, "test", "connect to servers and list their tools; exit 1 if one is down")
    testing.add_argument("name", nargs="?", default=argparse.SUPPRESS, metavar="NAME", help="only this server")
    for parser in (listing, testing):
        add_json(parser)
    logging_in = add(actions, "login", "log in to a server over HTTP with a browser, here or elsewhere")
    logging_in.add_argument("name", metavar="NAME", help="name of the server")
    serving = add(
        actions,
        "serve",
        "be an MCP server on stdin and stdout: start sessions, reply to them, see their status",
    )
    parsers = {
        "add": adding,
        "list": listing,
        "remove": removing,
        "test": testing,
        "login": logging_in,
        "serve": serving,
    }
    serving.add_argument("--sandbox", metavar="LEVEL", help="how commands are confined: host or confined")
    serving.add_argument("--approve", metavar="POLICY", help="approval policy: ask, auto, all, none or a duration")
    finish(parsers, _mcp)


ADD = {"mcp": add_mcp}


def _mcp(options: Options) -> int:
    if options.action == "serve":
        from buddy.cli.mcp import serve

        return serve(options)
    from buddy.cli.mcp import mcp

    return mcp(options)

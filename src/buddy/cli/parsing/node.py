"""The arguments of `node`."""

import argparse
from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import add, add_actions, add_json, finish

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers


def add_node(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "node", "daemons that share a log: list, drain or show them"))
    listing = add(actions, "list", "list nodes with their state, runs and version")
    draining = add(actions, "drain", "hand over a node's sessions to the others; it takes no more")
    draining.add_argument("name", metavar="NAME", help="name of the node")
    showing = add(actions, "status", "show one node")
    showing.add_argument(
        "name", nargs="?", default=argparse.SUPPRESS, metavar="NAME", help="name of the node (default: this daemon)"
    )
    for parser in (listing, showing):
        add_json(parser)
    finish({"list": listing, "drain": draining, "status": showing}, _node)


ADD = {"node": add_node}


def _node(options: Options) -> int:
    from buddy.cli.node import node

    return node(options)

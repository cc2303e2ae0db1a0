"""The arguments of `acp`."""

from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import add, add_common, add_run_flags

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers


def add_acp(commands: "Subparsers") -> None:
    parser = add(
        commands,
        "acp",
        "run as an agent for editors over stdin and stdout (Agent Client Protocol)",
        "an editor starts it; see docs/editors.md for Zed, JetBrains, Neovim and others",
    )
    add_run_flags(parser)
    parser.add_argument("--login", action="store_true", help="log in with an account instead, in a terminal")
    add_common(parser)
    parser.set_defaults(command=_acp)


ADD = {"acp": add_acp}


def _acp(options: Options) -> int:
    if options.login:
        from buddy.cli.login import login

        return login(options)
    from buddy.cli.acp import acp

    return acp(options)

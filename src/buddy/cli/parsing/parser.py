"""The parser, and the flags that commands share."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from buddy.cli.options import Options
from buddy.errors import UserError

RUNTIMES = "who does the work: native, droid, opencode, acp:COMMAND, or auto"
EXITS = """\
exit codes: 0 success, 1 failed, 2 cancelled, 3 denied, 4 a check of --accept fails, 5 a budget is used up,
            64 it cannot be run like this, 75 try again later, 130 interrupted before a run began
"""


class Parser(argparse.ArgumentParser):
    """Usage errors are one line and a hint, with exit code 64."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message, hint=f"{self.prog} --help shows how")


if TYPE_CHECKING:
    Subparsers: TypeAlias = argparse._SubParsersAction[Parser]  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - argparse names it nowhere else


def add(commands: "Subparsers", name: str, does: str, epilog: str | None = None) -> Parser:
    """A command or an action: what it does is said in the list, and in its own help."""
    parser = commands.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.", epilog=epilog)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def add_actions(parser: Parser) -> "Subparsers":
    return parser.add_subparsers(title="actions", metavar="ACTION", required=True)


def add_session(parser: Parser, *, nargs: str | None = None) -> None:
    parser.add_argument(
        "session_id",
        nargs=nargs,
        default=argparse.SUPPRESS,
        metavar="ID",
        help="session id, the start of one, or last",
    )


def add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_output(parser: Parser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the outcome as one JSON object")
    form.add_argument("--stream-json", action="store_true", help="print every event, one JSON object per line")


def add_run_flags(parser: Parser) -> None:
    parser.add_argument("--approve", metavar="POLICY", help="what may run: ask, all, none or, for so long all, 10m")
    parser.add_argument("--max-turns", type=int, metavar="N", help="so many replies of the model at most (50)")
    parser.add_argument("--max-cost", type=float, metavar="USD", help="so much money at most, where the price is known")
    parser.add_argument("--max-time", metavar="DURATION", help="so long at most, such as 90s or 10m")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="so many tokens at most, read and written")
    parser.add_argument("--profile", metavar="NAME", help="a model profile of buddy.toml")
    parser.add_argument("-m", "--model", metavar="MODEL", help="another model of that profile's server")
    parser.add_argument("--agent-runtime", metavar="NAME", help=RUNTIMES)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--container", metavar="NAME", help="work in this running container; -C is a path in there")
    place.add_argument("--ssh", metavar="HOST", help="work on this machine; -C is a path over there")
    pane = parser.add_mutually_exclusive_group()
    pane.add_argument("--tmux", nargs="?", const=True, metavar="SESSION", help="run commands in a pane to watch")
    pane.add_argument("--no-tmux", action="store_true", help="run commands without a pane")
    parser.add_argument("--sandbox", metavar="LEVEL", help="how commands are confined: host, confined or container")
    parser.add_argument("--plan", action="store_true", help="only look: offer the model no tool that changes anything")


def add_common(parser: Parser) -> None:
    parser.register("type", None, _named)
    parser.add_argument("--config", metavar="FILE", help="this configuration, in place of your buddy.toml")
    parser.add_argument("--state-dir", metavar="DIR", help="where sessions are kept")
    parser.add_argument("--socket", metavar="PATH", help="where the daemon listens")
    parser.add_argument("-C", dest="directory", metavar="DIR", default=".", help="the workspace (this directory)")


def finish(actions: dict[str, Parser], command: Callable[[Options], int]) -> None:
    """Actions of one command: what runs them, and which one it was."""
    for name, action in actions.items():
        add_common(action)
        action.set_defaults(command=command, action=name)


def _named(text: str) -> str:
    """A word as it is; an empty variable in a script must not mean what it means to leave the flag out."""
    if not text:
        raise argparse.ArgumentTypeError("needs a value, and this one is empty")
    return text

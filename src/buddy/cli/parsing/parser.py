"""The argument parser, and the flags that commands share."""

import argparse
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from buddy.cli.options import Options
from buddy.errors import UserError

RUNTIMES = "agent runtime: native, droid, opencode, acp:COMMAND or auto"
EXITS = """\
exit codes: 0 success, 1 failed, 2 cancelled, 3 denied, 4 an --accept check failed, 5 budget exhausted,
            64 usage or configuration error, 75 try again later, 130 interrupted twice, or before the run started
"""


class Parser(argparse.ArgumentParser):
    """Usage errors are one line and a hint, with exit code 64."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message, hint=f"see '{self.prog} --help'")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse makes a formatter for every argument; left to itself, it imports `shutil` for the width of its lines."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


if TYPE_CHECKING:
    Subparsers: TypeAlias = argparse._SubParsersAction[Parser]  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - argparse names it nowhere else


def add(commands: "Subparsers", name: str, does: str, epilog: str | None = None) -> Parser:
    """A command or an action, described in the list of commands and in its own help."""
    description = f"{does[0].upper()}{does[1:]}."
    return commands.add_parser(
        name, help=does, description=description, epilog=epilog, formatter_class=Formatter, allow_abbrev=False
    )


def add_actions(parser: Parser) -> "Subparsers":
    return parser.add_subparsers(title="actions", metavar="ACTION", required=True)


def add_session(parser: Parser, *, nargs: str | None = None) -> None:
    parser.add_argument(
        "session_id",
        nargs=nargs,
        default=argparse.SUPPRESS,
        metavar="ID",
        help="session id, its start or end, its number in session list, or last",
    )


def add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_output(parser: Parser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the outcome as one JSON object")
    form.add_argument("--stream-json", action="store_true", help="print every event, one JSON object per line")


def add_run_flags(parser: Parser) -> None:
    parser.add_argument(
        "--approve",
        metavar="POLICY",
        help="approval policy: ask, auto, all, none, or a duration to approve everything (10m)",
    )
    parser.add_argument("--max-turns", type=whole_number, metavar="N", help="stop after N model turns (default 50)")
    parser.add_argument("--max-cost", type=number, metavar="USD", help="spending limit, if the price is known")
    parser.add_argument("--max-time", metavar="DURATION", help="time limit, such as 90s or 10m")
    parser.add_argument("--max-tokens", type=whole_number, metavar="N", help="token limit, input and output together")
    parser.add_argument("--profile", metavar="NAME", help="model profile from buddy.toml")
    parser.add_argument(
        "-m", "--model", metavar="MODEL", help="model to use: a model of the profile, a profile, or PROFILE/MODEL"
    )
    parser.add_argument("--agent-runtime", metavar="NAME", help=RUNTIMES)
    parser.add_argument(
        "--unsafe-agent", action="store_true", help="use an agent that can't be held to plan mode or to a denial"
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--container", metavar="NAME", help="work in the running container NAME; -C is a path in it")
    place.add_argument("--ssh", metavar="HOST", help="work on HOST over SSH; -C is a path on HOST")
    pane = parser.add_mutually_exclusive_group()
    pane.add_argument(
        "--tmux", nargs="?", const=True, metavar="SESSION", help="run commands in a tmux pane that you can watch"
    )
    pane.add_argument("--no-tmux", action="store_true", help="do not use a tmux pane")
    parser.add_argument("--sandbox", metavar="LEVEL", help="sandbox level: host, confined or container")
    parser.add_argument("--plan", action="store_true", help="plan only: offer the model read-only tools")
    parser.add_argument("--worktree", action="store_true", help="work in a new git worktree, beside the repository")
    parser.add_argument("--no-checkpoints", action="store_true", help="keep nothing to undo what is changed")


def add_common(parser: Parser) -> None:
    parser.register("type", None, _named)
    parser.add_argument("--config", metavar="FILE", help="use this configuration instead of your buddy.toml")
    parser.add_argument("--state-dir", metavar="DIR", help="directory where sessions are stored")
    parser.add_argument("--socket", metavar="PATH", help="socket of the daemon")
    parser.add_argument("--log", metavar="URL", help="shared log: postgresql://HOST/DATABASE (default: SQLite)")
    parser.add_argument(
        "-C", dest="directory", metavar="DIR", default=".", help="workspace (default: the current directory)"
    )


def finish(actions: dict[str, Parser], command: Callable[[Options], int]) -> None:
    """Give every action of a command the common flags and the function that runs it."""
    for name, action in actions.items():
        add_common(action)
        action.set_defaults(command=command, action=name)


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def natural_number(text: str) -> int:
    value = whole_number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} must be 0 or more")
    return value


def positive_number(text: str) -> int:
    value = whole_number(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} must be 1 or more")
    return value


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def _named(text: str) -> str:
    """A value as it is; an empty variable in a script must not act as if the flag were left out."""
    if not text:
        raise argparse.ArgumentTypeError("the value must not be empty")
    return text


def _columns() -> int:
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size().columns or 80
    except OSError:
        return 80  # stdout is not a terminal

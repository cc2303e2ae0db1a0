"""The arguments of `buddy`, `exec`, `run` and `resume`."""

import os
import sys
from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import (
    EXITS,
    Formatter,
    Parser,
    add,
    add_common,
    add_output,
    add_run_flags,
    add_session,
    whole_number,
)
from buddy.errors import UserError

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers

_LAST = "continue the last session in this directory"
_ONE_RUN = "run one prompt to completion; the answer goes to stdout"


def repl_parser() -> Parser:
    description = "Talk to an agent in this directory."
    parser = Parser(
        prog="buddy", description=description, formatter_class=Formatter, add_help=False, allow_abbrev=False
    )
    parser.add_argument("prompt", nargs="?", help="first message")
    parser.add_argument("-c", "--continue", dest="last", action="store_true", help=_LAST)
    _add_images(parser)
    add_run_flags(parser)
    add_common(parser)
    parser.set_defaults(command=_repl, needs_model=True, accept=[])
    return parser


def add_exec(commands: "Subparsers") -> None:
    _add_one_run(add(commands, "exec", _ONE_RUN, EXITS))


def add_run(commands: "Subparsers") -> None:
    parser = add(commands, "run", "same as exec", EXITS)
    parser.add_argument("--headless", action="store_true", required=True, help="run without interaction")
    parser.add_argument("--task", dest="task", metavar="PROMPT", help="same as PROMPT")
    _add_one_run(parser)


def _add_one_run(parser: Parser) -> None:
    parser.add_argument("prompt", nargs="?", help="what to do; - reads stdin")
    parser.add_argument("-p", "--print", action="store_true", help="does nothing: buddy -p PROMPT is buddy exec PROMPT")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-c", "--continue", dest="last", action="store_true", help=_LAST)
    which.add_argument("--session", metavar="ID", help="continue this session: its id, its number, or last")
    _add_outcome(parser)
    add_run_flags(parser)
    add_common(parser)
    parser.set_defaults(command=_exec, needs_model=True)


def _add_images(parser: Parser) -> None:
    help_text = "show the model this image with the message (repeatable)"
    parser.add_argument("--image", action="append", type=os.path.abspath, metavar="FILE", help=help_text)


def _add_outcome(parser: Parser) -> None:
    add_output(parser)
    _add_images(parser)
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="CMD",
        help="command that must succeed for the run to pass (repeatable)",
    )
    parser.add_argument(
        "--as-is", action="store_true", help="send the prompt without redacting what only looks like a secret"
    )
    parser.add_argument(
        "--max-rounds", type=whole_number, metavar="N", help="how often failed checks go back to the model (default 3)"
    )


def add_resume(commands: "Subparsers") -> None:
    parser = add(commands, "resume", "resume a session (interactively in a terminal, otherwise to completion)", EXITS)
    add_session(parser, nargs="?")
    parser.add_argument("prompt", nargs="?", help="what to do next; with it, the same as exec --session ID PROMPT")
    parser.add_argument("--last", action="store_true", help="the last session in this directory")
    _add_outcome(parser)
    add_run_flags(parser)
    add_common(parser)
    parser.set_defaults(command=_resume)


ADD = {"exec": add_exec, "run": add_run, "resume": add_resume}


def _repl(options: Options) -> int:
    from buddy.cli.first_run import prepare
    from buddy.cli.repl import repl

    prepare(options)
    _enter_worktree(options)
    return repl(options)


def _exec(options: Options) -> int:
    from buddy.cli.exec import execute

    _enter_worktree(options)
    return execute(options)


def _enter_worktree(options: Options) -> None:
    if options.worktree:
        from buddy.cli.worktree import enter_worktree

        enter_worktree(options)


def _resume(options: Options) -> int:
    if options.last and options.session_id:
        if options.prompt is not None:
            raise UserError("--last and a session id can't be combined", hint='buddy resume --last "what to do next"')
        options.prompt, options.session_id = options.session_id, ""
    is_headless = options.prompt is not None or options.json or options.stream_json
    if not is_headless and sys.stdin.isatty() and sys.stderr.isatty():
        from buddy.cli.continuing import check_fixed, check_no_run_flags
        from buddy.cli.repl import resume_here

        check_fixed(options)
        check_no_run_flags(options, 'buddy resume ID "what to do next"; in the REPL, /approve and /model change it')
        return resume_here(options)
    from buddy.cli.exec import resume

    return resume(options)

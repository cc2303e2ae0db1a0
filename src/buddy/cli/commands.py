"""The command line: from arguments to a command and its options."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import Formatter, Parser
from buddy.errors import UserError

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers

COMMANDS = (
    *("exec", "run", "resume", "session", "changes", "undo", "worktree", "attach", "ps", "replay", "daemon"),
    *("approvals", "trust", "model", "login", "logout", "memory", "project", "mcp", "node", "web", "acp"),
    *("storage", "backup", "restore", "doctor", "demo", "completion", "help"),
)

# Commands of other programs, and where their like is here. As single words they are no prompts.
ELSEWHERE = {
    "config": "'buddy doctor', which names your configuration",
    "settings": "'buddy doctor', which names your configuration",
    "auth": "'buddy login'",
    "status": "'buddy daemon status'",
    "list": "'buddy session list'",
    "ls": "'buddy session list'",
    "history": "'buddy session list'",
    "diff": "'buddy changes --diff'",
    "chat": "'buddy', without a command",
    "continue": "'buddy -c'",
    "permissions": "'buddy approvals'",
    "logs": "'buddy daemon logs'",
    "start": "'buddy daemon start'",
    "stop": "'buddy daemon stop'",
    "restart": "'buddy daemon restart'",
    "fork": "'buddy session fork'",
    "export": "'buddy session export'",
    "import": "'buddy session import'",
    "delete": "'buddy session delete'",
    **dict.fromkeys(("console", "dashboard", "ui"), "'buddy web'"),
    "serve": "'buddy daemon run'",
    "server": "'buddy daemon run'",
    **dict.fromkeys(("update", "upgrade", "install", "uninstall", "plugin", "plugins", "agent", "agents"), ""),
    **dict.fromkeys(("hooks", "skills", "node", "stats", "usage", "cloud", "init", "review"), ""),
    **dict.fromkeys(("apply", "undo", "sandbox", "version", "setup", "kill", "features", "debug"), ""),
}

_WITH_ACTIONS = ("session", "worktree", "daemon", "approvals", "model", "memory", "project", "mcp", "node")
_COMMON = ("--config", "--state-dir", "--socket", "--log", "-C")

_EPILOG = """\
examples:
  buddy                                           talk to an agent in this directory; try /help
  buddy "why does the test fail?"                 the same, with a first question
  buddy exec "what does this repository do?"      one question, the answer on stdout
  git diff | buddy exec - --json                  the prompt from stdin, the outcome as JSON
  buddy exec "fix the test" --approve all --accept "make test"
  buddy exec -c "and now the docs"                a next message to the last session here
  buddy resume --last                             resume what was interrupted here
  buddy demo                                      a demo; nothing needs to be configured

The flags of exec (--profile, --approve, --ssh, --tmux, --sandbox, …; see buddy exec --help) work with plain buddy, too.
"""


def parse(arguments: Sequence[str]) -> Options:
    """The options of a command, or of the REPL."""
    arguments = _print_as_exec(_command_first(arguments))
    first = arguments[0] if arguments else ""
    if first in COMMANDS:
        parser = build_parser(first)
    elif first in ("-h", "--help", "--version"):
        parser = build_parser()
    else:
        _check_spelling(arguments)
        from buddy.cli.parsing.runs import repl_parser

        parser = repl_parser()
    # What follows `--` is another program's command.
    own, command = _split_command(arguments)
    options, left = parser.parse_known_args(own, Options(words=command) if command else Options())
    if left and options.takes_words and not left[0].startswith("-"):
        options.words, left = [*left, *command], []
    if first == "resume" and options.prompt is None and len(left) == 1 and not left[0].startswith("-"):
        options.prompt = left.pop()  # after a flag: argparse has decided by the id that there is none
    if left:
        raise _unknown(parser, first if first in COMMANDS else "", options, left)
    return options


def build_parser(asked: str = "") -> Parser:
    """The parser of one command, or of all, which takes 20 ms to build."""
    parser = Parser(
        prog="buddy",
        usage="buddy [PROMPT] [FLAGS]\n       buddy COMMAND ...",
        description="Run AI agents as durable sessions. Without a command, talk to one here.",
        epilog=_EPILOG,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=_version)
    parser.add_argument("--version", action="store_true", help="print the version")
    # With `prog`, argparse does not have to format the usage.
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog="buddy")
    for name in [asked] if asked else COMMANDS:
        _add(commands, name)
    return parser


def _add(commands: "Subparsers", name: str) -> None:
    match name:
        case "exec" | "run" | "resume":
            from buddy.cli.parsing.runs import ADD
        case "session" | "changes" | "undo" | "worktree" | "attach" | "ps" | "replay" | "memory":
            from buddy.cli.parsing.sessions import ADD
        case "mcp":
            from buddy.cli.parsing.mcp import ADD
        case "acp":
            from buddy.cli.parsing.acp import ADD
        case "storage" | "backup" | "restore":
            from buddy.cli.parsing.storage import ADD
        case "node":
            from buddy.cli.parsing.node import ADD
        case "approvals" | "trust":
            from buddy.cli.parsing.approvals import ADD
        case _:
            from buddy.cli.parsing.admin import ADD
    ADD[name](commands)


def _command_first(arguments: Sequence[str]) -> Sequence[str]:
    """`-C DIR session list` as `session list -C DIR`: the common flags may come before a command."""
    at = 0
    while at < len(arguments) and arguments[at].partition("=")[0] in _COMMON:
        at += 1 if "=" in arguments[at] else 2
    if at == 0 or at >= len(arguments) or arguments[at] not in COMMANDS:
        return arguments
    end = at + (2 if arguments[at] in _WITH_ACTIONS else 1)
    return [*arguments[at:end], *arguments[:at], *arguments[end:]]


def _split_command(arguments: Sequence[str]) -> tuple[Sequence[str], list[str]]:
    if list(arguments[:2]) != ["mcp", "add"] or "--" not in arguments:
        return arguments, []
    at = list(arguments).index("--")
    return arguments[:at], list(arguments[at + 1 :])


def _print_as_exec(arguments: Sequence[str]) -> Sequence[str]:
    """`-p PROMPT`, as in other programs, as `exec PROMPT`."""
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if arguments and arguments[0] not in COMMANDS and ("-p" in flags or "--print" in flags):
        return ["exec", *arguments]
    return arguments


def _check_spelling(arguments: Sequence[str]) -> None:
    """Refuse a misspelt command, and one of another program: neither is meant for the model."""
    first = arguments[0] if arguments else ""
    if not first.replace("-", "").isalpha() or first.startswith("-"):
        return
    import difflib

    hint = f"to send it as a prompt: buddy -- {first}"
    if len(arguments) > 1:
        hint = f'to send it as a prompt: buddy -- "{first} …"'
    for near in difflib.get_close_matches(first, COMMANDS, 1, cutoff=0.75):
        raise UserError(f"unknown command {first!r}; did you mean {near}?", hint=hint)
    for near in difflib.get_close_matches(first, ELSEWHERE, 1, cutoff=0.85):
        instead = ELSEWHERE[near]
        raise UserError(f"unknown command {first!r}{f'; see {instead}' if instead else ''}", hint=hint)


def _unknown(parser: Parser, command: str, options: Options, left: Sequence[str]) -> UserError:
    """An unknown flag, or a prompt without quotes."""
    words = f"buddy {command}".rstrip()
    hint = f"see '{words} --help'"
    if options.prompt is not None and not left[0].startswith("-"):
        hint = f'quote the prompt: {words} "{options.prompt} …"'
    elif left[0].startswith("--"):
        import difflib

        from buddy.cli.completion import words_of

        flag = left[0].partition("=")[0]
        for near in difflib.get_close_matches(flag, {word.text for word in words_of(parser)}, 1):
            return UserError(f"unknown flag {flag}; did you mean {near}?", hint=hint)
    return UserError(f"unrecognized arguments: {' '.join(left)}", hint=hint)


def _version(_: Options) -> int:
    from buddy.version import VERSION

    print(f"buddy {VERSION}")
    return 0

"""The command line: subcommands, and the flags they share."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from buddy.errors import UserError


class Parser(argparse.ArgumentParser):
    """Usage errors are one line and a hint, with exit code 64."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message, hint=f"{self.prog} --help shows how")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """A command, or the REPL with what it should begin with."""
    first = arguments[0] if arguments else ""
    if first in COMMANDS:
        return build_parser(first).parse_args(arguments)
    if first in ("-h", "--help", "--version"):
        return build_parser().parse_args(arguments)
    if first.isalpha():
        import difflib

        for near in difflib.get_close_matches(first, COMMANDS, 1):
            hint = f"buddy -- {first} says it to the model"
            raise UserError(f"no command {first!r}; did you mean {near}?", hint=hint)
    return _repl_parser().parse_args(arguments)


def _repl_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="buddy", description="Talk to an agent in this directory.", add_help=False)
    parser.add_argument("prompt", nargs="?", help="what to begin with")
    _add_run_flags(parser)
    _add_common(parser)
    parser.set_defaults(command=_repl)
    return parser


def build_parser(asked: str = "") -> Parser:
    """The parser of all commands, or of the one that is asked for: all of them take 20 ms to build."""
    parser = Parser(
        prog="buddy",
        description="Run AI agents as durable sessions. Without a command: talk to one here (buddy [PROMPT]).",
        epilog=_EPILOG,
        formatter_class=_Raw,
    )
    parser.set_defaults(command=_version)
    parser.add_argument("--version", action="store_true", help="print the version")
    # With its own `prog` argparse need not ask for the width of the terminal, and load what finds that out.
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog="buddy")
    for add in dict.fromkeys([COMMANDS[asked]] if asked else COMMANDS.values()):
        add(commands)
    return parser


class _Raw(argparse.RawDescriptionHelpFormatter):
    pass


_EPILOG = """\
examples:
  buddy                                           talk to an agent in this directory; /help tells more
  buddy "why does the test fail?"                 the same, beginning with a question
  buddy exec "what does this repository do?"      one question, the answer on stdout
  git diff | buddy exec - --json                  the prompt from stdin, the outcome as JSON
  buddy exec "fix the test" --approve all --accept "make test"
  buddy resume --last                             go on with what was interrupted here
  buddy demo                                      see all of it, with nothing configured

The flags of exec (--profile, --approve, --ssh, --tmux, --sandbox, …; buddy exec --help) go with buddy alone, too.
"""

if TYPE_CHECKING:
    Subparsers: TypeAlias = argparse._SubParsersAction[Parser]  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - argparse names it nowhere else


def _add_exec(commands: "Subparsers") -> None:
    _add_one_run(commands.add_parser("exec", help="one run; the answer on stdout", description=_ONE_RUN))


def _add_run(commands: "Subparsers") -> None:
    parser = commands.add_parser("run", help="the same as exec", description=_ONE_RUN)
    parser.add_argument("--headless", action="store_true", required=True, help="no interaction")
    parser.add_argument("--task", dest="task", metavar="PROMPT", help="another way to give the prompt")
    _add_one_run(parser)


_ONE_RUN = "Run one prompt to its outcome."


def _add_one_run(parser: Parser) -> None:
    parser.add_argument("prompt", nargs="?", help="what to do; - reads it from stdin")
    _add_output(parser)
    parser.add_argument(
        "--accept", action="append", default=[], metavar="CMD", help="a check that must pass; repeatable"
    )
    parser.add_argument("--max-rounds", type=int, metavar="N", help="how often failed checks go back to the model (3)")
    _add_run_flags(parser)
    _add_common(parser)
    parser.set_defaults(command=_exec)


def _add_resume(commands: "Subparsers") -> None:
    parser = commands.add_parser(
        "resume", help="go on with a session: on a terminal in the REPL, else to its run's outcome"
    )
    parser.add_argument("session_id", nargs="?", metavar="ID")
    parser.add_argument("--last", action="store_true", help="the last session of this directory")
    _add_output(parser)
    _add_common(parser)
    parser.set_defaults(command=_resume)


def _add_session(commands: "Subparsers") -> None:
    parser = commands.add_parser("session", help="list, show, search, export, fork, import or delete sessions")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="sessions by last use")
    listing.add_argument("--all", action="store_true", help="of all directories, not only this one")
    listing.add_argument("--limit", type=int, default=20)
    listing.add_argument("--json", action="store_true")
    for name, help_text in (
        ("show", "what happened, readable"),
        ("export", "every event, one JSON object per line"),
        ("delete", "remove a session and its log"),
    ):
        action = actions.add_parser(name, help=help_text)
        action.add_argument("session_id", metavar="ID")
        _add_common(action)
        action.set_defaults(command=_session, action=name)
    searching = actions.add_parser("search", help="the sessions in which a text was said")
    searching.add_argument("text", metavar="TEXT")
    searching.add_argument("--all", action="store_true", help="of all directories, not only this one")
    searching.add_argument("--json", action="store_true")
    forking = actions.add_parser("fork", help="a copy that goes its own way")
    forking.add_argument("session_id", metavar="ID")
    forking.add_argument("--seq", type=int, metavar="N", help="up to this event; without it, all of it")
    importing = actions.add_parser("import", help="take up .buddyx and .agentx session files")
    importing.add_argument("folder", metavar="DIR")
    for action, name in ((listing, "list"), (searching, "search"), (forking, "fork"), (importing, "import")):
        _add_common(action)
        action.set_defaults(command=_session, action=name)


def _add_daemon(commands: "Subparsers") -> None:
    parser = commands.add_parser("daemon", help="the runtime that all clients share: run, start, stop, status, logs")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, help_text in (
        ("run", "in the foreground"),
        ("start", "in the background"),
        ("stop", "cancel what runs, and end"),
        ("status", "what it is doing"),
        ("logs", "what it wrote"),
    ):
        action = actions.add_parser(name, help=help_text)
        if name in ("run", "start"):
            action.add_argument("--listen", metavar="[HOST:]PORT", help="also a WebSocket, on this machine only")
            action.add_argument("--allow-remote", action="store_true", help="let --listen name any address")
            action.add_argument("--tls-cert", metavar="FILE")
            action.add_argument("--tls-key", metavar="FILE")
        if name == "status":
            action.add_argument("--json", action="store_true")
        if name == "logs":
            action.add_argument("-n", "--lines", type=int, default=50)
            action.add_argument("-f", "--follow", action="store_true")
        _add_common(action)
        action.set_defaults(command=_daemon, action=name)
    attach = commands.add_parser("attach", help="follow a session, line by line")
    attach.add_argument("session_id", metavar="ID")
    attach.add_argument("--read-only", action="store_true", help="look, and be unable to do more")
    attach.add_argument("--after", type=int, default=0, metavar="SEQ", help="only what came after this event")
    attach.add_argument("--stream-json", action="store_true", help="every event, one JSON object per line")
    _add_common(attach)
    attach.set_defaults(command=_attach)
    listing = commands.add_parser("ps", help="the active runs")
    listing.add_argument("--json", action="store_true")
    _add_common(listing)
    listing.set_defaults(command=_ps)


def _add_models(commands: "Subparsers") -> None:
    parser = commands.add_parser("model", help="list the models that can be used")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="profiles, what their servers offer, context windows, prices")
    listing.add_argument("--json", action="store_true", help="print them as one JSON object")
    _add_common(listing)
    listing.set_defaults(command=_model)
    entering = commands.add_parser("login", help="use an account instead of a key")
    way = entering.add_mutually_exclusive_group()
    way.add_argument("--device", action="store_true", help="with a code that is entered on any device")
    way.add_argument("--browser", action="store_true", help="with a browser on this machine")
    leaving = commands.add_parser("logout", help="forget an account")
    for action, command in ((entering, _login), (leaving, _logout)):
        action.add_argument("profile", nargs="?", metavar="PROFILE", help='a profile with auth = "login"')
        _add_common(action)
        action.set_defaults(command=command)


def _add_approvals(commands: "Subparsers") -> None:
    parser = commands.add_parser("approvals", help="the rules that decide, why, and what waits")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="rules, and approvals that wait")
    listing.add_argument("--json", action="store_true")
    explaining = actions.add_parser("explain", help="what the rules say of a command (exit 0 allow, 3 deny, 10 ask)")
    explaining.add_argument("text", metavar="CMD")
    explaining.add_argument("--sandbox", metavar="LEVEL")
    explaining.add_argument("--network", action="store_true", help="confined, and with network for this command")
    revoking = actions.add_parser("revoke", help="remove a rule")
    revoking.add_argument("rule", metavar="RULE")
    logging = actions.add_parser("log", help="who decided what, when, by which rule; the newest last")
    logging.add_argument("--session", metavar="ID", help="of this session alone")
    logging.add_argument("--since", metavar="TIME", help="such as 2h, 7d, or 2026-01-31")
    logging.add_argument("--limit", type=int, default=50, metavar="N")
    logging.add_argument("--json", action="store_true")
    for action, name in ((listing, "list"), (explaining, "explain"), (revoking, "revoke"), (logging, "log")):
        _add_common(action)
        action.set_defaults(command=_approvals, action=name)
    trusting = commands.add_parser("trust", help="let a folder's own buddy.toml make things stricter")
    trusting.add_argument("folder", metavar="DIR")
    trusting.add_argument("--revoke", action="store_true", help="trust it no more")
    _add_common(trusting)
    trusting.set_defaults(command=_trust)


def _add_memory(commands: "Subparsers") -> None:
    parser = commands.add_parser("memory", help="what is remembered of earlier sessions: search, forget")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    searching = actions.add_parser("search", help="what would be recalled")
    searching.add_argument("query", metavar="QUERY")
    searching.add_argument("--all", action="store_true", help="of all directories, not only this one")
    searching.add_argument("--session", metavar="ID", help="of one session")
    searching.add_argument("--limit", type=_count, default=8, metavar="N")
    searching.add_argument("--json", action="store_true")
    forgetting = actions.add_parser("forget", help="take a snippet out, or all of a session")
    forgetting.add_argument("chunk", nargs="?", type=int, metavar="ID", help="a snippet's number")
    forgetting.add_argument("--session", metavar="ID", help="everything of this session")
    for action, name in ((searching, "search"), (forgetting, "forget")):
        _add_common(action)
        action.set_defaults(command=_memory, action=name)


def _add_replay(commands: "Subparsers") -> None:
    parser = commands.add_parser("replay", help="play a session back, or prove that it plays the same again")
    parser.add_argument("session_id", metavar="ID", help="a session's id, the beginning of one, or last")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--speed", type=_speed, default=1.0, metavar="N", help="so many times as fast")
    how.add_argument("--fast", action="store_true", help="at once")
    how.add_argument("--verify", action="store_true", help="run it again with what was recorded, and compare")
    parser.add_argument("--stream-json", action="store_true", help="every event, one JSON object per line")
    _add_common(parser)
    parser.set_defaults(command=_replay)


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError("must be between 1 and 100")
    return number


def _speed(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


def _add_project(commands: "Subparsers") -> None:
    parser = commands.add_parser("project", help="folders with an agent runtime of their own: create, list, show")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    creating = actions.add_parser("create", help="make a project of this folder")
    creating.add_argument("name", metavar="NAME")
    creating.add_argument("--agent-runtime", metavar="NAME", help=_RUNTIMES)
    listing = actions.add_parser("list", help="all projects")
    showing = actions.add_parser("show", help="one project, or this folder's, and what its sessions can be run by")
    showing.add_argument("name", nargs="?", metavar="NAME")
    for action, name in ((creating, "create"), (listing, "list"), (showing, "show")):
        if name != "create":
            action.add_argument("--json", action="store_true")
        _add_common(action)
        action.set_defaults(command=_project, action=name)


def _add_small(commands: "Subparsers") -> None:
    doctor = commands.add_parser("doctor", help="check this installation and say what is wrong")
    doctor.add_argument("--json", action="store_true", help="print the checks as one JSON object")
    _add_common(doctor)
    doctor.set_defaults(command=_doctor)
    demo = commands.add_parser("demo", help="a whole session with nothing configured: run, crash, recovery, outcome")
    demo.add_argument("--fast", action="store_true", help="do not pause for reading")
    # How the demo starts its own processes.
    demo.add_argument("--child", metavar="DIR", help=argparse.SUPPRESS)
    demo.add_argument("--resume", metavar="ID", help=argparse.SUPPRESS)
    demo.add_argument("--after", type=int, default=0, metavar="SEQ", help=argparse.SUPPRESS)
    demo.set_defaults(command=_demo)
    completing = commands.add_parser("completion", help="print a completion script for a shell")
    completing.add_argument("shell", choices=("bash", "zsh", "fish", "sessions"), metavar="bash|zsh|fish")
    _add_common(completing)
    completing.set_defaults(command=_completion)
    commands.add_parser("help", help="show this help").set_defaults(command=_help)


COMMANDS: "dict[str, Callable[[Subparsers], None]]" = {
    "exec": _add_exec,
    "run": _add_run,
    "resume": _add_resume,
    "session": _add_session,
    "daemon": _add_daemon,
    "attach": _add_daemon,
    "ps": _add_daemon,
    "approvals": _add_approvals,
    "trust": _add_approvals,
    "model": _add_models,
    "login": _add_models,
    "logout": _add_models,
    "memory": _add_memory,
    "replay": _add_replay,
    "project": _add_project,
    "doctor": _add_small,
    "demo": _add_small,
    "completion": _add_small,
    "help": _add_small,
}


_RUNTIMES = "who does the work: native, droid, opencode, acp:COMMAND, or auto"


def _add_output(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the outcome as one JSON object")
    form.add_argument("--stream-json", action="store_true", help="print every event, one JSON object per line")


def _add_run_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--approve", metavar="POLICY", help="ask, all, none or a duration like 10m")
    parser.add_argument("--max-turns", type=int, metavar="N")
    parser.add_argument("--max-cost", type=float, metavar="USD")
    parser.add_argument("--max-time", metavar="DURATION", help="such as 90s or 10m")
    parser.add_argument("--max-tokens", type=int, metavar="N")
    parser.add_argument("--profile", metavar="NAME", help="a model profile of buddy.toml")
    parser.add_argument("-m", "--model", metavar="MODEL")
    parser.add_argument("--agent-runtime", metavar="NAME", help=_RUNTIMES)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--container", metavar="NAME", help="work in this running container; -C is a path in there")
    place.add_argument("--ssh", metavar="HOST", help="work on this machine; -C is a path over there")
    pane = parser.add_mutually_exclusive_group()
    pane.add_argument("--tmux", nargs="?", const=True, metavar="SESSION", help="run commands in a pane to watch")
    pane.add_argument("--no-tmux", action="store_true", help="run commands without a pane")
    parser.add_argument("--sandbox", metavar="LEVEL", help="host, confined or container")
    parser.add_argument("--plan", action="store_true", help="only look: offer the model no tool that changes anything")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE")
    parser.add_argument("--state-dir", metavar="DIR")
    parser.add_argument("--socket", metavar="PATH")
    parser.add_argument("-C", dest="directory", metavar="DIR", default=".", help="the workspace (this directory)")


def _repl(options: argparse.Namespace) -> int:
    from buddy.cli.first_run import prepare, with_model
    from buddy.cli.repl import repl

    prepare(options)
    return with_model(repl, options)


def _version(_: argparse.Namespace) -> int:
    from buddy.version import VERSION

    print(f"buddy {VERSION}")
    return 0


def _completion(options: argparse.Namespace) -> int:
    from buddy.cli.completion import completion

    return completion(build_parser(), options)


def _exec(options: argparse.Namespace) -> int:
    from buddy.cli.run import run_exec

    return run_exec(options)


def _resume(options: argparse.Namespace) -> int:
    if not (options.json or options.stream_json) and sys.stdin.isatty() and sys.stderr.isatty():
        from buddy.cli.repl import resume_here

        return resume_here(options)
    from buddy.cli.exec import resume

    return resume(options)


def _session(options: argparse.Namespace) -> int:
    from buddy.cli.session import session

    return session(options)


def _daemon(options: argparse.Namespace) -> int:
    from buddy.cli.later import put_off

    put_off()
    from buddy.cli.daemon import daemon

    return daemon(options)


def _attach(options: argparse.Namespace) -> int:
    from buddy.cli.attach import attach

    return attach(options)


def _ps(options: argparse.Namespace) -> int:
    from buddy.cli.attach import ps

    return ps(options)


def _model(options: argparse.Namespace) -> int:
    from buddy.cli.model import list_profiles

    return list_profiles(options)


def _login(options: argparse.Namespace) -> int:
    from buddy.cli.login import login

    return login(options)


def _logout(options: argparse.Namespace) -> int:
    from buddy.cli.login import logout

    return logout(options)


def _approvals(options: argparse.Namespace) -> int:
    from buddy.cli.approvals import approvals

    return approvals(options)


def _trust(options: argparse.Namespace) -> int:
    from buddy.cli.approvals import trust

    return trust(options)


def _project(options: argparse.Namespace) -> int:
    from buddy.cli.project import project

    return project(options)


def _doctor(options: argparse.Namespace) -> int:
    from buddy.cli.doctor import doctor

    return doctor(options)


def _memory(options: argparse.Namespace) -> int:
    from buddy.cli.memory import memory

    return memory(options)


def _replay(options: argparse.Namespace) -> int:
    from buddy.cli.replay import replay

    return replay(options)


def _demo(options: argparse.Namespace) -> int:
    from buddy.cli.demo import demo

    return demo(options)


def _help(_: argparse.Namespace) -> int:
    build_parser().print_help()
    return 0

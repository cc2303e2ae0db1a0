"""The arguments of `daemon`, `web`, `project`, `model`, `login`, `logout`, `doctor`, `demo` and help for the user."""

import argparse
from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import RUNTIMES, Parser, add, add_actions, add_common, add_json, finish, whole_number
from buddy.errors import UserError

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers

# `sessions` is for the scripts themselves, and is not offered.
SHELLS = ("bash", "zsh", "fish", "sessions")


def add_daemon(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "daemon", "manage the daemon, the runtime that all clients share"))
    running = add(actions, "run", "run in the foreground")
    starting = add(actions, "start", "start in the background")
    installing = add(
        actions,
        "install",
        "run it as a systemd service of your user, started again after a crash",
        "keys: the service does not see your shell's variables; put them into daemon.env next to buddy.toml (0600,\n"
        "NAME=value), or use api_key_file or buddy login        logged out: loginctl enable-linger keeps it running",
    )
    installing.add_argument("--print", action="store_true", help="print the unit instead of installing it")
    installing.add_argument("--remove", action="store_true", help="stop the service and remove it")
    for action in (running, starting, installing):
        _add_listen(action, "also serve the console and WebSocket, on a loopback address")
    restarting = add(
        actions,
        "restart",
        "restart it with the Buddy that is installed now; runs continue",
        "No further command is started, and running ones may end first. What does not end in time is stopped, and its\n"
        "outcome is unknown to the model; commands in tmux panes keep running.",
    )
    waiting = "how long running commands may take to end (default 1m)"
    restarting.add_argument("--wait", metavar="DURATION", default="1m", help=waiting)
    stopping = add(actions, "stop", "cancel active runs and shut down")
    status = add(actions, "status", "show whether it runs, and what it does")
    add_json(status)
    logging = add(actions, "logs", "show the log")
    lines = "number of lines (default 50)"
    logging.add_argument("-n", "--lines", type=whole_number, default=50, metavar="N", help=lines)
    logging.add_argument("-f", "--follow", action="store_true", help="keep printing new lines")
    named = {
        "run": running,
        "start": starting,
        "restart": restarting,
        "stop": stopping,
        "status": status,
        "logs": logging,
    }
    finish({**named, "install": installing}, _daemon)


def add_web(commands: "Subparsers") -> None:
    parser = add(
        commands,
        "web",
        "open the console, every session in a browser",
        "stdout has the link alone; it works once        guests: buddy web --share observer --session last",
    )
    _add_listen(parser, "listen here, on a loopback address (default: the last port, or the first free one from 7878)")
    parser.add_argument("--no-open", action="store_true", help="print the link, do not start a browser")
    sharing = parser.add_mutually_exclusive_group()
    roles = ("observer", "approver", "driver")
    sharing.add_argument(
        "--share", choices=roles, metavar="ROLE", help="link for a guest: observer, approver or driver"
    )
    sharing.add_argument("--revoke", action="store_true", help="log out everybody; with --session, its guests")
    parser.add_argument("--session", metavar="ID", help="session of --share or --revoke")
    parser.add_argument("--expires", metavar="DURATION", help="how long a guest has access (default 1d)")
    add_common(parser)
    parser.set_defaults(command=_web)


def _add_listen(parser: Parser, text: str) -> None:
    parser.add_argument("--listen", metavar="[HOST:]PORT", help=text)
    parser.add_argument("--allow-remote", action="store_true", help="let --listen use any address")
    parser.add_argument("--tls-cert", metavar="FILE", help="TLS certificate")
    parser.add_argument("--tls-key", metavar="FILE", help="TLS key")


def add_project(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "project", "per-folder agent settings: create, set, list, show or delete"))
    named = "project name or id (default: the project of this directory)"
    creating = add(actions, "create", "make this folder a project")
    creating.add_argument("name", metavar="NAME", help="project name")
    creating.add_argument("--agent-runtime", metavar="NAME", help=RUNTIMES)
    changing = add(actions, "set", "change a project")
    changing.add_argument("name", nargs="?", default=argparse.SUPPRESS, metavar="NAME", help=named)
    changing.add_argument("--agent-runtime", metavar="NAME", help=f"{RUNTIMES}; or default, the server's")
    changing.add_argument("--name", dest="new_name", metavar="NEW", help="new name")
    deleting = add(actions, "delete", "make a folder an ordinary one again; its files and sessions stay")
    deleting.add_argument("name", metavar="NAME", help="project name or id")
    listing = add(actions, "list", "list projects")
    showing = add(actions, "show", "show a project and the agent runtimes available to it")
    showing.add_argument("name", nargs="?", default=argparse.SUPPRESS, metavar="NAME", help=named)
    add_json(listing)
    add_json(showing)
    parsers = {"create": creating, "set": changing, "delete": deleting, "list": listing, "show": showing}
    finish(parsers, _project)


def add_model(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "model", "list available models"))
    listing = add(actions, "list", "list profiles, their servers' models, context windows and prices")
    add_json(listing)
    add_common(listing)
    listing.set_defaults(command=_model)


def add_login(commands: "Subparsers") -> None:
    parser = add(commands, "login", "log in with an account instead of an API key")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--device", action="store_true", help="enter a code on any device")
    way.add_argument("--browser", action="store_true", help="use a browser on this machine")
    parser.add_argument("profile", nargs="?", metavar="PROFILE", help='profile with auth = "login"')
    add_common(parser)
    parser.set_defaults(command=_login)


def add_logout(commands: "Subparsers") -> None:
    parser = add(commands, "logout", "log out")
    parser.add_argument("profile", nargs="?", metavar="PROFILE", help='profile with auth = "login"')
    add_common(parser)
    parser.set_defaults(command=_logout)


def add_doctor(commands: "Subparsers") -> None:
    parser = add(commands, "doctor", "check this installation")
    add_json(parser)
    add_common(parser)
    parser.set_defaults(command=_doctor)


def add_demo(commands: "Subparsers") -> None:
    parser = add(commands, "demo", "run a complete session with nothing configured: crash and recovery included")
    parser.add_argument("--fast", action="store_true", help="do not pause")
    # The demo starts its own processes with these.
    parser.add_argument("--child", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--resume", metavar="ID", help=argparse.SUPPRESS)
    parser.add_argument("--after", type=int, default=0, metavar="SEQ", help=argparse.SUPPRESS)
    parser.set_defaults(command=_demo)


def add_completion(commands: "Subparsers") -> None:
    parser = add(
        commands,
        "completion",
        "print a completion script for a shell",
        'bash, zsh: eval "$(buddy completion bash)"        fish: buddy completion fish | source',
    )
    parser.add_argument("shell", type=_shell, choices=SHELLS, metavar="bash|zsh|fish", help="shell")
    add_common(parser)
    parser.set_defaults(command=_completion)


def _shell(name: str) -> str:
    if name not in SHELLS:
        raise argparse.ArgumentTypeError(f"unknown shell {name!r}. Available: bash, zsh, fish")
    return name


def add_help(commands: "Subparsers") -> None:
    parser = add(commands, "help", "show this help, or the help of a command")
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="command, such as exec or session list")
    parser.set_defaults(command=_help)


ADD = {
    "daemon": add_daemon,
    "web": add_web,
    "project": add_project,
    "model": add_model,
    "login": add_login,
    "logout": add_logout,
    "doctor": add_doctor,
    "demo": add_demo,
    "completion": add_completion,
    "help": add_help,
}


def _daemon(options: Options) -> int:
    if options.action == "restart":
        from buddy.cli.daemon_restart import restart

        return restart(options)
    from buddy.cli.daemon import daemon

    return daemon(options)


def _web(options: Options) -> int:
    from buddy.cli.web import web

    return web(options)


def _project(options: Options) -> int:
    from buddy.cli.project import project

    return project(options)


def _model(options: Options) -> int:
    from buddy.cli.model import list_profiles

    return list_profiles(options)


def _login(options: Options) -> int:
    from buddy.cli.login import login

    return login(options)


def _logout(options: Options) -> int:
    from buddy.cli.login import logout

    return logout(options)


def _doctor(options: Options) -> int:
    from buddy.cli.doctor import doctor

    return doctor(options)


def _demo(options: Options) -> int:
    from buddy.cli.demo import demo

    return demo(options)


def _completion(options: Options) -> int:
    from buddy.cli.commands import build_parser
    from buddy.cli.completion import completion

    return completion(build_parser(), options)


def _help(options: Options) -> int:
    from buddy.cli.commands import COMMANDS, parse

    if options.words and options.words[0] not in COMMANDS:
        raise UserError(f"unknown command {options.words[0][:40]!r}", hint="see 'buddy help'")
    parse([*options.words, "--help"])
    return 0

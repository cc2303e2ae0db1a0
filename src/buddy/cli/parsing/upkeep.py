"""`daemon`, `project`, `model`, `login`, `logout` and the small ones: what is set up, and looked after."""

import argparse
from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import RUNTIMES, add, add_actions, add_common, add_json, finish
from buddy.errors import UserError

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers


def add_daemon(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "daemon", "the runtime that all clients share: run, start, stop, status, logs"))
    running = add(actions, "run", "in the foreground")
    starting = add(actions, "start", "in the background")
    for action in (running, starting):
        action.add_argument("--listen", metavar="[HOST:]PORT", help="also a WebSocket, on this machine only")
        action.add_argument("--allow-remote", action="store_true", help="let --listen name any address")
        action.add_argument("--tls-cert", metavar="FILE", help="the WebSocket's certificate")
        action.add_argument("--tls-key", metavar="FILE", help="the certificate's key")
    stopping = add(actions, "stop", "cancel what runs, and end")
    telling = add(actions, "status", "what it is doing")
    add_json(telling)
    logging = add(actions, "logs", "what it wrote")
    logging.add_argument("-n", "--lines", type=int, default=50, metavar="N", help="so many of the last lines (50)")
    logging.add_argument("-f", "--follow", action="store_true", help="and what it goes on to write")
    named = {"run": running, "start": starting, "stop": stopping, "status": telling, "logs": logging}
    finish(named, _daemon)


def add_project(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "project", "folders with an agent runtime of their own: create, list, show"))
    creating = add(actions, "create", "make a project of this folder")
    creating.add_argument("name", metavar="NAME", help="what to call it")
    creating.add_argument("--agent-runtime", metavar="NAME", help=RUNTIMES)
    listing = add(actions, "list", "all projects")
    showing = add(actions, "show", "one project, or this folder's, and what its sessions can be run by")
    named = "project name (default: the project of this directory)"
    showing.add_argument("name", nargs="?", default=argparse.SUPPRESS, metavar="NAME", help=named)
    add_json(listing)
    add_json(showing)
    finish({"create": creating, "list": listing, "show": showing}, _project)


def add_model(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "model", "list the models that can be used"))
    listing = add(actions, "list", "profiles, what their servers offer, context windows, prices")
    add_json(listing)
    add_common(listing)
    listing.set_defaults(command=_model)


def add_login(commands: "Subparsers") -> None:
    parser = add(commands, "login", "use an account instead of a key")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--device", action="store_true", help="with a code that is entered on any device")
    way.add_argument("--browser", action="store_true", help="with a browser on this machine")
    parser.add_argument("profile", nargs="?", metavar="PROFILE", help='a profile with auth = "login"')
    add_common(parser)
    parser.set_defaults(command=_login)


def add_logout(commands: "Subparsers") -> None:
    parser = add(commands, "logout", "forget an account")
    parser.add_argument("profile", nargs="?", metavar="PROFILE", help='a profile with auth = "login"')
    add_common(parser)
    parser.set_defaults(command=_logout)


def add_doctor(commands: "Subparsers") -> None:
    parser = add(commands, "doctor", "check this installation and say what is wrong")
    add_json(parser)
    add_common(parser)
    parser.set_defaults(command=_doctor)


def add_demo(commands: "Subparsers") -> None:
    parser = add(commands, "demo", "a whole session with nothing configured: run, crash, recovery, outcome")
    parser.add_argument("--fast", action="store_true", help="do not pause for reading")
    # How the demo starts its own processes.
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
    parser.add_argument(
        "shell", choices=("bash", "zsh", "fish", "sessions"), metavar="bash|zsh|fish", help="whose script"
    )
    add_common(parser)
    parser.set_defaults(command=_completion)


def add_help(commands: "Subparsers") -> None:
    parser = add(commands, "help", "show this help, or a command's")
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="such as exec, or session list")
    parser.set_defaults(command=_help)


ADD = {
    "daemon": add_daemon,
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
    from buddy.cli.daemon import daemon

    return daemon(options)


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
        raise UserError(f"no command {options.words[0][:40]!r}", hint="buddy help lists them")
    parse([*options.words, "--help"])
    return 0

"""`session`, `attach`, `ps`, `replay` and `memory`: what ran, and what is left of it."""

import argparse
from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import add, add_actions, add_common, add_json, add_session, finish

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers

_ALL = "of all directories, not only this one"
_EVENTS = "every event, one JSON object per line"


def add_sessions(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "session", "list, show, search, export, fork, import or delete sessions"))
    listing = add(actions, "list", "sessions by last use")
    listing.add_argument("--all", action="store_true", help=_ALL)
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="so many at most (20)")
    add_json(listing)
    showing = add(actions, "show", "what happened, readable")
    exporting = add(actions, "export", _EVENTS)
    deleting = add(actions, "delete", "remove a session and its log")
    searching = add(actions, "search", "the sessions in which a text was said")
    searching.add_argument("text", metavar="TEXT", help="letter case does not matter")
    searching.add_argument("--all", action="store_true", help=_ALL)
    add_json(searching)
    forking = add(actions, "fork", "a copy that goes its own way")
    for action in (showing, exporting, deleting, forking):
        add_session(action)
    forking.add_argument("--seq", type=int, metavar="N", help="up to this event; without it, all of it")
    importing = add(actions, "import", "take up .buddyx and .agentx session files")
    importing.add_argument("folder", metavar="DIR", help="where they lie")
    named = {"list": listing, "show": showing, "export": exporting, "delete": deleting, "search": searching}
    finish({**named, "fork": forking, "import": importing}, _session)


def add_attach(commands: "Subparsers") -> None:
    parser = add(commands, "attach", "follow a session, line by line")
    add_session(parser)
    parser.add_argument("--read-only", action="store_true", help="look, and be unable to do more")
    parser.add_argument("--after", type=int, default=0, metavar="SEQ", help="only what came after this event")
    parser.add_argument("--stream-json", action="store_true", help=_EVENTS)
    add_common(parser)
    parser.set_defaults(command=_attach)


def add_ps(commands: "Subparsers") -> None:
    parser = add(commands, "ps", "the active runs")
    add_json(parser)
    add_common(parser)
    parser.set_defaults(command=_ps)


def add_replay(commands: "Subparsers") -> None:
    parser = add(commands, "replay", "play a session back, or prove that it plays the same again")
    add_session(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--speed", type=_speed, default=1.0, metavar="N", help="so many times as fast")
    how.add_argument("--fast", action="store_true", help="at once")
    how.add_argument("--verify", action="store_true", help="run it again with what was recorded, and compare")
    parser.add_argument("--stream-json", action="store_true", help=_EVENTS)
    add_common(parser)
    parser.set_defaults(command=_replay)


def add_memory(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "memory", "what is remembered of earlier sessions: search, forget"))
    searching = add(actions, "search", "what would be recalled")
    searching.add_argument("query", metavar="QUERY", help="as you would ask the model")
    searching.add_argument("--all", action="store_true", help=_ALL)
    searching.add_argument("--session", metavar="ID", help="of one session")
    searching.add_argument("--limit", type=_count, default=8, metavar="N", help="so many at most (8)")
    add_json(searching)
    forgetting = add(actions, "forget", "take a snippet out, or all of a session")
    forgetting.add_argument("chunk", nargs="?", type=int, metavar="ID", help="a snippet's number")
    forgetting.add_argument("--session", metavar="ID", help="everything of this session")
    finish({"search": searching, "forget": forgetting}, _memory)


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


ADD = {"session": add_sessions, "attach": add_attach, "ps": add_ps, "replay": add_replay, "memory": add_memory}


def _session(options: Options) -> int:
    from buddy.cli.session import session

    return session(options)


def _attach(options: Options) -> int:
    from buddy.cli.attach import attach

    return attach(options)


def _ps(options: Options) -> int:
    from buddy.cli.attach import ps

    return ps(options)


def _replay(options: Options) -> int:
    from buddy.cli.replay import replay

    return replay(options)


def _memory(options: Options) -> int:
    from buddy.cli.memory import memory

    return memory(options)

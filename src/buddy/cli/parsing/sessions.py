"""The arguments of `session`, `changes`, `undo`, `attach`, `ps`, `replay` and `memory`."""

import argparse
from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import (
    add,
    add_actions,
    add_common,
    add_json,
    add_session,
    finish,
    natural_number,
    number,
    positive_number,
    whole_number,
)

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers

_ALL = "include all directories"
_EVENTS = "print every event, one JSON object per line"


def add_sessions(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "session", "list, show, search, export, fork, import or delete sessions"))
    listing = add(actions, "list", "list sessions, most recently used first")
    listing.add_argument("--all", action="store_true", help=_ALL)
    listing.add_argument(
        "--limit", type=whole_number, default=20, metavar="N", help="maximum number of sessions (default 20)"
    )
    listing.add_argument("--archived", action="store_true", help="list archived sessions instead")
    add_json(listing)
    showing = add(actions, "show", "show a readable transcript")
    exporting = add(actions, "export", _EVENTS)
    deleting = add(actions, "delete", "delete a session and its log")
    renaming = add(actions, "rename", "give a session a title")
    archiving = add(actions, "archive", "take a session out of the list; it stays usable")
    searching = add(actions, "search", "find titles and messages that contain words")
    searching.add_argument("words", nargs="+", metavar="WORD", help="words to find, all of them, ignoring case")
    searching.add_argument("--all", action="store_true", help=_ALL)
    add_json(searching)
    forking = add(actions, "fork", "create an independent copy")
    for action in (showing, deleting, forking, renaming, archiving):
        add_session(action)
    add_session(exporting, nargs="?")
    exporting.add_argument("--all", action="store_true", help="export all sessions of all directories")
    showing.add_argument("--at", dest="at", type=whole_number, metavar="SEQ", help="as of this event, with the files")
    showing.add_argument("--file", metavar="PATH", help="with --at: print this file as it was then")
    forking.add_argument("--seq", type=whole_number, metavar="N", help="copy up to event N (default: everything)")
    renaming.add_argument("words", nargs="+", metavar="TITLE", help="one line of text")
    archiving.add_argument("--undo", action="store_true", help="bring it back")
    importing = add(actions, "import", "import exported sessions, or .buddyx and .agentx session files")
    importing.add_argument("folder", metavar="FILE", help="output of session export, - for stdin, or a folder")
    named = {"list": listing, "show": showing, "export": exporting, "delete": deleting, "search": searching}
    more = {"fork": forking, "import": importing, "rename": renaming, "archive": archiving}
    finish({**named, **more}, _session)


def add_changes(commands: "Subparsers") -> None:
    parser = add(commands, "changes", "show the files that a session changed (default: its last run that changed some)")
    add_session(parser, nargs="?")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--run", metavar="ID", help="only this run")
    which.add_argument("--call", metavar="ID", help="only this tool call")
    which.add_argument("--to", dest="seq", type=natural_number, metavar="SEQ", help="everything after this event")
    which.add_argument("--all", action="store_true", help="everything")
    parser.add_argument("--turn", type=positive_number, metavar="N", help="only this turn of the run")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--stat", action="store_true", help="one line per file (default)")
    form.add_argument("--diff", action="store_true", help="print the diffs")
    form.add_argument("--json", action="store_true", help="print JSON, with the diffs")
    add_common(parser)
    parser.set_defaults(command=_changes)


def add_undo(commands: "Subparsers") -> None:
    text = "bring files back to what they were (default: before the last run that changed some)"
    parser = add(commands, "undo", text, "exit status: 0 done, 1 some files were left alone (conflicts)")
    add_session(parser, nargs="?")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--run", metavar="ID", help="undo this run")
    which.add_argument("--call", metavar="ID", help="undo this tool call")
    which.add_argument("--to", dest="seq", type=natural_number, metavar="SEQ", help="undo everything after this event")
    which.add_argument("--all", action="store_true", help="undo everything")
    which.add_argument("--redo", action="store_true", help="take the last undo back")
    parser.add_argument("--dry-run", action="store_true", help="show what would be restored, and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--force",
        action="append",
        default=[],
        metavar="PATH",
        help="restore this file although it was changed since (repeatable)",
    )
    add_json(parser)
    add_common(parser)
    parser.set_defaults(command=_undo)


def add_worktree(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "worktree", "list, merge or remove worktrees that --worktree made"))
    listing = add(actions, "list", "list the worktrees of this repository")
    add_json(listing)
    merging = add(actions, "merge", "commit what a worktree has, and merge it into the branch that is checked out")
    removing = add(actions, "remove", "delete a worktree and its branch")
    for action in (merging, removing):
        action.add_argument("name", metavar="NAME", help="name of the worktree, as list shows it")
    removing.add_argument("--discard", action="store_true", help="also if it has changes that are not merged")
    finish({"list": listing, "merge": merging, "remove": removing}, _worktree)


def add_attach(commands: "Subparsers") -> None:
    parser = add(commands, "attach", "watch a session, line by line")
    add_session(parser)
    parser.add_argument("--read-only", action="store_true", help="attach as a read-only observer")
    parser.add_argument("--after", type=natural_number, default=0, metavar="SEQ", help="start after this event")
    parser.add_argument("--stream-json", action="store_true", help=_EVENTS)
    add_common(parser)
    parser.set_defaults(command=_attach)


def add_ps(commands: "Subparsers") -> None:
    parser = add(commands, "ps", "list active runs")
    add_json(parser)
    add_common(parser)
    parser.set_defaults(command=_ps)


def add_replay(commands: "Subparsers") -> None:
    parser = add(commands, "replay", "play a session back, or verify that it replays identically")
    add_session(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--speed", type=_speed, default=1.0, metavar="N", help="playback speed (default 1)")
    how.add_argument("--fast", action="store_true", help="no delays")
    how.add_argument("--verify", action="store_true", help="run it again from the recorded inputs and compare")
    parser.add_argument("--stream-json", action="store_true", help=_EVENTS)
    add_common(parser)
    parser.set_defaults(command=_replay)


def add_memory(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "memory", "search or forget what is remembered from earlier sessions"))
    searching = add(actions, "search", "search the memory")
    searching.add_argument("query", metavar="QUERY", help="question or keywords")
    searching.add_argument("--all", action="store_true", help=_ALL)
    searching.add_argument("--session", metavar="ID", help="only this session")
    searching.add_argument(
        "--limit", type=_count, default=8, metavar="N", help="maximum number of snippets (default 8)"
    )
    add_json(searching)
    forgetting = add(actions, "forget", "remove a snippet, or everything from a session")
    forgetting.add_argument("chunk", nargs="?", type=whole_number, metavar="ID", help="snippet number")
    forgetting.add_argument("--session", metavar="ID", help="remove everything from this session")
    finish({"search": searching, "forget": forgetting}, _memory)


def _count(text: str) -> int:
    count = whole_number(text)
    if not 1 <= count <= 100:
        raise argparse.ArgumentTypeError("must be between 1 and 100")
    return count


def _speed(text: str) -> float:
    speed = number(text)
    if not speed > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return speed


ADD = {
    "session": add_sessions,
    "changes": add_changes,
    "undo": add_undo,
    "worktree": add_worktree,
    "attach": add_attach,
    "ps": add_ps,
    "replay": add_replay,
    "memory": add_memory,
}


def _session(options: Options) -> int:
    from buddy.cli.session import session

    return session(options)


def _changes(options: Options) -> int:
    from buddy.cli.changes import changes

    return changes(options)


def _undo(options: Options) -> int:
    from buddy.cli.undo import undo

    return undo(options)


def _worktree(options: Options) -> int:
    from buddy.cli.worktree import worktree

    return worktree(options)


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

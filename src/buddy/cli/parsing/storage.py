"""The arguments of `storage`, `backup` and `restore`."""

from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import add, add_common, add_json, whole_number

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers


def add_storage(commands: "Subparsers") -> None:
    parser = add(
        commands,
        "storage",
        "show what sessions take on the disk, and remove old ones",
        "buddy storage prune --older-than 90d        buddy storage prune --max-size 5GB --dry-run\n"
        "[storage] in buddy.toml has the daemon do it once a day; nothing is removed by itself otherwise.",
    )
    parser.add_argument("--limit", type=whole_number, default=10, metavar="N", help="sessions to show (default 10)")
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    actions.type = str  # the action's own parser says which of its flags has an empty value
    pruning = add(actions, "prune", "remove old sessions")
    pruning.add_argument("--older-than", metavar="DURATION", help="sessions not used for this long, such as 90d")
    pruning.add_argument("--max-size", metavar="SIZE", help="the oldest until the rest takes this much, such as 5GB")
    pruning.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    pruning.add_argument("-y", "--yes", action="store_true", help="do not ask")
    for one in (parser, pruning):
        add_json(one)
        add_common(one)
    parser.set_defaults(command=_storage)
    pruning.set_defaults(command=_storage, action="prune")


def add_backup(commands: "Subparsers") -> None:
    does = "copy all sessions into a new directory, also while the daemon is running"
    parser = add(commands, "backup", does, "Your configuration (buddy.toml) and auth.json are not copied.")
    parser.add_argument("folder", metavar="DIR", help="directory to create")
    add_common(parser)
    parser.set_defaults(command=_backup)


def add_restore(commands: "Subparsers") -> None:
    parser = add(commands, "restore", "bring back what buddy backup has copied")
    parser.add_argument("folder", metavar="DIR", help="directory that buddy backup has created")
    parser.add_argument("--replace", action="store_true", help="move present sessions away, instead of refusing")
    add_common(parser)
    parser.set_defaults(command=_restore)


ADD = {"storage": add_storage, "backup": add_backup, "restore": add_restore}


def _storage(options: Options) -> int:
    from buddy.cli.storage import storage

    return storage(options)


def _backup(options: Options) -> int:
    from buddy.cli.backup import backup

    return backup(options)


def _restore(options: Options) -> int:
    from buddy.cli.restore import restore

    return restore(options)

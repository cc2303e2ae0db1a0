"""`buddy undo`: bring files back to what they were before a run, a call or an event."""

import json
import os
import sys
from typing import TYPE_CHECKING

from buddy.cli.connect import blocking_client
from buddy.cli.options import Options
from buddy.client.core import Fields
from buddy.client.steps import find_session
from buddy.errors import UserError
from buddy.terminal.escape import escape

if TYPE_CHECKING:
    from buddy.client.blocking import BlockingClient


def undo(options: Options) -> int:
    """Show what would be restored, ask, and restore it."""
    if not options.dry_run and not options.yes and not (sys.stdin.isatty() and not options.json):
        raise UserError("undo needs --yes or --dry-run here: nobody can be asked", hint="buddy undo --dry-run")
    with blocking_client(options, "cli") as client:
        session_id = client.perform(find_session(options.session_id or "last", options.directory))
        reply = client.ask("restore_files", _wanted(options, dry_run=True), session_id)
        _warn_of_forced(options, reply)
        is_previewed = (options.dry_run or not options.yes) and not options.json
        if is_previewed:
            _show(reply, "would be restored" if options.dry_run else "", is_redo=options.redo)
        if not options.dry_run and reply["restored"] and (options.yes or _confirm(reply["restored"])):
            reply = _restore(client, options, session_id)
    if options.json:
        print(json.dumps({"sessionId": session_id, "dryRun": options.dry_run, **reply}))
    elif options.yes and not options.dry_run:
        _show(reply, "restored", is_redo=options.redo)
    return 1 if reply["conflicts"] else 0


def _warn_of_forced(options: Options, reply: Fields) -> None:
    """A forced path that is not among the changes may be misspelt."""
    changed = {file["path"].rstrip("/") for file in (*reply["restored"], *reply["conflicts"])}
    forced = [_relative(path, options.directory) for path in options.force]
    unknown = [path for path in forced if path.rstrip("/").removeprefix("./") not in changed]
    if unknown:
        print(f"warning: --force names what would not be restored: {escape(', '.join(unknown))}", file=sys.stderr)


def _restore(client: "BlockingClient", options: Options, session_id: str) -> Fields:
    reply = client.ask("restore_files", _wanted(options, dry_run=False), session_id)
    if not options.yes:
        print(f"restored {_count(reply['restored'])}; buddy undo --redo takes it back", file=sys.stderr)
        _show_conflicts(reply["conflicts"])
    return reply


def _wanted(options: Options, *, dry_run: bool) -> Fields:
    chosen = {"runId": options.run, "callId": options.call, "toSeq": options.seq}
    selection = {name: value for name, value in chosen.items() if value is not None}
    force = [_relative(path, options.directory) for path in options.force]
    return {**selection, "all": options.all, "redo": options.redo, "dryRun": dry_run, "force": force}


def _relative(path: str, directory: str) -> str:
    """A path as the list shows it: relative to the workspace."""
    root = os.path.realpath(directory)
    return os.path.relpath(path, root) if path.startswith(f"{root}/") else path


def _show(reply: Fields, verb: str, *, is_redo: bool) -> None:
    files: list[Fields] = reply["restored"]
    width = max((len(escape(file["path"])) for file in files), default=0)
    for file in files:
        print(f"{escape(file['path']):<{width}}  {_effect(file['change']):<8}  +{file['added']} -{file['removed']}")
    _show_conflicts(reply["conflicts"])
    if not files and not reply["conflicts"]:
        print(f"nothing to {'redo' if is_redo else 'undo'}", file=sys.stderr)
    elif verb:
        print(f"{_count(files)} {verb}", file=sys.stderr)


def _effect(change: str) -> str:
    """What the undo does to a file."""
    return {"added": "created", "deleted": "removed"}.get(change, "changed")


def _show_conflicts(conflicts: list[Fields]) -> None:
    for conflict in conflicts:
        print(f"conflict: {escape(conflict['path'])}: {escape(conflict['why'])}", file=sys.stderr)
    if conflicts:
        print("hint: --force PATH restores a file anyway; the present content stays redoable", file=sys.stderr)


def _count(files: list[Fields]) -> str:
    return f"{len(files)} {'file' if len(files) == 1 else 'files'}"


def _confirm(files: list[Fields]) -> bool:
    sys.stderr.write(f"Restore {_count(files)}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")

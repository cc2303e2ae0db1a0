"""`buddy changes`: the files that a session changed."""

import json
import sys
from typing import TYPE_CHECKING

from buddy.cli.connect import blocking_client
from buddy.cli.options import Options
from buddy.client.core import Fields
from buddy.client.steps import find_session, read_blob
from buddy.terminal.escape import escape

if TYPE_CHECKING:
    from buddy.client.blocking import BlockingClient


def changes(options: Options) -> int:
    """One line per file, or the diffs."""
    wanted: Fields = {"diff": options.diff or options.json, "all": options.all}
    chosen = {"runId": options.run, "turn": options.turn, "callId": options.call, "toSeq": options.seq}
    wanted |= {name: value for name, value in chosen.items() if value is not None}
    with blocking_client(options, "cli") as client:
        session_id = client.perform(find_session(options.session_id or "last", options.directory))
        reply = client.ask("list_changes", wanted, session_id)
        for file in reply["files"] if wanted["diff"] else ():
            _complete(client, file, wanted, session_id)
    if options.json:
        print(json.dumps({"sessionId": session_id, **reply}))
        return 0
    files: list[Fields] = reply["files"]
    width = max((len(escape(file["path"])) for file in files), default=0)
    for file in files:
        if options.diff:
            sys.stdout.write(escape(file.get("diff") or ""))
        else:
            print(f"{escape(file['path']):<{width}}  {file['change']:<8}  +{file['added']} -{file['removed']}")
    for file in files:
        if file.get("conflict"):
            print(f"conflict: {escape(file['path'])}: {escape(file['conflict'])}", file=sys.stderr)
    if not files:
        print("no file was changed", file=sys.stderr)
    print(escape(reply["uncovered"]), file=sys.stderr)
    return 0


def _complete(client: "BlockingClient", file: Fields, wanted: Fields, session_id: str) -> None:
    """Get a diff in full that was too long for the reply, or for which the reply had no room."""
    if file.get("diff") is None:
        again = client.ask("list_changes", {**wanted, "path": file["path"].rstrip("/")}, session_id)["files"]
        file |= again[0] if again else {}
    if blob := file.pop("blob", None):
        file["diff"] = client.perform(read_blob(session_id, blob))

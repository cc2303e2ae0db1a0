"""`buddy changes`: the files that a session changed."""

import json
import sys

from buddy.cli.connect import blocking_client
from buddy.cli.options import Options
from buddy.client.core import Fields
from buddy.client.steps import find_session
from buddy.terminal.escape import escape


def changes(options: Options) -> int:
    """One line per file, or the diffs."""
    wanted: Fields = {"diff": options.diff or options.json, "all": options.all}
    chosen = {"runId": options.run, "turn": options.turn, "callId": options.call, "toSeq": options.seq}
    wanted |= {name: value for name, value in chosen.items() if value is not None}
    with blocking_client(options, "cli") as client:
        session_id = client.perform(find_session(options.session_id or "last", options.directory))
        reply = client.ask("list_changes", wanted, session_id)
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
    if not files:
        print("no file was changed", file=sys.stderr)
    print(reply["uncovered"], file=sys.stderr)
    return 0

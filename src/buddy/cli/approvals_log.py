"""`buddy approvals log`: who decided what, when, from which client and by which rule, newest last."""

import datetime as dt
import sys
import time

import msgspec

from buddy.cli.connect import async_client
from buddy.cli.options import Options
from buddy.client.steps import find_session
from buddy.errors import UserError
from buddy.protocol.durations import parse_duration
from buddy.protocol.requests import ListDecisions, ListDecisionsReply
from buddy.protocol.shapes import DecisionMade
from buddy.terminal.escape import escape_json, one_line

MAX_LISTED = 1000
WIDTH = 200


async def audit(options: Options) -> int:
    if not 1 <= options.limit <= MAX_LISTED:
        raise UserError(f"--limit must be between 1 and {MAX_LISTED}")
    since = _moment(options.since) if options.since else 0
    async with async_client(options, "cli") as client:
        session = await client.perform(find_session(options.session, options.directory)) if options.session else None
        request = ListDecisions(options.limit, session, since)
        found = (await client.request(request, ListDecisionsReply)).decisions
    if options.json:
        text = msgspec.json.encode({"decisions": found}).decode()
        print(escape_json(text) if sys.stdout.isatty() else text)
        return 0
    for made in found:
        print(_line(made))
    if not found:
        print("no decisions yet", file=sys.stderr)
    return 0


def _line(made: DecisionMade) -> str:
    when = dt.datetime.fromtimestamp(made.ts / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    scope = f" ({made.scope})" if made.scope else ""
    what = " ".join(part for part in (made.tool, made.summary) if part)
    why = f"  # {made.comment}" if made.comment else ""
    words = (when, made.decision, made.session_id, f"{made.by}{scope}", f"{what}{why}")
    return "  ".join(one_line(word, WIDTH) for word in words)


def _moment(text: str) -> int:
    """A duration before now, or a date."""
    seconds = parse_duration(text)
    if seconds is not None:
        return max(0, int((time.time() - seconds) * 1000))
    try:
        return max(0, int(dt.datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise UserError(f"--since {text[:40]} is not a time", hint="for example 2h, 7d or 2026-01-31T12:00") from None

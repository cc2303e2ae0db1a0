"""`buddy approvals show|approve|deny ID`: look at a pending approval from the shell, and decide it.

The run continues in the daemon, which is started if it is not running.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Literal, TextIO

from buddy.cli.connect import async_client
from buddy.cli.daemon import launch
from buddy.cli.options import Options
from buddy.client.client import Client
from buddy.errors import ProtocolError, UserError
from buddy.protocol.codes import Verdict
from buddy.protocol.grant_requests import RevokeGrant
from buddy.protocol.requests import AcceptedReply, ListApprovals, ListApprovalsReply, SubmitApproval
from buddy.protocol.shapes import ApprovalRequest, Grant
from buddy.terminal.approval_prompt import describe_rule
from buddy.terminal.approval_screen import approval_text
from buddy.terminal.escape import one_line
from buddy.terminal.line_question import terminal_size
from buddy.terminal.phrases import format_deadline

SHORTEST = 4
DONE: dict[Verdict, str] = {"approve": "approved", "deny": "denied"}


async def show(options: Options) -> int:
    """Everything that would run."""
    async with async_client(options, "cli") as client:
        asked = await _find(client, options.approval)
    _print(asked, sys.stdout)
    return 0


async def decide(options: Options, verdict: Verdict) -> int:
    """Decide one approval; the run continues, or ends, in the daemon."""
    async with async_client(options, "cli") as client:
        asked = await _find(client, options.approval)
        _print(asked, sys.stderr)
        decision = SubmitApproval(
            asked.session_id or "",
            asked.run_id or "",
            asked.approval_id,
            verdict,
            options.comment,
            _scope(options, asked),
            options.stop,
        )
        try:
            await client.request(decision, AcceptedReply, asked.session_id)
        except ProtocolError as error:
            if error.code not in ("APPROVAL_EXPIRED", "APPROVAL_NOT_FOUND"):
                raise
            raise UserError(error.message, hint="see 'buddy approvals list' and 'buddy approvals log'") from error
    print(f"{DONE[verdict]} {asked.approval_id}", file=sys.stderr)
    if not options.stop:
        print(f"follow the run with: buddy attach {asked.session_id}", file=sys.stderr)
    return 0


def revoke_granted(options: Options, otherwise: str) -> int:
    """End a grant, which is named as it is listed; its beginning or its end is enough."""
    grant = asyncio.run(_find_grant(options, otherwise))
    if not options.config:
        launch(options)  # its session is opened, and an interrupted run in it must not end with this process
    asyncio.run(_revoke(options, grant))
    print(f"revoked {grant.grant_id}: {one_line(grant.summary, 200)} is asked about again", file=sys.stderr)
    return 0


async def _find_grant(options: Options, otherwise: str) -> Grant:
    async with async_client(options, "cli") as client:
        granted = (await client.request(ListApprovals(grants=True), ListApprovalsReply)).grants
    matches = _matcher(options.rule)
    found = [grant for grant in granted if matches(grant.grant_id)]
    if len(found) > 1:
        raise UserError(f"{len(found)} grants match {options.rule[:40]!r}", hint="type more of the id")
    if not found:
        raise UserError(f"{otherwise}, and no such grant", hint="see 'buddy approvals list'")
    return found[0]


async def _revoke(options: Options, grant: Grant) -> None:
    async with async_client(options, "cli") as client:
        await client.request(RevokeGrant(grant.grant_id), AcceptedReply, grant.session_id)


def _matcher(wanted: str) -> Callable[[str], bool]:
    """Whether an approval's id is this one, or begins or ends with it."""
    start, end = "appr_" + wanted.upper().removeprefix("APPR_"), wanted.upper()
    is_long = len(wanted) >= SHORTEST
    return lambda known: known == wanted or (is_long and (known.startswith(start) or known.endswith(end)))


async def _find(client: Client, wanted: str) -> ApprovalRequest:
    """The pending approval with this id; its beginning or its end is enough."""
    pending = (await client.request(ListApprovals(), ListApprovalsReply)).approvals
    matches = _matcher(wanted)
    found = [asked for asked in pending if matches(asked.approval_id)]
    if len(found) > 1:
        raise UserError(f"{len(found)} approvals match {wanted[:40]!r}", hint="type more of the id")
    if not found:
        raise UserError(f"no pending approval {wanted[:40]!r}", hint="see 'buddy approvals list'", exit_code=1)
    return found[0]


def _scope(options: Options, asked: ApprovalRequest) -> Literal["once", "session", "always"]:
    if options.scope == "always" and asked.details.get("alwaysRule") is None:
        raise UserError("no rule can be made of this call", hint="use --scope session, or once")
    return "session" if options.scope == "session" else "always" if options.scope == "always" else "once"


def _print(asked: ApprovalRequest, stream: TextIO) -> None:
    rule = asked.details.get("alwaysRule")
    text = approval_text(asked, terminal_size(sys.stderr)[0], rule="" if rule is None else describe_rule(rule))
    for line in text.lines:
        print(line.framed, file=stream)
    if left := format_deadline(asked.expires_at, time.time()):
        print(left, file=stream)

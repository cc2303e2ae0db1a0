"""`buddy attach` and `buddy ps`: watch what the daemon does, and leave without stopping it."""

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING

from buddy.cli.connect import async_client, offer_endpoint
from buddy.cli.options import Options
from buddy.cli.report import Report
from buddy.client.client import Client
from buddy.client.steps import find_session
from buddy.protocol.basics import NO_EXPIRY
from buddy.protocol.requests import (
    ListApprovals,
    ListApprovalsReply,
    ListSessions,
    ListSessionsReply,
    MintToken,
    MintTokenReply,
)
from buddy.terminal.escape import escape
from buddy.terminal.phrases import format_deadline

if TYPE_CHECKING:
    from buddy.cli.attached_questions import AttachedQuestions

ACTIVE = ("running", "awaiting_approval")


def attach(options: Options) -> int:
    """Show what happened and what happens, line by line, until interrupted."""

    if not options.config:
        from buddy.cli.daemon import launch

        launch(options)  # detaching must stop nothing, so the session must not run in this process

    async def work() -> int:
        async with async_client(options, "cli") as client:
            session_id = await client.perform(find_session(options.session_id, options.directory))
            token = await _observer(client, session_id) if options.read_only else None
            if token is None:
                offer_endpoint(client)
            attached = await client.attach(session_id, options.after, token)
            report = Report(json=False, stream_json=options.stream_json)
            report.session(session_id)
            questions = _questions(client, session_id, options)
            async for event in client.events():
                shown = event.to_json()
                report.conversation(shown, event.line()[:-1])
                if questions is not None:
                    questions.note(shown, is_past=event.seq < attached.replay.to_seq)
        print("the daemon is gone", file=sys.stderr)
        return 75

    try:
        return asyncio.run(work())
    except KeyboardInterrupt:
        return 0


def ps(options: Options) -> int:
    """The active runs."""

    async def work() -> int:
        async with async_client(options, "cli") as client:
            found = await client.request(ListSessions(200, archived="all"), ListSessionsReply)
            deadlines = await find_deadlines(client)
        active = [session for session in found.sessions if session.state in ACTIVE]
        if options.json:
            print(
                json.dumps(
                    [
                        {
                            "sessionId": s.session_id,
                            "state": s.state,
                            "rootPath": s.repo.root_path,
                            "expiresAt": deadlines.get(s.session_id),
                            "parent": s.parent if s.agent else None,
                            "agent": s.agent,
                        }
                        for s in active
                    ]
                )
            )
            return 0
        for session in active:
            left = format_deadline(deadlines.get(session.session_id, NO_EXPIRY), time.time())
            work = f"  sub-agent {escape(session.agent)} of {session.parent}" if session.agent else ""
            place = f"{escape(session.repo.root_path)}{f'  ({left})' if left else ''}{work}"
            print(f"{session.session_id}  {session.state:<17}  {place}")
        if not active:
            print("no active runs", file=sys.stderr)
        return 0

    return asyncio.run(work())


async def find_deadlines(client: Client) -> dict[str, int]:
    """When the first pending approval of each session expires, in Unix milliseconds, as far as they do."""
    pending = (await client.request(ListApprovals(), ListApprovalsReply)).approvals
    found: dict[str, int] = {}
    for asked in pending:
        if asked.session_id and asked.expires_at < NO_EXPIRY:
            found[asked.session_id] = min(asked.expires_at, found.get(asked.session_id, NO_EXPIRY))
    return found


def _questions(client: Client, session_id: str, options: Options) -> "AttachedQuestions | None":
    """Those of servers are answered here if somebody can type; approvals are decided elsewhere."""
    if options.read_only or options.stream_json or not sys.stdin.isatty():
        return None
    from buddy.cli.attached_questions import AttachedQuestions

    return AttachedQuestions(client, session_id)


async def _observer(client: Client, session_id: str) -> str:
    """A token that can only observe, so that no key press can do more."""
    return (await client.request(MintToken("observer", 86400.0), MintTokenReply, session_id)).attach_token

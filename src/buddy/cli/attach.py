"""`buddy attach` and `buddy ps`: look at what the daemon does, and leave again without stopping it."""

import argparse
import asyncio
import json
import sys

from buddy.cli.embedded import connected
from buddy.cli.reading import find_session
from buddy.cli.report import Report
from buddy.client.client import Client
from buddy.protocol.envelopes import Event
from buddy.protocol.events import AssistantMessage, UserMessage
from buddy.protocol.requests import ListSessions, ListSessionsReply, MintToken, MintTokenReply
from buddy.terminal.escape import escape

ACTIVE = ("running", "awaiting_approval")


def attach(options: argparse.Namespace) -> int:
    """Show what happened and what happens, line by line, until interrupted."""

    if not options.config:
        from buddy.cli.daemon import launch

        launch(options)  # leaving must stop nothing, so what is looked at must not run in here

    async def work() -> int:
        async with connected(options, "cli") as client:
            session_id = await find_session(client, options.session_id, options.directory)
            token = await _observer(client, session_id) if options.read_only else None
            await client.attach(session_id, options.after, token)
            report = Report(json=False, stream_json=options.stream_json)
            report.session(session_id)
            async for event in client.events():
                show(report, event, stream_json=options.stream_json)
        print("the runtime is gone", file=sys.stderr)
        return 75

    try:
        return asyncio.run(work())
    except KeyboardInterrupt:
        return 0


def show(report: Report, event: Event, *, stream_json: bool) -> None:
    """One event for a person, or as it is for a program."""
    line = event.line()
    report.event(json.loads(line), line)
    body = event.body()
    if isinstance(body, (AssistantMessage, UserMessage)) and not stream_json and body.text:
        who = "you" if isinstance(body, UserMessage) else "buddy"
        text = body.text if not sys.stdout.isatty() else escape(body.text)
        print(f"{who}: {text}", flush=True)


def ps(options: argparse.Namespace) -> int:
    """The active runs."""

    async def work() -> int:
        async with connected(options, "cli") as client:
            found = await client.request(ListSessions(200), ListSessionsReply)
        active = [session for session in found.sessions if session.state in ACTIVE]
        if options.json:
            print(
                json.dumps(
                    [{"sessionId": s.session_id, "state": s.state, "rootPath": s.repo.root_path} for s in active]
                )
            )
            return 0
        for session in active:
            print(f"{session.session_id}  {session.state:<17}  {escape(session.repo.root_path)}")
        if not active:
            print("no run is active", file=sys.stderr)
        return 0

    return asyncio.run(work())


async def _observer(client: Client, session_id: str) -> str:
    """A token that can only look: what this command cannot do, no key press can either."""
    return (await client.request(MintToken("observer", 86400.0), MintTokenReply, session_id)).attach_token

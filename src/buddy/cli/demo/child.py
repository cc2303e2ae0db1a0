"""One process of the demo: a runtime, and a client of it that approves what it is asked and writes down what it sees.

Invariants: a line is written for each event, in order, after the client received it.
"""

import asyncio
import os
import sys
from pathlib import Path

from buddy.client.client import Client
from buddy.config.places import find_places
from buddy.config.settings import AgentSettings, Config, Profile
from buddy.daemon.runtime import Runtime
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired
from buddy.protocol.requests import SendUserMessage, StartSession, SubmitApproval
from buddy.protocol.shapes import Criterion, Repo, SessionOptions
from buddy.version import VERSION

PROMPT = "Add up orders.txt, write the report and send it."
CHECK = 'test "$(cat report.txt)" = "total 12"'
SECONDS = 20.0


def work(directory: Path, resume: str | None, after: int) -> int:
    asyncio.run(_work(directory, resume, after))
    return 0


async def _work(directory: Path, resume: str | None, after: int) -> None:
    script = Path(__file__).with_name("script.toml")
    config = Config(models={"demo": Profile(api="scripted", script=str(script))}, agent=AgentSettings(model="demo"))
    runtime = Runtime(config, find_places(os.environ, directory / "state"), os.environ)
    try:
        async with asyncio.timeout(SECONDS), Client(runtime.connect(), "demo", VERSION) as client:
            if resume is None:
                await _start(client, directory / "work")
            else:
                await client.attach(resume, after)
            await _follow(client)
    finally:
        await runtime.close()


async def _start(client: Client, workspace: Path) -> None:
    request = StartSession(
        "interactive", "demo", "local", Repo(str(workspace)), options=SessionOptions(approval_policy="ask")
    )
    session = await client.start_session(request)
    criteria = (Criterion("report", CHECK),)
    await client.send(SendUserMessage(session.session_id, "msg_demo", PROMPT, criteria))


async def _follow(client: Client) -> None:
    async for event in client.events():
        sys.stdout.buffer.write(event.line())
        sys.stdout.buffer.flush()
        if event.type == "run_complete":
            return
        await _approve(client, event)


async def _approve(client: Client, event: Event) -> None:
    body = event.body()
    if isinstance(body, ApprovalRequired) and event.run_id:
        await client.approve(SubmitApproval(event.session_id, event.run_id, body.approval_id, "approve"))

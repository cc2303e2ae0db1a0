"""`buddy replay ID`: play a recorded session; with `--verify`, prove that it replays identically.

Invariants: nothing is executed, and the session itself does not change.
"""

import asyncio
import sys

from buddy.backends.native.prompt import PromptSettings
from buddy.cli.connect import async_client
from buddy.cli.options import Options
from buddy.cli.report import Report
from buddy.cli.session_reader import event_in, read_lines
from buddy.cli.settings import places_of, read_config
from buddy.client.client import Client
from buddy.client.steps import find_session, read_blob
from buddy.protocol.envelopes import Event
from buddy.protocol.events import SessionStarted, ToolResult
from buddy.replay.verify import Recording, verify
from buddy.terminal.escape import escape
from buddy.tools.registry import Definition
from buddy.tools.toolbox import PANE_TOOLS, ToolDeps, toolbox

LONGEST_PAUSE = 10.0


def replay(options: Options) -> int:
    try:
        return _verify(options) if options.verify else asyncio.run(_play(options))
    except KeyboardInterrupt:
        return 0


async def _play(options: Options) -> int:
    report = Report(json=False, stream_json=options.stream_json)
    before: int | None = None
    async with async_client(options, "cli") as client:
        session_id = await client.perform(find_session(options.session_id, options.directory))
        report.session(session_id)
        async for line in read_lines(client, session_id):
            event = event_in(line)
            if before is not None and not options.fast:
                # A person's long pause is not worth waiting for.
                await asyncio.sleep(min(max(0, event.ts - before) / 1000 / options.speed, LONGEST_PAUSE))
            before = event.ts
            report.conversation(event.to_json(), event.line()[:-1])
    return 0


def _verify(options: Options) -> int:
    recording = asyncio.run(_record(options))
    verdict = verify(recording, *_prompt_parts(options, recording))
    if verdict.difference is None and not verdict.compared:
        print("nothing to verify: no run of its own was recorded, as in a fork that was not used yet", file=sys.stderr)
        return 0
    if verdict.difference is None:
        print(f"{verdict.compared} events, all identical", file=sys.stderr)
        return 0
    print(f"after {verdict.compared} identical events: {escape(verdict.difference.message)}")
    print(f"  recorded: {escape(verdict.difference.recorded)}")
    print(f"  replayed: {escape(verdict.difference.replayed)}")
    return 1


async def _record(options: Options) -> Recording:
    """Everything the log has of the session, including its long texts."""
    async with async_client(options, "cli") as client:
        session_id = await client.perform(find_session(options.session_id, options.directory))
        events = [event_in(line) async for line in read_lines(client, session_id)]
        blobs: dict[str, bytes] = {}
        for event in events:
            for blob in _blobs_of(event):
                blobs[blob] = await _read(client, session_id, blob)
    return Recording(tuple(events), blobs)


def _blobs_of(event: Event) -> list[str]:
    body = event.body()
    named = list((body.blobs or {}).values()) if body is not None else []
    return [*named, body.output] if isinstance(body, ToolResult) and body.output else named


async def _read(client: Client, session_id: str, blob: str) -> bytes:
    return (await client.perform(read_blob(session_id, blob))).encode()


def _prompt_parts(options: Options, recording: Recording) -> tuple[PromptSettings, tuple[Definition, ...]]:
    """What prompts are built from today: their length decides when the history is compacted."""
    started = next((body for event in recording.events if isinstance(body := event.body(), SessionStarted)), None)
    requested = started.options if started else None
    config = read_config(options)
    tools = toolbox(config.tools, ToolDeps())
    offered = tools if requested and requested.tmux else tools.without(PANE_TOOLS)
    instructions = (requested.system_prompt if requested else None) or config.agent.system_prompt
    return PromptSettings(instructions, places_of(options).config_dir), offered.specs()

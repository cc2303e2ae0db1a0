"""Sessions that are recorded in order to be replayed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from buddy.config.settings import AgentSettings
from buddy.log.contract import Log
from buddy.protocol.events import RunComplete
from buddy.replay.verify import Recording, Verdict, verify
from tests.harness.logs import read_all
from tests.harness.models import StepModel, Turn
from tests.harness.runtime import RuntimeClient, RuntimeHost, checked_host


class Named(Struct):
    """Where an event names a blob."""

    blobs: dict[str, str] | None = None
    output: object = None


class RecordedSession:
    """A session that is being recorded."""

    def __init__(self, host: RuntimeHost, client: RuntimeClient) -> None:
        self.host = host
        self.client = client

    async def say(self, text: str, **more: object) -> RunComplete:
        run_id = await self.client.send(text, **more)  # pyright: ignore[reportArgumentType] - passed on as given
        return await self.client.wait_for(RunComplete, lambda complete: complete.run_id == run_id)

    async def recording(self) -> Recording:
        log = self.host.runtime.log
        session = self.host.runtime.sessions.live(self.client.session_id)
        if session is not None:
            await session.journal.commit()
        return await recorded(log, self.client.session_id)


async def recorded(log: Log, session_id: str) -> Recording:
    events = await read_all(log, session_id)
    blobs: dict[str, bytes] = {}
    for event in events:
        named = msgspec.json.decode(event.payload, type=Named)
        for blob in [*(named.blobs or {}).values(), *([named.output] if isinstance(named.output, str) else [])]:
            found = await log.read_blob(blob)
            if found is not None:
                blobs[blob] = found[0]
    return Recording(tuple(events), blobs)


@asynccontextmanager
async def recording_session(
    tmp_path: Path, *turns: Turn, log: Log | None = None, policy: str = "all", agent: AgentSettings | None = None
) -> AsyncGenerator[RecordedSession]:
    async with checked_host(tmp_path, StepModel(*turns), log=log, agent=agent) as host, host.client() as client:
        await client.start(approval_policy=policy)
        yield RecordedSession(host, client)


async def verified(recording: Recording) -> Verdict:
    """In a thread: it has an event loop of its own."""
    return await asyncio.to_thread(verify, recording)


async def assert_same(recording: Recording) -> None:
    verdict = await verified(recording)
    assert verdict.difference is None, verdict.difference
    assert verdict.compared == len(recording.events)

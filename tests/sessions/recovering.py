"""A session that another process opens after the first one died."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec

from buddy.daemon.boot_clock import boot_time
from buddy.daemon.runtime import unix_ms
from buddy.log.contract import Batch, Log
from buddy.log.owners import this_owner
from buddy.protocol.envelopes import Event
from buddy.protocol.shapes import BootTime
from tests.harness.logs import read_all
from tests.harness.models import StepModel
from tests.harness.runtime import RuntimeClient, RuntimeHost, checked_host

Logs = Callable[[], Log]


@asynccontextmanager
async def recovered_client(
    dead: RuntimeHost,
    session_id: str,
    model: StepModel,
    log: Log,
    clock: Callable[[], int] = unix_ms,
    boot_clock: Callable[[], BootTime | None] = boot_time,
) -> AsyncGenerator[RuntimeClient]:
    """A client of the process after the one that died; it receives everything from the start."""
    async with (
        checked_host(dead.workspace, model, log=log, clock=clock, boot_clock=boot_clock) as host,
        host.client() as client,
    ):
        await host.runtime.sessions.recover()
        client.session_id = session_id
        await client.api.attach(session_id)
        yield client


async def cut_after(log: Log, session_id: str, first: str) -> str:
    """A copy of the session as it would be had the process died right after the first event of this type."""
    events = await read_all(log, session_id)
    end = next(index for index, event in enumerate(events) if event.type == first) + 1
    copy = f"{session_id}.cut"
    record = await log.get(session_id)
    assert record is not None
    lease = await log.create(msgspec.structs.replace(record, session_id=copy), this_owner())
    kept = [Event(copy, event.seq, event.ts, event.type, event.payload, event.run_id) for event in events[:end]]
    await log.append(Batch(copy, lease.epoch, 0, kept, state="running"))
    return copy

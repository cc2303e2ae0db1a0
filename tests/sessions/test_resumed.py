"""`session_resumed`: a session at rest is taken up again by another process, once."""

from pathlib import Path

from buddy.daemon.runtime import unix_ms
from buddy.log.memory import MemoryLog
from buddy.protocol.events import SessionResumed
from tests.harness.logs import read_all
from tests.harness.models import StepModel, answer
from tests.harness.runtime import checked_host


async def test_the_first_to_attach_after_a_restart_takes_the_session_up(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with checked_host(tmp_path, StepModel(answer("hi")), log=log) as host, host.client() as client:
        session_id = await client.start()
        await client.api.attach(session_id)
        before = len(await read_all(log, session_id))
    async with checked_host(tmp_path, StepModel(answer("hi")), log=log) as host, host.client() as client:
        await client.api.attach(session_id, before)
        assert await client.wait_for(SessionResumed) == SessionResumed(by="cli", last_seq=before)
        await client.api.attach(session_id, before)
        assert len(await read_all(log, session_id)) == before + 1

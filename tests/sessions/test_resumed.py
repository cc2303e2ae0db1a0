"""`session_resumed`: a session at rest is taken up again by another process, once."""

from pathlib import Path

from buddy.daemon.runtime import unix_ms
from buddy.log.memory import MemoryLog
from buddy.protocol.events import SessionResumed
from sessions.stage import Puppet, answer, read_all, stage


async def test_the_first_to_attach_after_a_restart_takes_the_session_up(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with stage(tmp_path, Puppet(answer("hi")), log=log) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.client.attach(session_id)
        before = len(await read_all(log, session_id))
    async with stage(tmp_path, Puppet(answer("hi")), log=log) as home, home.client() as guest:
        await guest.client.attach(session_id, before)
        assert await guest.until(SessionResumed) == SessionResumed(by="cli", last_seq=before)
        await guest.client.attach(session_id, before)
        assert len(await read_all(log, session_id)) == before + 1

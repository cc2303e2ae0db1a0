"""Workers of two versions on one task queue: the newest one gets what starts."""

import asyncio
import uuid

from tests.harness.installed import need_services

need_services("temporalio")

from buddy.cluster.temporal_engine import EngineRole, TemporalEngine, version_key
from buddy.cluster.temporal_workflow import Attempt, Outcome
from buddy.config.fleet import TemporalSettings
from tests.harness.temporal import Temporal

PATIENCE = 60.0


async def test_the_newest_version_gets_what_starts(temporal: Temporal) -> None:
    settings = TemporalSettings(address=temporal.address, task_queue=f"buddy-{uuid.uuid4().hex[:8]}")
    versions = ["0.9.0"]
    driven: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def engine(version: str) -> TemporalEngine:
        async def drive(attempt: Attempt) -> Outcome:
            await driven.put((version, attempt.session_id))
            return Outcome(attempt.number + 1)

        role = EngineRole(name=version, lease_seconds=1.0, drive=drive, versions=lambda: versions, version=version)
        made = TemporalEngine(settings, role)
        made.set_working(working=True)
        made.start()
        return made

    async def driven_by(engine: TemporalEngine, session_id: str, version: str) -> None:
        """Ask until this version does it: another may have been chosen when it was asked before."""
        async with asyncio.timeout(PATIENCE):
            found = ("", "")
            while found != (version, session_id):
                await engine.ask(session_id, 0)
                try:
                    async with asyncio.timeout(1):
                        found = await driven.get()
                except TimeoutError:
                    continue

    old = engine("0.9.0")
    new: TemporalEngine | None = None
    try:
        await driven_by(old, "sess_1", "0.9.0")
        versions.append("0.10.0")
        new = engine("0.10.0")
        await driven_by(old, "sess_2", "0.10.0")
        assert "0.10.0" in temporal.run("worker", "deployment", "describe", "--name", settings.task_queue)
        # The old one rests, as a node that drains does; nothing waits for it.
        old.set_working(working=False)
        await driven_by(new, "sess_3", "0.10.0")
    finally:
        await old.close()
        if new is not None:
            await new.close()


def test_versions_are_compared_by_number() -> None:
    assert max(["0.9.0", "0.10.0", "0.10.0-1"], key=version_key) == "0.10.0-1"

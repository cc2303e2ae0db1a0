"""What starting a command costs the log: one durable commit."""

from pathlib import Path

from buddy.daemon.runtime import unix_ms
from buddy.log.contract import Batch
from buddy.log.memory import MemoryLog
from buddy.protocol.events import RunComplete
from tests.harness.models import calls, says
from tests.harness.runtime import scripted_host


class CountingLog(MemoryLog):
    """Keeps what was appended."""

    def __init__(self) -> None:
        super().__init__(unix_ms)
        self.batches: list[Batch] = []

    async def append(self, batch: Batch) -> int:
        self.batches.append(batch)
        return await super().append(batch)


async def test_a_call_is_committed_together_with_its_claim(tmp_path: Path) -> None:
    log, turn = CountingLog(), calls(("run_shell", {"command": "true"}))
    async with scripted_host(tmp_path, turn, says("done"), log=log) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
    [claimed] = [batch for batch in log.batches if batch.claim is not None]
    assert claimed.durable
    assert [event.type for event in claimed.events][-3:] == ["tool_call", "approval_received", "tool_claimed"]

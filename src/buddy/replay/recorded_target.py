"""A target on which nothing is run or written: acceptance checks end as they ended."""

from collections.abc import Mapping

from buddy.errors import ToolError
from buddy.protocol.events import AcceptanceResult, RunCancelling, RunComplete
from buddy.replay.replay_cursor import ReplayCursor, wait_for_ever
from buddy.targets.contract import Finished, OnOutput
from buddy.targets.local import Local


class RecordedTarget(Local):
    """Files are read from this machine, because prompts name some of them."""

    def __init__(self, name: str, cursor: ReplayCursor) -> None:
        super().__init__()
        self.name = name
        self.looking = self
        self._cursor = cursor

    async def run(
        self,
        command: str,
        *,
        cwd: str,
        nonce: str,
        on_output: OnOutput,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Finished:
        del command, cwd, nonce, timeout, env
        for event, body in self._cursor.after(self._cursor.reached):
            if isinstance(body, AcceptanceResult):
                await self._cursor.wait_before(event.seq)
                await on_output("stdout", body.output.encode())
                return Finished(body.exit_code)
            if isinstance(body, RunCancelling | RunComplete):
                break
        return await wait_for_ever()

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        del content, root
        raise ToolError(f"a replay does not write {path}")

    async def kill_orphans(self, nonce: str) -> int:
        del nonce
        return 0

"""The backend of a session that can no longer be opened: its folder, target or profile no longer exists.

Invariant: the run that was in flight ends as failed and says why; nobody is left waiting for it.
"""

from typing import NoReturn

from buddy.backends.contract import Compaction, ModelName, Run
from buddy.backends.interrupted import end_started_calls
from buddy.errors import RunEnded, UserError
from buddy.protocol.events import EventBody


class UnavailableBackend:
    name = "unavailable"
    lasting: frozenset[str] = frozenset()

    def __init__(self, why: str) -> None:
        self._why = why

    def observe(self, seq: int, body: EventBody) -> None: ...

    def model(self) -> ModelName:
        return ModelName("", "", "", 0)

    async def switch(self, profile: str | None, model: str | None) -> NoReturn:
        del profile, model
        raise UserError(self._why)

    async def compact(self) -> Compaction | None:
        return None

    async def is_priced(self) -> bool:
        return False

    async def execute(self, run: Run) -> None:
        await end_started_calls(run)
        raise RunEnded("interrupted", f"the run was interrupted and cannot continue: {self._why}")

    async def close(self) -> None: ...

"""The backend of a session that can no longer be opened: its folder, target or profile no longer exists.

Invariant: the run that was in flight ends as failed and says why; nobody is left waiting for it.
"""

from typing import NoReturn

from buddy.backends.contract import Compaction, ModelName, Run
from buddy.backends.interrupted import end_started_calls
from buddy.errors import RunEnded, UserError
from buddy.log.contract import Lease, SessionRecord
from buddy.protocol.events import EventBody
from buddy.sessions.listing import ListedRow
from buddy.sessions.services import SessionServices
from buddy.sessions.session import Session
from buddy.sessions.state import SessionFold
from buddy.targets.local import Local
from buddy.tools.contract import Place


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

    async def is_priced(self, place: Place) -> bool:
        del place
        return False

    async def execute(self, run: Run) -> None:
        await end_started_calls(run)
        raise RunEnded("interrupted", f"the run was interrupted and cannot continue: {self._why}")

    async def close(self) -> None: ...


def unavailable_session(
    services: SessionServices, record: SessionRecord, lease: Lease, fold: SessionFold, why: str
) -> Session:
    """A session that can record something and do nothing."""
    place = Place(Local(), record.repo.root_path)
    return Session(services, lease, place, UnavailableBackend(why), fold, record.last_seq, ListedRow(record))

"""The limit of a day's cost in a replay: reached where it was."""

from buddy.backends.budget import BudgetExceeded
from buddy.protocol.events import EventBody, FilesChanged, RunComplete, ToolResult
from buddy.replay.recording import ReplayCursor


class RecordedDayLimit:
    """Satisfies `sessions.services.DayLimit`. What other sessions had spent is in no recording, but that the run ended
    is."""

    def __init__(self, cursor: ReplayCursor) -> None:
        self._cursor = cursor

    def add(self, user: str | None, cost_usd: float, ts: int) -> None:
        """The recording has what was spent."""

    def check(self, user: str | None) -> None:
        del user
        ahead = (body for _, body in self._cursor.rest_of_run() if not _closes(body))
        following = next(ahead, None)
        if isinstance(following, RunComplete) and following.limit == "cost":
            raise BudgetExceeded("cost", following.summary)

    async def refresh(self, user: str | None) -> None:
        """There is nothing to learn."""


def _closes(body: EventBody) -> bool:
    """Whether it may be recorded between the end of the last turn and the outcome."""
    return isinstance(body, FilesChanged) or (isinstance(body, ToolResult) and body.outcome == "closed")

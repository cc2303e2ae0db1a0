"""Stopping what is active, and deciding what it asks."""

from collections.abc import Callable, Sequence

from buddy.terminal.approval_prompt import ApprovalAnswer
from buddy.terminal.current_session import CurrentSession
from buddy.terminal.local_programs import LocalPrograms
from buddy.terminal.tasks import BackgroundTasks


class RunControl:
    def __init__(
        self,
        session: CurrentSession,
        programs: LocalPrograms,
        tasks: BackgroundTasks,
        give_back: Callable[[Sequence[str]], None],
    ) -> None:
        """`give_back` puts texts into the input."""
        self._session = session
        self._programs = programs
        self._tasks = tasks
        self._stopping = ""
        self._give_back = give_back

    def interrupt(self) -> bool:
        """Stop the user's program, else the active run; False if there is neither, or the run is already stopping."""
        if self._programs.interrupt():
            return True
        active = self._session.active
        if active is None:
            return False
        is_first, self._stopping = active != self._stopping, active
        self._tasks.request(self._cancel())
        return is_first

    async def _cancel(self) -> None:
        """Cancel the run; what was waiting comes back into the input, and starts nothing."""
        self._give_back(await self._session.cancel(return_queue=True))

    def decide(self, approval_id: str, answer: ApprovalAnswer) -> None:
        self._tasks.request(self._session.decide(approval_id, answer))
